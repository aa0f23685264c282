"""Queue ends: what the files of every queue held at one moment (`queueEnds`, `queueEnds.synced`).

A queue file cannot say itself where it ends: a page that turned to zeros looks like the room behind
the end, and a queue that is believed to be shorter than it is loses messages and gives their
offsets away again. So the writer thread, which knows what it has written, notes it here for all
queues, and a start compares the files with it.

    @0   "rmqE" | u32 version 1 | 16 bytes boot id of the kernel | i64 log offset | i64 anchor
         entries: u8 bytes of topic | topic | i32 queue id | i64 min offset | i64 log offset of its
                  record | i64 end offset | i64 log offset of the last record | i32 its size
         i64 number of entries | u32 crc32 of everything up to here            all big-endian

All messages below the log offset have their queue entries in the files; those from there on are
dispatched again, so nothing needs to stand still while the file is written. An entry of this file
may know of more of them than the log offset says. Anchor: where the last record below the log
offset starts (checkpoint.pxd).

`queueEnds` is written at barriers: after so many bytes of log, after a topic was deleted, at stop.
It counts while the same kernel runs. `queueEnds.synced` was written before a good sync of the file
system and renamed after it, when the log was on the disk as far as an entry may know it: it counts
also after a power cut. RocketMQ's brokers do not look at them. What such a broker appends lies
above the log offset; what it takes away no longer fits its entry.

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

# Writes the file anew and renames it from `temporary`. OK | NO_SPACE | IO_ERROR, errno is set; not
# synced.
cdef int ends_write(const char* path, const char* temporary, const EndsHeader* header,
                    Queue** queues, int64_t count) noexcept nogil
# The header of what was read; False: not the whole of such a file.
cdef bint ends_header(const uint8_t* data, int64_t length, EndsHeader* header) noexcept nogil
# The entry at `at`, which then moves behind it (0: the first); False: no further entry. Only for
# data that ends_header() has taken.
cdef bint ends_next(const uint8_t* data, int64_t length, int64_t* at,
                    EndsEntry* entry) noexcept nogil
