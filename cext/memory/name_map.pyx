"""Byte-string names to pointers. See name_map.pxd."""
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from cext.base.status cimport OK, POOL_EMPTY

cdef enum:
    FIRST_SLOTS = 64


cdef inline uint64_t hash_name(const uint8_t* name, uint32_t length) noexcept nogil:
    """A multiply-and-fold hash that takes eight bytes in each step; never 0."""
    cdef uint64_t h = 0x9E3779B97F4A7C15ULL ^ length
    cdef uint64_t word
    cdef uint32_t half, at = 0
    while at + 8 < length:
        memcpy(&word, name + at, 8)
        h = (h ^ word) * 0xD6E8FEB86659FD93ULL
        h ^= h >> 32
        at += 8
    # The last 1 to 8 bytes by loads that overlap; a memcpy of that many would be a call.
    if length >= 8:
        memcpy(&word, name + length - 8, 8)
    elif length >= 4:
        memcpy(&half, name, 4)
        word = half
        memcpy(&half, name + length - 4, 4)
        word = word << 32 | half
    elif length > 0:
        word = <uint64_t> name[0] << 16 | <uint64_t> name[length // 2] << 8 | name[length - 1]
    else:
        word = 0
    h = (h ^ word) * 0xD6E8FEB86659FD93ULL
    h ^= h >> 32
    h = h * 0xD6E8FEB86659FD93ULL
    h ^= h >> 29
    return h if h != 0 else 1


cdef int name_map_open(NameMap* names) noexcept nogil:
    memset(names, 0, sizeof(NameMap))
    names.slots = <NameEntry*> calloc(FIRST_SLOTS, sizeof(NameEntry))
    if names.slots == NULL:
        return POOL_EMPTY
    names.mask = FIRST_SLOTS - 1
    return OK


cdef void name_map_close(NameMap* names) noexcept nogil:
    cdef uint64_t slot
    if names.slots != NULL:
        for slot in range(names.mask + 1):
            free(names.slots[slot].name)
        free(names.slots)
    memset(names, 0, sizeof(NameMap))


cdef NameEntry* find_slot(NameMap* names, uint64_t h, const uint8_t* name,
                          uint32_t length) noexcept nogil:
    """The entry of the name, or the empty slot where it would go."""
    cdef uint64_t slot = h & names.mask
    cdef NameEntry* entry
    while True:
        entry = &names.slots[slot]
        if entry.hash == 0:
            return entry
        if entry.hash == h and entry.length == length and memcmp(entry.name, name, length) == 0:
            return entry
        slot = (slot + 1) & names.mask


cdef void* name_map_find(NameMap* names, const uint8_t* name, uint32_t length) noexcept nogil:
    return find_slot(names, hash_name(name, length), name, length).value


cdef int grow(NameMap* names) noexcept nogil:
    """Rebuilds the table without removed entries; doubles it if the live ones fill half of it."""
    cdef uint64_t size = names.mask + 1
    if names.live * 2 >= size // 2:
        size *= 2
    cdef NameEntry* slots = <NameEntry*> calloc(size, sizeof(NameEntry))
    if slots == NULL:
        return POOL_EMPTY
    cdef uint64_t old, slot
    cdef NameEntry* entry
    for old in range(names.mask + 1):
        entry = &names.slots[old]
        if entry.hash == 0:
            continue
        if entry.value == NULL:
            free(entry.name)
            continue
        slot = entry.hash & (size - 1)
        while slots[slot].hash != 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = entry[0]
    free(names.slots)
    names.slots = slots
    names.mask = size - 1
    names.used = names.live
    return OK


cdef int name_map_put(NameMap* names, const uint8_t* name, uint32_t length,
                      void* value) noexcept nogil:
    if names.used * 2 >= names.mask + 1 and grow(names) != OK:
        return POOL_EMPTY
    cdef uint64_t h = hash_name(name, length)
    cdef NameEntry* entry = find_slot(names, h, name, length)
    if entry.hash == 0:
        entry.name = <uint8_t*> malloc(length if length > 0 else 1)
        if entry.name == NULL:
            return POOL_EMPTY
        memcpy(entry.name, name, length)
        entry.length = length
        entry.hash = h
        names.used += 1
    if entry.value == NULL:
        names.live += 1
    entry.value = value
    return OK


cdef void* name_map_obtain(NameMap* names, const uint8_t* name, uint32_t length,
                           uint64_t value_bytes) noexcept nogil:
    cdef void* value = name_map_find(names, name, length)
    if value == NULL:
        value = calloc(1, value_bytes)
        if value != NULL and name_map_put(names, name, length, value) != OK:
            free(value)
            return NULL
    return value


cdef void* name_map_remove(NameMap* names, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef NameEntry* entry = find_slot(names, hash_name(name, length), name, length)
    cdef void* value = entry.value
    if value != NULL:
        entry.value = NULL
        names.live -= 1
    return value


cdef uint64_t name_map_next(NameMap* names, uint64_t cursor, NameEntry** entry) noexcept nogil:
    while cursor <= names.mask:
        cursor += 1
        if names.slots[cursor - 1].value != NULL:
            entry[0] = &names.slots[cursor - 1]
            return cursor
    return 0
