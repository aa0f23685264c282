"""Revive ring: check points of one revive queue that wait: found by their ack, taken by time.

A ring in the order of the revive log, so that it is known up to where all is done with; a heap for
the next in time, of several at once the oldest; and buckets of chains, by what an ack names. It
doubles while it is full, up to CHECK_POINTS_MAX, and is never made smaller.

Example: three in the log at 10, 11, 12; 11 is due first and finished: all below 10 is done with.
Then 10 is: all below 12.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.pop.pop_table cimport CheckPoint, PopPair, ReviveQueue

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
