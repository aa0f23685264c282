"""Recall table. See recall_table.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.flow.delay.timer cimport RecalledKey
from cext.store.timers.timer_heap cimport RECALL_MS, TIMER_FRESH

cdef enum:
    FIRST_CAPACITY = 1024

cdef uint64_t PRIME = 0x100000001B3
cdef uint64_t START_A = 0xCBF29CE484222325
cdef uint64_t START_B = 0x9AE16A3B2F90404F
cdef uint64_t FINISH = 0xD6E8FEB86659FD93


cdef inline uint64_t mixed(uint64_t hash, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(length):
        hash = (hash ^ bytes[i]) * PRIME
    return hash


cdef inline uint64_t finished(uint64_t hash) noexcept nogil:
    hash ^= hash >> 32
    hash = hash * FINISH
    return hash ^ hash >> 32


cdef RecalledKey* slot_of(const RecallTable* table, uint64_t hash_a,
                          uint64_t hash_b) noexcept nogil:
    """The place where the name is, or the free place for it."""
    cdef int64_t at = <int64_t> (hash_a & <uint64_t> (table.capacity - 1))
    cdef RecalledKey* key = &table.keys[at]
    while (key.hash_a != 0 or key.hash_b != 0) and not (
            key.hash_a == hash_a and key.hash_b == hash_b):
        at = (at + 1) & (table.capacity - 1)
        key = &table.keys[at]
    return key


cdef bint grow(RecallTable* table, int64_t due_ms) noexcept nogil:
    """Doubles the room. Drops names that are over at the time of the new one and are in a file."""
    cdef RecallTable larger
    cdef RecalledKey* key
    cdef int64_t i
    larger.capacity = 2 * table.capacity if table.capacity > 0 else FIRST_CAPACITY
    larger.count = 0
    if larger.capacity > 2 * RECALLS_MAX:
        return False
    larger.keys = <RecalledKey*> calloc(larger.capacity, sizeof(RecalledKey))
    if larger.keys == NULL:
        return False
    for i in range(table.capacity):
        key = &table.keys[i]
        if (key.hash_a != 0 or key.hash_b != 0) and (
                key.deletion.flags & TIMER_FRESH
                or key.deletion.key.due_ms + 2 * RECALL_MS > due_ms):
            slot_of(&larger, key.hash_a, key.hash_b)[0] = key[0]
            larger.count += 1
    larger.last_ms = table.last_ms
    free(table.keys)
    table[0] = larger
    return True


cdef bint recall_add(RecallTable* table, const Text* name,
                     const TimerEntry* deletion) noexcept nogil:
    cdef RecalledKey* key
    cdef int64_t due_ms = deletion.key.due_ms
    cdef uint64_t hash_a, hash_b
    if name.bytes == NULL:
        return True
    if 2 * (table.count + 1) > table.capacity and not grow(table, due_ms):
        return False
    hash_a = finished(mixed(START_A, name.bytes, name.length))
    hash_b = finished(mixed(START_B, name.bytes, name.length))
    key = slot_of(table, hash_a, hash_b)
    if key.hash_a == 0 and key.hash_b == 0:
        table.count += 1
    key.hash_a = hash_a
    key.hash_b = hash_b
    key.deletion = deletion[0]
    if due_ms > table.last_ms:
        table.last_ms = due_ms
    return True


cdef bint recall_has(const RecallTable* table, const Text* topic, const Text* key,
                     int64_t due_ms) noexcept nogil:
    cdef uint64_t hash_a, hash_b
    cdef const RecalledKey* found
    if table.capacity == 0 or key.bytes == NULL:
        return False
    hash_a = mixed(mixed(START_A, topic.bytes, topic.length), <const uint8_t*> b"+", 1)
    hash_b = mixed(mixed(START_B, topic.bytes, topic.length), <const uint8_t*> b"+", 1)
    hash_a = finished(mixed(hash_a, key.bytes, key.length))
    hash_b = finished(mixed(hash_b, key.bytes, key.length))
    found = slot_of(table, hash_a, hash_b)
    return (found.hash_a == hash_a and found.hash_b == hash_b
            and 0 <= due_ms - found.deletion.key.due_ms <= RECALL_MS)


cdef void recall_seal(RecallTable* table, TimerKeeper keeper) noexcept nogil:
    cdef TimerEntry* deletion
    cdef int64_t i
    for i in range(table.capacity if table.count > 0 else 0):
        deletion = &table.keys[i].deletion
        if deletion.flags & TIMER_FRESH:
            keeper.seal_also(deletion)
            deletion.flags &= ~<uint32_t> TIMER_FRESH


cdef void recall_expire(RecallTable* table, int64_t settled_ms) noexcept nogil:
    if table.count == 0 or settled_ms <= table.last_ms + RECALL_MS:
        return
    if table.capacity > FIRST_CAPACITY:
        recall_close(table)
    else:
        memset(table.keys, 0, table.capacity * sizeof(RecalledKey))
    table.count = 0
    table.last_ms = 0


cdef void recall_close(RecallTable* table) noexcept nogil:
    free(table.keys)
    memset(table, 0, sizeof(RecallTable))
