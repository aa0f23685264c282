"""Revive ring: check points of one revive queue that wait: found by their ack, taken by time.

A ring in the order of the revive log, so that it is known up to where all is done with; a heap for
the next in time, of several at once the oldest; and buckets of chains, by what an ack names. It
doubles while it is full, up to CHECK_POINTS_MAX, and is never made smaller.

Example: three in the log at 10, 11, 12; 11 is due first and finished: all below 10 is done with.
Then 10 is: all below 12.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from cext.flow.pop.pop_pair cimport PopPair

cdef enum:
    CHECK_POINTS_MAX = 65536        # of each revive queue; more stay in its log until there is room

cdef struct CheckPoint:
    PopPair* pair                   # used; of the topic the messages lie in, maybe a retry topic
    int64_t revive_ms               # when the messages are visible again, by the wall clock
    int64_t revive_offset           # where it stands in the revive log
    int64_t start_offset
    int64_t pop_ms
    int32_t queue_id
    int32_t count                   # messages given
    uint32_t done                   # bits: acknowledged, or in the retry topic
    int32_t next                    # in its bucket, -1 ends
    bint finished                   # done with, but an older one is not
    int32_t behind[32]              # offset of each message, from start_offset

cdef struct ReviveQueue:
    bint begun                      # the offsets are known
    int64_t next_offset             # all before it are read
    int64_t told_offset             # as committed for RocketMQ's revive group
    int64_t commit_offset           # to be committed in the next turn
    int64_t again_ms                # monotonic: its read failed, none before; 0: its last did not
    CheckPoint* ring                # owned; grows up to CHECK_POINTS_MAX
    int32_t* buckets                # owned; capacity of them
    uint64_t* heap                  # owned; numbers of those not finished, the next in time on top
    uint32_t heap_count
    uint32_t capacity               # a power of two; 0: none yet
    uint64_t head                   # number of the oldest; number n is at n modulo capacity
    uint64_t tail

# A new one, its key and time set, all else zero; NULL when the ring is full or memory is out.
cdef CheckPoint* ring_add(ReviveQueue* q, PopPair* pair, int32_t queue_id, int64_t start_offset,
                          int64_t pop_ms, int64_t revive_ms) noexcept nogil
cdef CheckPoint* ring_find(ReviveQueue* q, const PopPair* pair, int32_t queue_id,
                           int64_t start_offset, int64_t pop_ms) noexcept nogil
# The next in time, or NULL.
cdef CheckPoint* ring_next(ReviveQueue* q) noexcept nogil
cdef void ring_finish_next(ReviveQueue* q) noexcept nogil
# Where in the log the oldest stands that is not finished; `otherwise` when there is none.
cdef int64_t ring_oldest(const ReviveQueue* q, int64_t otherwise) noexcept nogil
