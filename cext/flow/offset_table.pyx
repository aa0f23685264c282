"""Consumer offsets. See offset_table.pxd."""
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy

from cext.memory.name_map cimport (
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_open,
    name_map_put,
    name_map_remove,
)

cdef enum:
    OK = 0
    POOL_EMPTY = -2
    TOO_LARGE = -9
    PAIR_MAX = 1024
    QUEUES_MAX = 65536
    ENTRIES_MAX = 4194304   # pairs of topic and group; a client cannot grow the table further


cdef int offset_table_open(OffsetTable* table) noexcept nogil:
    table.version = 0
    return name_map_open(&table.names)


cdef void free_offsets(GroupOffsets* entry) noexcept nogil:
    if entry != NULL:
        free(entry.offsets)
        free(entry)


cdef void offset_table_close(OffsetTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        free_offsets(<GroupOffsets*> entry.value)
        cursor = name_map_next(&table.names, cursor, &entry)
    name_map_close(&table.names)


cdef int pair_name(uint8_t* out, const uint8_t* topic, uint32_t topic_length,
                   const uint8_t* group, uint32_t group_length) noexcept nogil:
    if topic_length + group_length + 1 > PAIR_MAX:
        return TOO_LARGE
    memcpy(out, topic, topic_length)
    out[topic_length] = 64
    memcpy(out + topic_length + 1, group, group_length)
    return topic_length + group_length + 1


cdef int offset_commit(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                       const uint8_t* group, uint32_t group_length, int32_t queue_id,
                       int64_t offset) noexcept nogil:
    cdef uint8_t name[PAIR_MAX]
    cdef int32_t slots
    cdef int64_t* offsets
    cdef GroupOffsets* entry
    cdef int length = pair_name(name, topic, topic_length, group, group_length)
    if length < 0 or queue_id < 0 or queue_id >= QUEUES_MAX or offset < 0:
        return TOO_LARGE
    entry = <GroupOffsets*> name_map_find(&table.names, name, length)
    if entry == NULL:
        if table.names.live >= ENTRIES_MAX:
            return POOL_EMPTY
        entry = <GroupOffsets*> calloc(1, sizeof(GroupOffsets))
        if entry == NULL:
            return POOL_EMPTY
        if name_map_put(&table.names, name, length, entry) != OK:
            free(entry)
            return POOL_EMPTY
    if queue_id >= entry.slots:
        slots = 8
        while slots <= queue_id:
            slots *= 2
        offsets = <int64_t*> realloc(entry.offsets, slots * sizeof(int64_t))
        if offsets == NULL:
            return POOL_EMPTY
        entry.offsets = offsets
        while entry.slots < slots:
            offsets[entry.slots] = -1
            entry.slots += 1
    if entry.offsets[queue_id] != offset:
        entry.offsets[queue_id] = offset
        table.version += 1
    return OK


cdef int64_t offset_query(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                          const uint8_t* group, uint32_t group_length,
                          int32_t queue_id) noexcept nogil:
    cdef uint8_t name[PAIR_MAX]
    cdef GroupOffsets* entry
    cdef int length = pair_name(name, topic, topic_length, group, group_length)
    if length < 0:
        return -1
    entry = <GroupOffsets*> name_map_find(&table.names, name, length)
    if entry == NULL or queue_id < 0 or queue_id >= entry.slots:
        return -1
    return entry.offsets[queue_id]


cdef void offsets_remove(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil:
    cdef NameEntry* entry
    cdef uint8_t* at
    cdef uint32_t before, after
    cdef uint64_t cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        at = <uint8_t*> memchr(entry.name, 64, entry.length)
        before = <uint32_t> (at - entry.name)
        after = entry.length - before - 1
        if ((topic_length == 0
             or (before == topic_length and memcmp(entry.name, topic, before) == 0))
                and (group_length == 0
                     or (after == group_length and memcmp(at + 1, group, after) == 0))):
            free_offsets(<GroupOffsets*> name_map_remove(&table.names, entry.name, entry.length))
            table.version += 1
        cursor = name_map_next(&table.names, cursor, &entry)
