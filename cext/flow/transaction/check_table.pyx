"""Check table. See check_table.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy

from cext.base.status cimport MALFORMED, OK, POOL_EMPTY
from cext.flow.auth.admission cimport may_end_transaction
from cext.flow.context.unsent cimport CHECK_UNSENT_MAX
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


cdef bint fill(CheckGroup* made, const uint8_t* ids, const Text* users) noexcept nogil:
    """Fills in connections and users. False: there are fewer users than connections."""
    cdef uint8_t* at = <uint8_t*> &made.targets[made.count]
    cdef uint8_t* end = at + users.length
    cdef uint8_t* stop
    cdef int32_t i
    memcpy(at, users.bytes, users.length)
    for i in range(made.count):
        stop = <uint8_t*> memchr(at, 0, end - at)
        if stop == NULL:
            return False
        memcpy(&made.targets[i].connection, ids + 8 * i, 8)
        made.targets[i].user = at
        made.targets[i].user_bytes = <uint32_t> (stop - at)
        at = stop + 1
    return True


cdef int check_table_put(CheckTable* table, const uint8_t* group, uint32_t group_bytes,
                         const uint8_t* ids, int64_t count, const Text* users) noexcept nogil:
    cdef CheckGroup* before = <CheckGroup*> name_map_find(&table.groups, group, group_bytes)
    cdef CheckGroup* made
    if count <= 0:
        free(name_map_remove(&table.groups, group, group_bytes))
        return OK
    count = min(count, <int64_t> CONNECTIONS_MAX)
    made = <CheckGroup*> malloc(sizeof(CheckGroup) + count * sizeof(CheckTarget) + users.length)
    if made == NULL:
        return POOL_EMPTY
    made.count = <int32_t> count
    made.turn = 0
    if not fill(made, ids, users):
        free(made)
        return MALFORMED
    if name_map_put(&table.groups, group, group_bytes, made) != OK:
        free(made)
        return POOL_EMPTY
    free(before)
    return OK


cdef Connection* check_table_next(CheckTable* table, Reactor net, AuthService auth,
                                  const uint8_t* group, uint32_t group_bytes, const Text* topic,
                                  bint* full) noexcept nogil:
    cdef CheckGroup* found = <CheckGroup*> name_map_find(&table.groups, group, group_bytes)
    cdef CheckTarget* target
    cdef Connection* c
    cdef int32_t _i
    full[0] = False
    if found == NULL:
        return NULL
    for _i in range(found.count):
        found.turn = (found.turn + 1) % found.count
        target = &found.targets[found.turn]
        c = net.find(target.connection)
        if c == NULL or c.closing or not may_end_transaction(auth, c, target.user,
                                                             target.user_bytes, topic):
            continue
        if c.unsent_bytes <= CHECK_UNSENT_MAX:
            return c
        full[0] = True
    return NULL
