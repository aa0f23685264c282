"""Deleted topics: tells which records belong to deleted topics, so that recovery passes over them.

A record belongs to a deleted topic when it is below the log offset of the deletion and was stored
no later than the deletion. Both must hold: a log that was cut has newer records at the same
offsets.

Example: {b"orders": (5000, 1763726400000)}: a record of "orders" at offset 4000 that was stored
before that time is passed over.
"""
from libc.stdint cimport int64_t

from cext.memory.name_map cimport NameMap
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue

cdef struct Deleted:                # covers a topic's records below `below` not newer than `ms`
    int64_t below, ms

cdef class DeletedTopics:
    cdef NameMap by_name            # topic -> Deleted*, owned
    cdef int64_t below              # the highest `below` of all

    # The deletion of a topic with the queue's topic name; NULL: there was none.
    cdef Deleted* of_queue(self, const Queue* queue) noexcept nogil
    # Whether the record belongs to a deleted topic.
    cdef bint has(self, const RecordView* view) noexcept nogil
