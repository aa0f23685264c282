"""Records that are not in memory, for who goes through a queue: a disk reader fetches 64 at a time.

    record_find()   the record is in memory, or in what was fetched
    else            record_fetch() for it and those that come next, and look again later

Used by timers and check backs; each has one fetch under way at most.

Example: 1000 half messages of yesterday are to be looked at: find says NOT_READY for the first, 64
are fetched, found one after the other, then the next 64.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.flow.fetch.fetch_state cimport RecordFetch
from cext.flow.shard_state cimport ShardState
from cext.store.consume_queue cimport Queue

cdef enum:
    FETCH_RECORDS = 64

# The record at this log offset. OK with its bytes, valid in this turn, and whether they are known
# to be whole; NOT_READY: a disk reader has to fetch it; or why there is none.
cdef int record_find(ShardState s, RecordFetch* x, int64_t offset, int32_t size, const uint8_t** at,
                     bint* checked) noexcept nogil
# After NOT_READY: has these records fetched unless a fetch is under way.
cdef void record_fetch(ShardState s, RecordFetch* x, const int64_t* offsets, const int32_t* sizes,
                       int32_t count) noexcept nogil
# Has the page of the queue's file with this entry brought into the page cache.
cdef void record_fetch_entries(ShardState s, RecordFetch* x, const Queue* queue,
                               int64_t offset) noexcept nogil
# Nothing more is looked for: its buffer goes back.
cdef void record_fetch_end(ShardState s, RecordFetch* x) noexcept nogil
# A disk reader is done with this job.
cdef void record_fetch_done(ShardState s, RecordFetch* x) noexcept nogil
