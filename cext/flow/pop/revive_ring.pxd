"""Revive ring: check points of one revive queue that wait: found by their ack, taken by time.

It is a ring in the order of the revive log, so that it is known up to where everything is done; a
heap, which gives the check point whose time is over next, of several the oldest; and buckets of
chains, by the values that an ack names. The ring doubles when it is full, up to CHECK_POINTS_MAX,
and never shrinks.

Example: three check points in the log at 10, 11, 12. 11 is due first and is finished: everything
below 10 is done. Then 10 is finished: everything below 12 is done.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from cext.flow.pop.pop_pair cimport PopPair

cdef enum:
    CHECK_POINTS_MAX = 65536        # for each revive queue; more stay in its log for now

cdef struct CheckPoint:
    PopPair* pair                   # counted as used; its topic, maybe a retry topic, has them
    int64_t revive_ms               # when the messages are visible again, by the wall clock
    int64_t revive_offset           # where it stands in the revive log
    int64_t start_offset
    int64_t pop_ms
    int32_t queue_id
    int32_t count                   # messages given
    uint32_t done                   # a bit for each: acknowledged, or in the retry topic
    int32_t next                    # in its bucket, -1 ends
    bint finished                   # done, but an older one is not
    int32_t behind[32]              # offset of each message, from start_offset

cdef struct ReviveQueue:
    bint begun                      # the offsets are known
    int64_t next_offset             # everything before it is read
    int64_t told_offset             # the offset last committed for RocketMQ's revive group
    int64_t commit_offset           # the offset to commit in the next turn
    int64_t again_ms                # monotonic: no read before, as one failed; 0: none did
    CheckPoint* ring                # owned; grows up to CHECK_POINTS_MAX
    int32_t* buckets                # owned; as many as `capacity`
    uint64_t* heap                  # owned; numbers of unfinished ones, the next in time on top
    uint32_t heap_count
    uint32_t capacity               # a power of two; 0: none yet
    uint64_t head                   # number of the oldest; number n is at n % capacity
    uint64_t tail

# A new check point with key and time set, all else 0; NULL: the ring is full or memory is out.
cdef CheckPoint* ring_add(ReviveQueue* q, PopPair* pair, int32_t queue_id, int64_t start_offset,
                          int64_t pop_ms, int64_t revive_ms) noexcept nogil
cdef CheckPoint* ring_find(ReviveQueue* q, const PopPair* pair, int32_t queue_id,
                           int64_t start_offset, int64_t pop_ms) noexcept nogil
# The check point whose time is over next, or NULL.
cdef CheckPoint* ring_next(ReviveQueue* q) noexcept nogil
cdef void ring_finish_next(ReviveQueue* q) noexcept nogil
# Offset in the revive log of the oldest unfinished one; `otherwise` when there is none.
cdef int64_t ring_oldest(const ReviveQueue* q, int64_t otherwise) noexcept nogil
