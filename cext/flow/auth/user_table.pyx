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
from cext.net.address_network cimport (
    Network,
    in_sorted_networks,
    networks_of_v4,
    networks_sorted,
)
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


cdef inline bint starts_with(const uint8_t* name, uint32_t length,
                             const PolicyEntry* e) noexcept nogil:
    return length >= e.name_length and memcmp(name, e.name, e.name_length) == 0


cdef inline bint covers(const PolicyEntry* e, ResourceType type, const uint8_t* name,
                        uint32_t length) noexcept nogil:
    if e.type != type:
        return e.type == TYPE_ALL
    return ((e.pattern != PATTERN_LITERAL or e.name_length == length)
            and starts_with(name, length, e))


cdef inline int order_of(const PolicyEntry* e, ResourceType type, const uint8_t* name,
                         uint32_t length) noexcept nogil:
    """Below 0: the entry belongs before such a name; above 0: after it."""
    cdef int order
    if e.type != type:
        return <int> e.type - <int> type
    order = memcmp(e.name, name, min(<uint32_t> e.name_length, length))
    return order if order != 0 else <int> e.name_length - <int> length


cdef bint follows(const PolicyEntry* before, const PolicyEntry* e) noexcept nogil:
    """Whether `e` may stand after `before`."""
    cdef int order = <int> before.policy - <int> e.policy
    if order == 0:
        order = order_of(before, <ResourceType> e.type, e.name, e.name_length)
    if order == 0:
        order = <int> e.pattern - <int> before.pattern
    return order < 0 or (order == 0 and before.denies <= e.denies)


# ---- entries

cdef int read_entry(const uint8_t* at, uint32_t room, PolicyEntry* out) noexcept nogil:
    """Returns how many bytes the entry has, or MALFORMED."""
    cdef uint64_t size
    if room < HEAD_BYTES or at[0] > 1 or at[1] > TYPE_GROUP or at[2] > PATTERN_ANY or at[3] > 1:
        return MALFORMED
    out.policy = at[0]
    out.type = at[1]
    out.pattern = at[2]
    out.denies = at[3]
    out.actions = load_u16(at + 4)
    out.network_count = load_u16(at + 6)
    out.name_length = load_u16(at + 8)
    size = HEAD_BYTES + out.name_length + <uint64_t> out.network_count * sizeof(Network)
    if size > room:
        return MALFORMED
    if out.type == TYPE_ALL and out.pattern != PATTERN_ANY:
        return MALFORMED
    if out.pattern == PATTERN_ANY and out.name_length > 0:
        return MALFORMED
    out.name = at + HEAD_BYTES
    out.networks = <const Network*> (out.name + out.name_length)
    if not networks_sorted(out.networks, out.network_count):
        return MALFORMED
    out.network4_count = <uint16_t> networks_of_v4(out.networks, out.network_count)
    return <int> size


cdef int32_t outer_of(const PolicyEntry* entries, int32_t at) noexcept nogil:
    """The entry before it, or one that that entry lies within: no other entry can cover this one.
    Entries that are skipped here cover nothing later either, so all calls together take as many
    steps as there are entries."""
    cdef const PolicyEntry* e = &entries[at]
    cdef int32_t outer = at - 1
    while outer >= 0 and not (entries[outer].policy == e.policy
                              and covers(&entries[outer], <ResourceType> e.type, e.name,
                                         e.name_length)):
        outer = entries[outer].outer
    return outer


cdef int read_entries(User* user, const uint8_t* packed, uint32_t length) noexcept nogil:
    cdef PolicyEntry entry
    cdef PolicyEntry* e
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
        e = &user.entries[user.entry_count]
        size = read_entry(user.packed + at, length - at, e)
        if user.entry_count > 0 and not follows(e - 1, e):
            return MALFORMED
        at += <uint32_t> size
        e.outer = outer_of(user.entries, user.entry_count)
        user.custom_count += e.policy == 0
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

cdef inline bint is_from(const PolicyEntry* e, const uint8_t* address) noexcept nogil:
    return e.network_count == 0 or in_sorted_networks(e.networks, e.network4_count,
                                                      e.network_count, address)


cdef inline const PolicyEntry* nearest(const User* user, int32_t first, int32_t end,
                                       ResourceType type, const uint8_t* name, uint32_t length,
                                       uint32_t actions, const uint8_t* address,
                                       bint by_whole_name) noexcept nogil:
    """The entry of one policy that counts; `by_whole_name`: only entries for exactly this name are
    looked at."""
    cdef const PolicyEntry* e
    cdef int32_t middle, low = first
    while low < end:
        middle = low + (end - low) // 2
        if order_of(&user.entries[middle], type, name, length) <= 0:
            low = middle + 1
        else:
            end = middle
    low -= 1
    while low >= first:
        e = &user.entries[low]
        if (covers(e, type, name, length) and e.actions & actions and is_from(e, address)
                and (not by_whole_name or e.pattern == PATTERN_LITERAL)):
            return e
        low = e.outer
    return NULL


cdef Verdict user_verdict(const User* user, ResourceType type, const uint8_t* name,
                          uint32_t length, uint32_t actions,
                          const uint8_t* address) noexcept nogil:
    cdef bint by_whole_name = type == TYPE_TOPIC and is_inner_name(name, length)
    cdef const PolicyEntry* best
    actions |= ACTION_ALL
    best = nearest(user, 0, user.custom_count, type, name, length, actions, address, by_whole_name)
    if best == NULL:
        best = nearest(user, user.custom_count, user.entry_count, type, name, length, actions,
                       address, by_whole_name)
    if best == NULL:
        return VERDICT_NONE
    return VERDICT_DENY if best.denies else VERDICT_ALLOW
