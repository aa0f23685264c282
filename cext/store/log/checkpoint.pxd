"""Checkpoint: a file of 4096 bytes that says up to where derived files can be believed.

    @0     i64  physicMsgTimestamp   ms; messages stored before it are durable in the log
    @8     i64  logicsMsgTimestamp   ms; messages stored before it are durable in the queue files
    @16    i64  indexMsgTimestamp    ms; the same for the key index
    @24    i64  masterFlushedOffset  bytes
    @32    i64  confirmPhyOffset     bytes
    @1024  rmq's own part; Apache RocketMQ neither reads nor changes it
           u32 magic "rmqC" 0x726D7143 | u32 version 1 | 16 bytes boot id of the kernel
           i64 copy of physicMsgTimestamp | i64 persisted_offset | i64 synced_offset
           i64 queue_count | i64 persisted_anchor | i64 synced_anchor
           u32 crc32 of everything from @1024 up to here

The own part is believed only when its checksum is right and its copy equals @0: another broker that
has written the store since has changed @0. All messages below persisted_offset have their queue
entries in the page cache, so it counts only while the same kernel runs, that is after kill -9. The
entries below synced_offset are on the disk, so it counts also after a power cut. synced_offset <=
persisted_offset. An anchor is where the last record below the offset starts: when that record does
not end at the offset, this is not the log that the checkpoint describes.

Example: killed at log offset 10,000,000 with persisted_offset 9,500,000 on the same boot: only the
last 500,000 bytes of the log are dispatched again.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    CHECKPOINT_BYTES = 4096
    OWN_AT = 1024
    OWN_BYTES = 76                  # magic .. crc

cdef struct CheckpointFields:
    int64_t physic_ms
    int64_t logics_ms
    int64_t index_ms
    int64_t master_flushed_offset
    int64_t confirm_offset
    int64_t persisted_offset
    int64_t synced_offset
    int64_t queue_count             # queues with at least one file
    int64_t persisted_anchor        # log offset of the last record below persisted_offset; -1: none
    int64_t synced_anchor           # the same for synced_offset
    uint8_t boot_id[16]
    int32_t own_valid               # set by reading: magic, checksum and copy of the own part fit

# Any thread. `page` has CHECKPOINT_BYTES.
cdef void checkpoint_encode(const CheckpointFields* fields, uint8_t* page) noexcept nogil
cdef void checkpoint_decode(const uint8_t* page, CheckpointFields* fields) noexcept nogil
# Writes the whole page with one pwrite, without a sync. OK | IO_ERROR | NO_SPACE, errno is set.
cdef int checkpoint_write(int fd, const CheckpointFields* fields) noexcept nogil
# OK | NOT_FOUND (shorter than 40 bytes: all fields zero) | IO_ERROR.
cdef int checkpoint_read(int fd, CheckpointFields* fields) noexcept nogil
