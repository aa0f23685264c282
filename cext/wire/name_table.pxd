"""Name table: finds which of a few known names a name is, by one hash and one comparison.

A table is filled once, when a module is imported, and then only read, so any thread may look names
up. The hash is made of the length, the first and the last byte; a name that collides goes into the
next free slot.

Example: add topic (0), queueId (1); find "queueId" -> 1, find "queueIx" -> -1.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.wire.text cimport Text


cdef extern from "scan.h" nogil:
    bint rmq_same_name(const uint8_t* a, const char* b, uint32_t length) noexcept

cdef enum:
    NAMES_MAX = 40          # far below the slots, so that a search ends soon
    SLOTS = 256             # a power of two


cdef struct NameTable:
    uint8_t slots[SLOTS]    # index of the name + 1; 0 is free
    const char* names[NAMES_MAX]   # string constants, zero-terminated
    uint8_t lengths[NAMES_MAX]
    int count


# Adds a string constant; its index is the number of names added before. Import time only.
cdef int name_table_add(NameTable* table, const char* name) except -1

# name_table_find for a key with JSON escapes: it is compared with every name.
cdef int name_table_find_escaped(const NameTable* table, const Text* key) noexcept nogil


cdef inline uint32_t name_hash(const uint8_t* name, uint32_t length) noexcept nogil:
    return (length * 29 + <uint32_t>name[0] * 3 + <uint32_t>name[length - 1] * 7) & (SLOTS - 1)


cdef inline int name_table_find(const NameTable* table, const uint8_t* name,
                                uint32_t length) noexcept nogil:
    """The index of the name, or -1."""
    cdef uint32_t slot
    cdef int index
    if length == 0 or length > 255:
        return -1
    slot = name_hash(name, length)
    while table.slots[slot] != 0:
        index = table.slots[slot] - 1
        if table.lengths[index] == length and rmq_same_name(name, table.names[index], length):
            return index
        slot = (slot + 1) & (SLOTS - 1)
    return -1
