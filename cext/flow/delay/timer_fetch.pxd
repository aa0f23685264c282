"""Records of timed messages that are not in memory: fetched by a disk reader, 64 at a time."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.flow.shard_state cimport ShardState
from cext.store.consume_queue cimport Queue

cdef enum:
    FETCH_RECORDS = 64

# The record at this log offset. OK with its bytes, valid in this turn, and whether they are known
# to be whole; NOT_READY: a disk reader has to fetch it; or why there is none.
cdef int timer_find(ShardState s, int64_t offset, int32_t size, const uint8_t** at,
                    bint* checked) noexcept nogil
# After NOT_READY: has these records fetched unless a fetch is under way.
cdef void timer_fetch(ShardState s, const int64_t* offsets, const int32_t* sizes,
                      int32_t count) noexcept nogil
# Has the page of the queue's file with this entry brought into the page cache.
cdef void timer_fetch_entries(ShardState s, const Queue* queue, int64_t offset) noexcept nogil
# A disk reader is done with the timers' job.
cdef void timer_read_done(ShardState s) noexcept nogil
