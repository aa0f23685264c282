"""What each group was given of each topic. See handed.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, realloc

from cext.flow.tables.group_table cimport group_find
from cext.memory.name_map cimport name_map_find


cdef Handed* handed_of(Group* group, Topic* topic) noexcept nogil:
    cdef Handed* at = group.handed
    cdef Handed* before = NULL
    cdef int count = 0
    while at != NULL and at.topic != topic:
        before = at
        at = at.next
        count += 1
    if at != NULL:
        if before != NULL:
            before.next = at.next
            at.next = group.handed
            group.handed = at
        return at
    if count == HANDED_TOPICS_MAX:
        return NULL
    at = <Handed*> calloc(1, sizeof(Handed))
    if at != NULL:
        at.topic = topic
        at.next = group.handed
        group.handed = at
    return at


cdef void handed_grow(Handed* handed, int32_t queue_id) noexcept nogil:
    cdef int32_t slots = 8
    cdef int64_t* pulled
    if handed == NULL or queue_id < handed.slots:
        return
    while slots <= queue_id:
        slots *= 2
    pulled = <int64_t*> realloc(handed.pulled, slots * sizeof(int64_t))
    if pulled == NULL:
        return
    handed.pulled = pulled
    while handed.slots < slots:
        pulled[handed.slots] = -1
        handed.slots += 1


cdef Handed* handed_find(ShardState s, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil:
    cdef void* wanted = name_map_find(&s.topics, topic, topic_length)
    cdef Group* found = group_find(&s.groups, group, group_length)
    cdef Handed* at = found.handed if found != NULL and wanted != NULL else NULL
    while at != NULL and at.topic != wanted:
        at = at.next
    return at
