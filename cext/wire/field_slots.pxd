"""Field slots: a request's values sorted by name, in one pass over the header's fields.

    cdef const Text* slots[SLOT_COUNT]      # one for each name of the table, in the table's order
    sort_into_slots(&names, &header, slots, SLOT_COUNT)

A slot is NULL when the header has no such field or the field is null. A later field of the same
name replaces an earlier one.
"""
from libc.string cimport memset

from cext.wire.header cimport Header
from cext.wire.name_table cimport NameTable, name_table_find, name_table_find_escaped
from cext.wire.text cimport Text


cdef inline void sort_into_slots(const NameTable* names, const Header* header, const Text** slots,
                                 int count) noexcept nogil:
    cdef const Text* key
    cdef int i
    cdef int slot
    memset(slots, 0, count * sizeof(slots[0]))
    for i in range(header.ext_count):
        key = &header.ext[i].key
        if key.escaped:
            slot = name_table_find_escaped(names, key)
        else:
            slot = name_table_find(names, key.bytes, key.length)
        if slot >= 0:
            slots[slot] = &header.ext[i].value
            if header.ext[i].value.bytes == NULL:
                slots[slot] = NULL
