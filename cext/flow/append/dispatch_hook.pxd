"""Dispatch hook: functions by which the layers above the log hear of dispatched records.

    arrival    a record can be read by consumers: clients that wait for it are woken
    replayed   a record was read from the log (replay.pxd) and has no queue entry yet: the state in
               memory that belongs to it is brought up to date; returns the entry's tags code
    removed    a queue goes away: clients that wait at it are woken; has the owner of `arrival`

Dispatch knows nothing of what they do. They are set once, before the reactor starts, each with the
owner that is passed to it.
"""
from libc.stdint cimport int64_t

from cext.flow.append.appender cimport Appender, Dispatch, OnArrival, OnQueueRemoved, OnReplayed
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue

cdef inline void dispatch_hook(Appender s, OnArrival arrival, OnQueueRemoved removed,
                               void* arrival_owner,
                               OnReplayed replayed, void* replay_owner) noexcept nogil:
    s.on_arrival = arrival
    s.on_queue_removed = removed
    s.arrival_owner = arrival_owner
    s.on_replayed = replayed
    s.replay_owner = replay_owner

cdef inline int64_t dispatch_replayed(Appender s, const RecordView* view) noexcept nogil:
    return s.on_replayed(s.replay_owner, view)

cdef inline void dispatch_queue_removed(Appender s, Queue* queue) noexcept nogil:
    s.on_queue_removed(s.arrival_owner, queue)

# Costs two looks when nobody waits.
cdef inline void dispatch_arrival(Appender s, const Dispatch* d) noexcept nogil:
    if d.queue.waiters != NULL or (d.topic != NULL and (d.topic.pop_waiting != NULL
                                                        or d.topic.pop_retry_of != NULL)):
        s.on_arrival(s.arrival_owner, d)
