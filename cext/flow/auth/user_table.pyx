"""Users in the reactor. See user_table.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from cext.base.byteorder cimport load_u16
from cext.base.status cimport MALFORMED, OK, POOL_EMPTY
from cext.flow.auth.white_list cimport white_list_close, white_list_set
from cext.memory.name_map cimport (
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_open,
    name_map_put,
    name_map_remove,
)
from cext.net.address_network cimport Network, in_networks
from cext.wire.signature cimport signing_key_set
from cext.wire.system_topics cimport is_inner_name

cdef enum:
    HEAD_BYTES = 10
    PATTERN_LITERAL = 0
    PATTERN_PREFIXED = 1
    PATTERN_ANY = 2


cdef int user_table_open(UserTable* table) noexcept nogil:
    return name_map_open(&table.by_name)


cdef void user_free(User* user) noexcept nogil:
    if user == NULL:
        return
    free(user.entries)
    free(user.packed)
    white_list_close(&user.white)
    free(user)


cdef void user_table_close(UserTable* table) noexcept nogil:
    cdef NameEntry* entry = NULL
    cdef uint64_t cursor = 0
    if table.by_name.slots == NULL:
        return
    cursor = name_map_next(&table.by_name, cursor, &entry)
    while cursor != 0:
        user_free(<User*> entry.value)
        cursor = name_map_next(&table.by_name, cursor, &entry)
    name_map_close(&table.by_name)


cdef inline uint64_t rank_of(const uint8_t* head, uint32_t name_length) noexcept nogil:
    """Custom before Default; its own type before all; the whole name, then the longer beginning,
    then every name; Deny before Allow."""
    return (<uint64_t> head[0] << 40 | <uint64_t> (head[1] == TYPE_ALL) << 39
            | <uint64_t> head[2] << 36 | <uint64_t> (0xFFFF - name_length) << 8
            | <uint64_t> (head[3] == 0))


cdef int read_entry(const uint8_t* at, uint32_t room, PolicyEntry* out) noexcept nogil:
    """How many bytes it has; MALFORMED."""
    cdef uint64_t size
    if room < HEAD_BYTES or at[0] > 1 or at[1] > TYPE_GROUP or at[2] > PATTERN_ANY or at[3] > 1:
        return MALFORMED
    out.type = at[1]
    out.pattern = at[2]
    out.denies = at[3]
    out.actions = load_u16(at + 4)
    out.network_count = load_u16(at + 6)
    out.name_length = load_u16(at + 8)
    size = HEAD_BYTES + out.name_length + <uint64_t> out.network_count * sizeof(Network)
    if size > room:
        return MALFORMED
    out.rank = rank_of(at, out.name_length)
    out.name = at + HEAD_BYTES
    out.networks = <const Network*> (out.name + out.name_length)
    return <int> size


cdef int read_entries(User* user, const uint8_t* packed, uint32_t length) noexcept nogil:
    cdef PolicyEntry entry
    cdef uint32_t at = 0
    cdef int32_t count = 0
    cdef int size
    while at < length:
        size = read_entry(packed + at, length - at, &entry)
        if size < 0:
            return size
        at += <uint32_t> size
        count += 1
    user.packed = <uint8_t*> malloc(length + 1)
    user.entries = <PolicyEntry*> calloc(<size_t> count + 1, sizeof(PolicyEntry))
    if user.packed == NULL or user.entries == NULL:
        return POOL_EMPTY
    memcpy(user.packed, packed, length)
    at = 0
    while user.entry_count < count:
        size = read_entry(user.packed + at, length - at, &user.entries[user.entry_count])
        at += <uint32_t> size
        user.entry_count += 1
    return OK


cdef int user_put(UserTable* table, const uint8_t* name, uint32_t name_length,
                  const uint8_t* password, uint32_t password_length, bint is_super,
                  bint is_enabled, const uint8_t* packed, uint32_t packed_length,
                  const uint8_t* white, uint32_t white_length) noexcept nogil:
    cdef User* before = user_find(table, name, name_length)
    cdef User* user = <User*> calloc(1, sizeof(User))
    cdef int status
    if user == NULL:
        return POOL_EMPTY
    user.is_super = is_super
    user.is_enabled = is_enabled
    signing_key_set(&user.key, password, password_length)
    status = read_entries(user, packed, packed_length)
    if status == OK:
        status = white_list_set(&user.white, white, white_length)
    if status == OK:
        status = name_map_put(&table.by_name, name, name_length, user)
    user_free(user if status != OK else before)
    return status


cdef void user_remove(UserTable* table, const uint8_t* name, uint32_t length) noexcept nogil:
    user_free(<User*> name_map_remove(&table.by_name, name, length))


cdef User* user_find(UserTable* table, const uint8_t* name, uint32_t length) noexcept nogil:
    return <User*> name_map_find(&table.by_name, name, length)


# ---- verdicts

cdef inline bint covers(const PolicyEntry* e, ResourceType type, const uint8_t* name,
                        uint32_t length) noexcept nogil:
    if e.type == TYPE_ALL:
        return True
    if e.type != type:
        return False
    if e.pattern == PATTERN_ANY:
        return True
    if e.pattern == PATTERN_PREFIXED:
        return length >= e.name_length and memcmp(name, e.name, e.name_length) == 0
    return length == e.name_length and memcmp(name, e.name, length) == 0


cdef inline bint is_from(const PolicyEntry* e, const uint8_t* address) noexcept nogil:
    return e.network_count == 0 or in_networks(e.networks, e.network_count, address)


cdef inline bint is_whole_name(const PolicyEntry* e) noexcept nogil:
    return e.type != TYPE_ALL and e.pattern == PATTERN_LITERAL


cdef inline const PolicyEntry* nearest(const User* user, ResourceType type, const uint8_t* name,
                                       uint32_t length, uint32_t actions, const uint8_t* address,
                                       bint by_whole_name) noexcept nogil:
    """The entry that counts; `by_whole_name`: of those that are for no more than this name."""
    cdef const PolicyEntry* best = NULL
    cdef const PolicyEntry* e
    cdef int32_t i
    for i in range(user.entry_count):
        e = &user.entries[i]
        if (covers(e, type, name, length) and e.actions & (actions | ACTION_ALL)
                and (best == NULL or e.rank < best.rank) and is_from(e, address)
                and (not by_whole_name or is_whole_name(e))):
            best = e
    return best


cdef Verdict user_verdict(const User* user, ResourceType type, const uint8_t* name,
                          uint32_t length, uint32_t actions,
                          const uint8_t* address) noexcept nogil:
    cdef const PolicyEntry* best = nearest(user, type, name, length, actions, address, False)
    if (best != NULL and not is_whole_name(best) and type == TYPE_TOPIC
            and is_inner_name(name, length)):
        best = nearest(user, type, name, length, actions, address, True)
    if best == NULL:
        return VERDICT_NONE
    return VERDICT_DENY if best.denies else VERDICT_ALLOW
