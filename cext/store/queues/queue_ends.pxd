"""Queue ends: what the files of every queue held at one moment (`queueEnds`, `queueEnds.synced`).

A queue file cannot say itself where its entries end: a page that turned to zeros looks like the
room after the end, and a queue that is believed to be shorter than it is loses messages and gives
their offsets to others. So the writer thread, which knows what it has written, notes this for all
queues, and a start compares the files with it.

    @0   "rmqE" | u32 version 1 | 16 bytes boot id of the kernel | i64 log offset | i64 anchor
         entries: u8 bytes of topic | topic | i32 queue id | i64 min offset | i64 log offset of its
                  record | i64 end offset | i64 log offset of the last record | i32 its size
         i64 number of entries | u32 crc32 of everything up to here            all big-endian

All messages below the log offset have their queue entries in the files. Later messages are
dispatched again, so nothing needs to stop while the file is written; an entry of this file may
already include some of them. The anchor is where the last record below the log offset starts
(checkpoint.pxd).

`queueEnds` is written at barriers: after so many bytes of log, after a topic was deleted, at stop.
It counts while the same kernel runs. `queueEnds.synced` is written before a sync of the file system
and gets its name after the sync has succeeded and all of the log that its entries may know is on
the disk: so it counts also after a power cut. RocketMQ's brokers do not read these files. What such
a broker appends is above the log offset; where it removed something the entry no longer fits.

Example: 80,000 queues with topics of 20 bytes are 4.9 MB, written in 20 ms.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.store.queues.consume_queue cimport Queue, QueueEnds

cdef struct EndsHeader:
    uint8_t boot_id[16]
    int64_t log_offset
    int64_t anchor              # -1: none

cdef struct EndsEntry:
    const char* topic           # borrowed from the page, not closed by a NUL
    int32_t topic_length
    int32_t queue_id
    QueueEnds ends

# Writes the file anew as `temporary` and renames it to `path`, without a sync. OK | NO_SPACE |
# IO_ERROR, errno is set.
cdef int ends_write(const char* path, const char* temporary, const EndsHeader* header,
                    Queue** queues, int64_t count) noexcept nogil
# Reads the header; False: the data is not a whole file of this kind.
cdef bint ends_header(const uint8_t* data, int64_t length, EndsHeader* header) noexcept nogil
# Reads the entry at `at` (0: the first) and moves `at` to its end; False: there is no further one.
# Only for data that ends_header() has accepted.
cdef bint ends_next(const uint8_t* data, int64_t length, int64_t* at,
                    EndsEntry* entry) noexcept nogil
