"""Consumer offsets. See offset_table.pxd."""
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from cext.base.status cimport OK, POOL_EMPTY, TOO_LARGE
from cext.memory.name_map cimport (
    PAIR_BYTES_MAX,
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_obtain,
    name_map_open,
    name_map_remove,
    name_pair,
)
from cext.wire.limits cimport TOPIC_QUEUES_MAX

cdef enum:
    SEPARATOR = 64          # between topic and group: an @, as in RocketMQ's file
    ENTRIES_MAX = 4194304   # pairs of topic and group; a client cannot grow the table further


cdef int offset_table_open(OffsetTable* table) noexcept nogil:
    table.version = 0
    table.reset_count = 0
    table.changed_first = table.changed_last = NULL
    table.changed_count = 0
    return name_map_open(&table.names)


cdef void free_offsets(GroupOffsets* entry) noexcept nogil:
    if entry != NULL:
        free(entry.offsets)
        free(entry.resets)
        free(entry)


cdef void offset_table_close(OffsetTable* table) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor
    while table.changed_first != NULL:
        offsets_take_changed(table)
    cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        free_offsets(<GroupOffsets*> entry.value)
        cursor = name_map_next(&table.names, cursor, &entry)
    name_map_close(&table.names)


cdef void leave_changed(OffsetTable* table, GroupOffsets* entry) noexcept nogil:
    if entry.older != NULL:
        entry.older.newer = entry.newer
    else:
        table.changed_first = entry.newer
    if entry.newer != NULL:
        entry.newer.older = entry.older
    else:
        table.changed_last = entry.older
    entry.older = entry.newer = NULL
    entry.is_changed = False
    table.changed_count -= 1


cdef void join_changed(OffsetTable* table, GroupOffsets* entry) noexcept nogil:
    entry.older = table.changed_last
    if entry.older != NULL:
        entry.older.newer = entry
    else:
        table.changed_first = entry
    table.changed_last = entry
    entry.is_changed = True
    table.changed_count += 1


cdef inline void changed(OffsetTable* table, GroupOffsets* entry) noexcept nogil:
    table.version += 1
    if not entry.is_changed:
        join_changed(table, entry)


cdef void offsets_take_changed(OffsetTable* table) noexcept nogil:
    cdef GroupOffsets* entry = table.changed_first
    leave_changed(table, entry)
    if entry.slots == 0:
        free_offsets(entry)


cdef int grow(GroupOffsets* entry, int32_t queue_id) noexcept nogil:
    """Makes room for the queue; OK or POOL_EMPTY."""
    cdef int32_t slots = 8
    cdef int64_t* offsets
    cdef uint8_t* resets
    while slots <= queue_id:
        slots *= 2
    offsets = <int64_t*> realloc(entry.offsets, slots * sizeof(int64_t))
    if offsets == NULL:
        return POOL_EMPTY
    entry.offsets = offsets
    resets = <uint8_t*> realloc(entry.resets, slots)
    if resets == NULL:
        return POOL_EMPTY
    entry.resets = resets
    while entry.slots < slots:
        offsets[entry.slots] = -1
        resets[entry.slots] = 0
        entry.slots += 1
    return OK


cdef int entry_of(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                  const uint8_t* group, uint32_t group_length, int32_t queue_id,
                  GroupOffsets** out) noexcept nogil:
    """The pair's entry, with room for the queue; made when it does not exist."""
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef GroupOffsets* entry
    cdef int length = name_pair(name, topic, topic_length, SEPARATOR, group, group_length)
    if length < 0 or queue_id < 0 or queue_id > TOPIC_QUEUES_MAX:
        return TOO_LARGE
    if table.names.live >= ENTRIES_MAX and name_map_find(&table.names, name, length) == NULL:
        return POOL_EMPTY
    entry = <GroupOffsets*> name_map_obtain(&table.names, name, length,
                                            sizeof(GroupOffsets) + <uint64_t> length)
    if entry == NULL:
        return POOL_EMPTY
    if entry.name_bytes == 0:
        memcpy(&entry[1], name, length)
        entry.name_bytes = length
    out[0] = entry
    return OK if queue_id < entry.slots else grow(entry, queue_id)


cdef int offset_commit(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                       const uint8_t* group, uint32_t group_length, int32_t queue_id,
                       int64_t offset) noexcept nogil:
    cdef GroupOffsets* entry
    cdef int status
    if offset < 0:
        return TOO_LARGE
    status = entry_of(table, topic, topic_length, group, group_length, queue_id, &entry)
    if status == OK and entry.offsets[queue_id] != offset and not entry.resets[queue_id]:
        entry.offsets[queue_id] = offset
        changed(table, entry)
    return status


cdef int offset_reset(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                      const uint8_t* group, uint32_t group_length, int32_t queue_id,
                      int64_t offset) noexcept nogil:
    cdef GroupOffsets* entry
    cdef int status
    if offset < 0:
        return TOO_LARGE
    status = entry_of(table, topic, topic_length, group, group_length, queue_id, &entry)
    if status == OK:
        table.reset_count += not entry.resets[queue_id]
        entry.resets[queue_id] = 1
        entry.offsets[queue_id] = offset
        changed(table, entry)
    return status


cdef GroupOffsets* marked_entry(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                                const uint8_t* group, uint32_t group_length,
                                int32_t queue_id) noexcept nogil:
    """The pair's entry if the queue has a mark, else NULL."""
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef GroupOffsets* entry
    cdef int length = name_pair(name, topic, topic_length, SEPARATOR, group, group_length)
    if length < 0:
        return NULL
    entry = <GroupOffsets*> name_map_find(&table.names, name, length)
    if entry == NULL or queue_id < 0 or queue_id >= entry.slots or not entry.resets[queue_id]:
        return NULL
    return entry


cdef int64_t offset_marked(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                           const uint8_t* group, uint32_t group_length,
                           int32_t queue_id) noexcept nogil:
    cdef GroupOffsets* entry = marked_entry(table, topic, topic_length, group, group_length,
                                            queue_id)
    return entry.offsets[queue_id] if entry != NULL else -1


cdef int64_t offset_take_reset(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                               const uint8_t* group, uint32_t group_length,
                               int32_t queue_id) noexcept nogil:
    cdef GroupOffsets* entry = marked_entry(table, topic, topic_length, group, group_length,
                                            queue_id)
    if entry == NULL:
        return -1
    entry.resets[queue_id] = 0
    table.reset_count -= 1
    changed(table, entry)
    return entry.offsets[queue_id]


cdef int64_t offset_query(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                          const uint8_t* group, uint32_t group_length,
                          int32_t queue_id) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef GroupOffsets* entry
    cdef int length = name_pair(name, topic, topic_length, SEPARATOR, group, group_length)
    if length < 0:
        return -1
    entry = <GroupOffsets*> name_map_find(&table.names, name, length)
    if entry == NULL or queue_id < 0 or queue_id >= entry.slots:
        return -1
    return entry.offsets[queue_id]


cdef void forget_resets(OffsetTable* table, const GroupOffsets* entry) noexcept nogil:
    cdef int32_t i
    for i in range(entry.slots):
        table.reset_count -= entry.resets[i]


cdef void forget(OffsetTable* table, GroupOffsets* entry) noexcept nogil:
    """Forgets an entry that has left the map. It goes to the end of the list of changed ones: after
    an earlier entry of the same name, before a later one."""
    forget_resets(table, entry)
    free(entry.offsets)
    free(entry.resets)
    entry.offsets = NULL
    entry.resets = NULL
    entry.slots = 0
    if entry.is_changed:
        leave_changed(table, entry)
    changed(table, entry)


cdef void offsets_remove(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil:
    cdef NameEntry* entry
    cdef uint8_t* at
    cdef uint32_t before, after
    cdef uint64_t cursor = name_map_next(&table.names, 0, &entry)
    while cursor != 0:
        at = <uint8_t*> memchr(entry.name, SEPARATOR, entry.length)
        before = <uint32_t> (at - entry.name)
        after = entry.length - before - 1
        if ((topic_length == 0
             or (before == topic_length and memcmp(entry.name, topic, before) == 0))
                and (group_length == 0
                     or (after == group_length and memcmp(at + 1, group, after) == 0))):
            forget(table, <GroupOffsets*> name_map_remove(&table.names, entry.name, entry.length))
        cursor = name_map_next(&table.names, cursor, &entry)
