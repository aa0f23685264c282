"""Name table: finds which of a few known names a name is, by one hash and one comparison.

Its purpose and an example are in name_table.pxd. Names are added at import, with the GIL, so a
table that is too small is a programming error that shows at import.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport strlen

from cext.wire.text cimport Text, escaped_text_equals


cdef int name_table_add(NameTable* table, const char* name) except -1:
    cdef size_t length = strlen(name)
    cdef uint32_t slot
    if table.count == NAMES_MAX or not 0 < length <= 255:
        raise AssertionError(f"name table cannot take {name!r}")
    if name_table_find(table, <const uint8_t*>name, <uint32_t>length) >= 0:
        raise AssertionError(f"name table has {name!r} already")
    slot = name_hash(<const uint8_t*>name, <uint32_t>length)
    while table.slots[slot] != 0:
        slot = (slot + 1) & (SLOTS - 1)
    table.names[table.count] = name
    table.lengths[table.count] = <uint8_t>length
    table.count += 1
    table.slots[slot] = <uint8_t>table.count
    return table.count - 1


cdef int name_table_find_escaped(const NameTable* table, const Text* key) noexcept nogil:
    cdef int index
    for index in range(table.count):
        if escaped_text_equals(key, <const uint8_t*>table.names[index], table.lengths[index]):
            return index
    return -1
