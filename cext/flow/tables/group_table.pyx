"""Consumer groups and their subscriptions. See group_table.pxd."""
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from cext.base.check cimport check
from cext.base.status cimport NOT_FOUND, OK, POOL_EMPTY
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


cdef int group_table_open(GroupTable* table) noexcept nogil:
    if name_map_open(&table.groups) != OK:
        return POOL_EMPTY
    return name_map_open(&table.subscriptions)


cdef void delivery_counters_free(DeliveryCounter* at) noexcept nogil:
    cdef DeliveryCounter* following
    while at != NULL:
        following = at.next
        free(at.pulled)
        free(at)
        at = following


cdef void free_groups(NameMap* names) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(names, 0, &entry)
    while cursor != 0:
        delivery_counters_free((<Group*> entry.value).delivered)
        free(entry.value)
        cursor = name_map_next(names, cursor, &entry)


cdef void free_subscription(Subscription* own) noexcept nogil:
    if own != NULL:
        sql_filter_drop(own.sql)
        free(own)


cdef void group_table_close(GroupTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.subscriptions, 0, &entry)
    while cursor != 0:
        free_subscription(<Subscription*> entry.value)
        cursor = name_map_next(&table.subscriptions, cursor, &entry)
    free_groups(&table.groups)
    name_map_close(&table.groups)
    name_map_close(&table.subscriptions)


cdef int group_put(GroupTable* table, const uint8_t* name, uint32_t length, bint consume_enable,
                   bint broadcast_enable, int64_t broker_id,
                   int64_t slow_broker_id) noexcept nogil:
    cdef Group* group = <Group*> name_map_obtain(&table.groups, name, length, sizeof(Group))
    if group == NULL:
        return POOL_EMPTY
    group.consume_enable = consume_enable
    group.broadcast_enable = broadcast_enable
    group.broker_id = broker_id
    group.slow_broker_id = slow_broker_id
    return OK


cdef int group_put_retries(GroupTable* table, const uint8_t* name, uint32_t length,
                           int32_t queues, int32_t times_max, const uint8_t* levels,
                           int32_t level_count) noexcept nogil:
    cdef Group* group = <Group*> name_map_find(&table.groups, name, length)
    if group == NULL:
        return NOT_FOUND
    if level_count > RETRY_LEVELS_MAX:
        level_count = RETRY_LEVELS_MAX
    memcpy(group.retry_levels, levels, level_count)
    group.retry_level_count = level_count
    group.retry_queues = queues
    group.retry_times_max = times_max
    group.retries_known = True
    return OK


cdef void group_remove(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef Group* group = <Group*> name_map_remove(&table.groups, name, length)
    check(group == NULL or group.delivered == NULL, b"a group is removed after its counters",
          length, 0)
    free(group)


cdef Group* group_find(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil:
    return <Group*> name_map_find(&table.groups, name, length)


cdef int subscription_put(GroupTable* table, const uint8_t* group, uint32_t group_length,
                          const uint8_t* topic, uint32_t topic_length,
                          const Subscription* value) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, group, group_length, SEPARATOR, topic, topic_length)
    cdef Subscription* own
    if length < 0:
        sql_filter_drop(value.sql)
        return length
    own = <Subscription*> name_map_obtain(&table.subscriptions, name, length, sizeof(Subscription))
    if own == NULL:
        sql_filter_drop(value.sql)
        return POOL_EMPTY
    sql_filter_drop(own.sql)
    own[0] = value[0]
    return OK


cdef Subscription* subscription_find(GroupTable* table, const uint8_t* group,
                                     uint32_t group_length, const uint8_t* topic,
                                     uint32_t topic_length) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, group, group_length, SEPARATOR, topic, topic_length)
    if length < 0:
        return NULL
    return <Subscription*> name_map_find(&table.subscriptions, name, length)


cdef void subscriptions_remove(GroupTable* table, const uint8_t* group,
                               uint32_t group_length) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.subscriptions, 0, &entry)
    while cursor != 0:
        if (entry.length > group_length and entry.name[group_length] == SEPARATOR
                and memcmp(entry.name, group, group_length) == 0):
            free_subscription(<Subscription*> name_map_remove(&table.subscriptions, entry.name,
                                                              entry.length))
        cursor = name_map_next(&table.subscriptions, cursor, &entry)
