"""Address table. See address_table.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from cext.base.check cimport check
from cext.base.status cimport OK, POOL_EMPTY
from cext.memory.arena cimport arena_page_bytes, arena_take_pages
from cext.net.address_network cimport ADDRESS_BYTES, MAPPED, MAPPED_BYTES, source_of

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void* out, size_t length, unsigned int flags)

cdef enum:
    SPARE = 1024                    # entries for addresses without a connection
    NONE = 0                        # instead of the number of an entry plus 1
    SECOND_MS = 1000
    NETWORK_BYTES = 8               # of an IPv6 address

cdef const char* COUNTED = b"the network: what an address has is counted"


cdef uint32_t heads_of(uint32_t entries) noexcept nogil:
    cdef uint32_t heads = 64
    while heads < entries:
        heads *= 2
    return heads


cdef uint64_t address_table_arena_bytes(uint32_t connections_max) noexcept nogil:
    return (arena_page_bytes((connections_max + SPARE) * sizeof(AddressEntry))
            + arena_page_bytes(heads_of(connections_max + SPARE) * sizeof(uint32_t)))


cdef int address_table_open(AddressTable* t, Arena* arena, uint32_t connections_max) noexcept nogil:
    t.entries_max = connections_max + SPARE
    t.mask = heads_of(t.entries_max) - 1
    t.entries = <AddressEntry*> arena_take_pages(arena, t.entries_max * sizeof(AddressEntry))
    t.heads = <uint32_t*> arena_take_pages(arena, (<uint64_t> t.mask + 1) * sizeof(uint32_t))
    if t.entries == NULL or t.heads == NULL:
        return POOL_EMPTY
    getrandom(&t.seed, sizeof(t.seed), 0)
    return OK


# ---- entries

cdef uint64_t key_of(const Connection* c) noexcept nogil:
    """32 bits that are set and the IPv4 address, or the network of an IPv6 address. No network
    begins with these 32 bits."""
    cdef uint8_t source[ADDRESS_BYTES]
    cdef uint64_t key = <uint64_t> -1
    source_of(c, source)
    if memcmp(source, MAPPED, MAPPED_BYTES) == 0:
        memcpy(<uint8_t*> &key + NETWORK_BYTES // 2, source + MAPPED_BYTES,
               ADDRESS_BYTES - MAPPED_BYTES)
    else:
        memcpy(&key, source, NETWORK_BYTES)
    return key


cdef inline uint32_t* head_of(AddressTable* t, uint64_t key) noexcept nogil:
    cdef uint64_t mixed = (key ^ t.seed) * <uint64_t> 0x9E3779B97F4A7C15
    mixed = (mixed ^ mixed >> 32) * <uint64_t> 0xD6E8FEB86659FD93
    return t.heads + (<uint32_t> (mixed >> 32) & t.mask)


cdef AddressEntry* find(AddressTable* t, uint64_t key) noexcept nogil:
    cdef uint32_t number = head_of(t, key)[0]
    while number != NONE:
        if t.entries[number - 1].key == key:
            return &t.entries[number - 1]
        number = t.entries[number - 1].next
    return NULL


cdef void remove(AddressTable* t, AddressEntry* entry) noexcept nogil:
    cdef uint32_t number = <uint32_t> (entry - t.entries) + 1
    cdef uint32_t* at = head_of(t, entry.key)
    while at[0] != number:
        check(at[0] != NONE, b"the network: an address is in the table of those", number, t.size)
        at = &t.entries[at[0] - 1].next
    at[0] = entry.next
    entry.next = t.free
    entry.is_free = True
    t.free = number


cdef void remove_idle(AddressTable* t) noexcept nogil:
    cdef uint32_t i
    for i in range(t.size):
        if not t.entries[i].is_free and t.entries[i].connections == 0:
            remove(t, &t.entries[i])


cdef AddressEntry* add(AddressTable* t, uint64_t key) noexcept nogil:
    cdef uint32_t* head = head_of(t, key)
    cdef AddressEntry* entry
    if t.free == NONE and t.size == t.entries_max:
        remove_idle(t)
    if t.free != NONE:
        entry = &t.entries[t.free - 1]
        t.free = entry.next
    else:
        check(t.size < t.entries_max, b"the network: room for each connection's address", t.size,
              t.entries_max)
        entry = &t.entries[t.size]
        t.size += 1
    entry.key = key
    entry.connections = entry.handshakes = entry.begun = 0
    entry.second = 0
    entry.is_free = False
    entry.next = head[0]
    head[0] = <uint32_t> (entry - t.entries) + 1
    return entry


# ---- what connections do

cdef int address_enter(AddressTable* t, Connection* c) noexcept nogil:
    cdef uint64_t key = key_of(c)
    cdef AddressEntry* entry = find(t, key)
    if entry == NULL:
        entry = add(t, key)
    entry.connections += 1
    c.of_address = entry
    if t.connections > 0 and entry.connections > t.connections:
        return CONNECTIONS_LIMIT
    return NO_LIMIT


cdef int address_begin(AddressTable* t, Connection* c, int64_t now_ms) noexcept nogil:
    cdef AddressEntry* entry = c.of_address
    if entry == NULL or c.handshake_counted:
        return NO_LIMIT
    c.handshake_counted = True
    entry.handshakes += 1
    if now_ms // SECOND_MS != entry.second:
        entry.second = now_ms // SECOND_MS
        entry.begun = 0
    entry.begun += 1
    if t.rate > 0 and entry.begun > t.rate:     # first: closing another connection does not help
        return RATE_LIMIT
    return HANDSHAKES_LIMIT if t.handshakes > 0 and entry.handshakes > t.handshakes else NO_LIMIT


cdef void address_end(Connection* c) noexcept nogil:
    if c.handshake_counted:
        c.handshake_counted = False
        check(c.of_address.handshakes > 0, COUNTED, c.of_address.handshakes, c.slot)
        c.of_address.handshakes -= 1


cdef void address_leave(AddressTable* t, Connection* c, int64_t now_ms) noexcept nogil:
    cdef AddressEntry* entry = c.of_address
    if entry == NULL:
        return
    address_end(c)
    c.of_address = NULL
    check(entry.connections > 0, COUNTED, entry.connections, c.slot)
    entry.connections -= 1
    if entry.connections == 0 and (t.rate == 0 or now_ms // SECOND_MS != entry.second):
        remove(t, entry)
