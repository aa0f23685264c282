"""Subscription table. See subscription_table.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from cext.base.status cimport OK, POOL_EMPTY
from cext.flow.tables.sql_filter cimport sql_filter_drop
from cext.memory.name_map cimport (
    PAIR_BYTES_MAX,
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_obtain,
    name_map_open,
    name_map_remove,
    name_pair,
)

cdef enum:
    SEPARATOR = 10          # between group and topic: a newline is in neither


cdef int subscription_table_open(SubscriptionTable* table) noexcept nogil:
    return name_map_open(&table.names)


cdef void free_subscription(Subscription* own) noexcept nogil:
    if own != NULL:
        sql_filter_drop(own.sql)
        free(own)


cdef void subscription_table_close(SubscriptionTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        free_subscription(<Subscription*> entry.value)
        cursor = name_map_next(&table.names, cursor, &entry)
    name_map_close(&table.names)


cdef int subscription_put(SubscriptionTable* table, const uint8_t* group, uint32_t group_length,
                          const uint8_t* topic, uint32_t topic_length,
                          const Subscription* value) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, group, group_length, SEPARATOR, topic, topic_length)
    cdef Subscription* own
    if length < 0:
        sql_filter_drop(value.sql)
        return length
    own = <Subscription*> name_map_obtain(&table.names, name, length, sizeof(Subscription))
    if own == NULL:
        sql_filter_drop(value.sql)
        return POOL_EMPTY
    sql_filter_drop(own.sql)
    own[0] = value[0]
    return OK


cdef Subscription* subscription_find(SubscriptionTable* table, const uint8_t* group,
                                     uint32_t group_length, const uint8_t* topic,
                                     uint32_t topic_length) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, group, group_length, SEPARATOR, topic, topic_length)
    if length < 0:
        return NULL
    return <Subscription*> name_map_find(&table.names, name, length)


cdef void subscriptions_remove(SubscriptionTable* table, const uint8_t* group,
                               uint32_t group_length) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        if (entry.length > group_length and entry.name[group_length] == SEPARATOR
                and memcmp(entry.name, group, group_length) == 0):
            free_subscription(<Subscription*> name_map_remove(&table.names, entry.name,
                                                              entry.length))
        cursor = name_map_next(&table.names, cursor, &entry)
