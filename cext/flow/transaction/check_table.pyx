"""Check table. See check_table.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.base.status cimport OK, POOL_EMPTY
from cext.flow.fetch.readahead cimport readahead_open
from cext.memory.name_map cimport (
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_open,
    name_map_put,
    name_map_remove,
)


cdef int check_table_open(CheckTable* table) noexcept nogil:
    readahead_open(&table.readahead, NULL)
    return name_map_open(&table.groups)


cdef void check_table_close(CheckTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = 0
    if table.groups.slots != NULL:
        cursor = name_map_next(&table.groups, 0, &entry)
        while cursor != 0:
            free(entry.value)
            cursor = name_map_next(&table.groups, cursor, &entry)
    name_map_close(&table.groups)


cdef int check_table_put(CheckTable* table, const uint8_t* group, uint32_t group_bytes,
                         const uint8_t* ids, int64_t count) noexcept nogil:
    cdef CheckGroup* before = <CheckGroup*> name_map_find(&table.groups, group, group_bytes)
    cdef CheckGroup* made
    if count <= 0:
        free(name_map_remove(&table.groups, group, group_bytes))
        return OK
    count = min(count, <int64_t> CONNECTIONS_MAX)
    made = <CheckGroup*> malloc(sizeof(CheckGroup) + 8 * count)
    if made == NULL:
        return POOL_EMPTY
    made.count = <int32_t> count
    made.turn = 0
    memcpy(made.connections, ids, 8 * count)
    if name_map_put(&table.groups, group, group_bytes, made) != OK:
        free(made)
        return POOL_EMPTY
    free(before)
    return OK


cdef Connection* check_table_next(CheckTable* table, Reactor net, const uint8_t* group,
                                  uint32_t group_bytes, bint* full) noexcept nogil:
    cdef CheckGroup* found = <CheckGroup*> name_map_find(&table.groups, group, group_bytes)
    cdef Connection* c
    cdef int32_t _i
    full[0] = False
    if found == NULL:
        return NULL
    for _i in range(found.count):
        found.turn = (found.turn + 1) % found.count
        c = net.find(found.connections[found.turn])
        if c == NULL or c.closing:
            continue
        if c.unsent_bytes <= CHECK_UNSENT_MAX:
            return c
        full[0] = True
    return NULL
