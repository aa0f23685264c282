"""Deletions by topic. See deleted_topics.pxd. One thread."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free

from cext.base.status cimport Status
from cext.memory.name_map cimport (
    NameEntry, name_map_close, name_map_find, name_map_next, name_map_obtain, name_map_open)


cdef class DeletedTopics:
    def __cinit__(self, dict deleted):
        cdef Deleted* d
        cdef bytes topic
        if name_map_open(&self.by_name) != Status.OK:
            raise MemoryError("no memory for the deleted topics")
        for topic, (below, ms) in deleted.items():
            d = <Deleted*> name_map_obtain(&self.by_name, <const uint8_t*> <const char*> topic,
                                           <uint32_t> len(topic), sizeof(Deleted))
            if d == NULL:
                raise MemoryError("no memory for the deleted topics")
            d.below, d.ms = below, ms
            self.below = max(self.below, d.below)

    def __dealloc__(self):
        cdef NameEntry* entry = NULL
        cdef uint64_t cursor = 0
        if self.by_name.slots == NULL:
            return
        cursor = name_map_next(&self.by_name, cursor, &entry)
        while cursor != 0:
            free(entry.value)
            cursor = name_map_next(&self.by_name, cursor, &entry)
        name_map_close(&self.by_name)

    cdef Deleted* of_queue(self, const Queue* queue) noexcept nogil:
        return <Deleted*> name_map_find(&self.by_name, <const uint8_t*> queue.topic,
                                        <uint32_t> queue.topic_length)

    cdef bint has(self, const RecordView* view) noexcept nogil:
        cdef Deleted* d
        if view.physical_offset >= self.below:
            return False
        d = <Deleted*> name_map_find(&self.by_name, <const uint8_t*> view.topic, view.topic_bytes)
        return (d != NULL and view.physical_offset < d.below
                and view.store_timestamp_ms <= d.ms)
