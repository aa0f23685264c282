"""Dispatch hook: what is above the log hears of what is dispatched, and dispatch knows none of it.

    news       a record can be read by consumers: who waits for it is woken
    replayed   the same of a record that was read from the log (replay.pxd), before its entry is
               made: memory that goes with it moves; the answer is the entry's tags code

One pair for the process, set before the first reactor starts; the context is the shard.
"""
from libc.stdint cimport int64_t

from cext.flow.shard_state cimport Dispatch, ShardState
from cext.store.record cimport RecordView

ctypedef void (*OnNews)(ShardState s, const Dispatch* d) noexcept nogil
ctypedef int64_t (*OnReplayed)(ShardState s, const RecordView* view) noexcept nogil

cdef void dispatch_hook(OnNews news, OnReplayed replayed) noexcept nogil
cdef void dispatch_call(ShardState s, const Dispatch* d) noexcept nogil
cdef int64_t dispatch_replayed(ShardState s, const RecordView* view) noexcept nogil

# Costs two looks where nobody waits.
cdef inline void dispatch_news(ShardState s, const Dispatch* d) noexcept nogil:
    if d.queue.waiters != NULL or (d.topic != NULL and (d.topic.pop_waiting != NULL
                                                        or d.topic.pop_retry_of != NULL)):
        dispatch_call(s, d)
