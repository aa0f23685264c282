"""Deleted topics: up to where the log holds messages of theirs, over which recovery passes.

A record is one of a deleted topic when it lies below the log offset of the deletion and was stored
no later than that. Both must hold: a log that was cut has newer records at the same offsets.

Example: {b"orders": (5000, 1763726400000)}: a record of "orders" at 4000, stored before, is none.
"""
from libc.stdint cimport int64_t

from cext.memory.name_map cimport NameMap
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue

cdef struct Deleted:                # of a topic: its records below `below` that are not newer
    int64_t below, ms

cdef class DeletedTopics:
    cdef NameMap by_name            # topic -> Deleted*, owned
    cdef int64_t below              # the highest of them

    # NULL: no topic of the queue's was deleted.
    cdef Deleted* of_queue(self, const Queue* queue) noexcept nogil
    cdef bint has(self, const RecordView* view) noexcept nogil
