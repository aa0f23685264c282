"""Group table. See group_table.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from cext.base.check cimport check
from cext.base.status cimport NOT_FOUND, OK, POOL_EMPTY
from cext.flow.tables.delivery_counter cimport delivery_counters_free
from cext.memory.name_map cimport (
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_obtain,
    name_map_open,
    name_map_remove,
)


cdef int group_table_open(GroupTable* table) noexcept nogil:
    return name_map_open(&table.names)


cdef void group_table_close(GroupTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        delivery_counters_free((<Group*> entry.value).delivered)
        free(entry.value)
        cursor = name_map_next(&table.names, cursor, &entry)
    name_map_close(&table.names)


cdef int group_put(GroupTable* table, const uint8_t* name, uint32_t length, bint consume_enable,
                   bint broadcast_enable, int64_t broker_id,
                   int64_t slow_broker_id) noexcept nogil:
    cdef Group* group = <Group*> name_map_obtain(&table.names, name, length, sizeof(Group))
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
    cdef Group* group = <Group*> name_map_find(&table.names, name, length)
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
    cdef Group* group = <Group*> name_map_remove(&table.names, name, length)
    check(group == NULL or group.delivered == NULL, b"a group is removed after its counters",
          length, 0)
    free(group)


cdef Group* group_find(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil:
    return <Group*> name_map_find(&table.names, name, length)
