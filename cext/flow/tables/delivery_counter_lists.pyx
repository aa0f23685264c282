"""Delivery counter lists. See delivery_counter_lists.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free

from cext.flow.tables.group_table cimport group_find
from cext.memory.name_map cimport name_map_find
from cext.memory.use_count cimport UseCount, free_removed, removed_list_add


cdef DeliveryCounter* delivery_counter_of(Group* group, Topic* topic) noexcept nogil:
    cdef DeliveryCounter* at = group.delivered
    cdef DeliveryCounter* before = NULL
    cdef int count = 0
    while at != NULL and at.topic != topic:
        before = at
        at = at.next
        count += 1
    if at != NULL:
        if before != NULL:
            before.next = at.next
            at.next = group.delivered
            group.delivered = at
        return at
    if count == DELIVERY_TOPICS_MAX:
        return NULL
    at = <DeliveryCounter*> calloc(1, sizeof(DeliveryCounter))
    if at != NULL:
        at.topic = topic
        at.group = group
        at.next = group.delivered
        group.delivered = at
        at.next_of_topic = <DeliveryCounter*> topic.counters
        topic.counters = at
    return at


cdef DeliveryCounter* delivery_counter_find(Tables s, const uint8_t* topic,
                                            uint32_t topic_length, const uint8_t* group,
                                            uint32_t group_length) noexcept nogil:
    cdef void* wanted = name_map_find(&s.topics, topic, topic_length)
    cdef Group* found = group_find(&s.groups, group, group_length)
    cdef DeliveryCounter* at = found.delivered if found != NULL and wanted != NULL else NULL
    while at != NULL and at.topic != wanted:
        at = at.next
    return at


cdef void destroy(UseCount* object) noexcept nogil:
    cdef DeliveryCounter* counter = <DeliveryCounter*> object
    free(counter.pulled)
    free_removed(counter, sizeof(DeliveryCounter))


cdef void remove(RemovedList* removed, DeliveryCounter* counter) noexcept nogil:
    """Takes the counter out of both lists."""
    cdef DeliveryCounter** link = &(<Group*> counter.group).delivered
    while link[0] != counter:
        link = &link[0].next
    link[0] = counter.next
    link = <DeliveryCounter**> &(<Topic*> counter.topic).counters
    while link[0] != counter:
        link = &link[0].next_of_topic
    link[0] = counter.next_of_topic
    counter.topic = counter.group = NULL
    removed_list_add(removed, &counter.use, destroy)


cdef void delivery_counters_remove_topic(RemovedList* removed, Topic* topic) noexcept nogil:
    while topic.counters != NULL:
        remove(removed, <DeliveryCounter*> topic.counters)


cdef void delivery_counters_remove_group(RemovedList* removed, Group* group) noexcept nogil:
    while group.delivered != NULL:
        remove(removed, group.delivered)
