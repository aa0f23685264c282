"""Replies that have been pushed and are not answered yet. See reply_table.pxd."""
from cext.base.status cimport OK, POOL_EMPTY
from cext.memory.arena cimport arena_page_bytes, arena_take_pages
from cext.memory.name_map cimport name_map_close, name_map_open


cdef uint64_t reply_table_arena_bytes() noexcept nogil:
    return arena_page_bytes(PUSHES_MAX * sizeof(PushedReply))


cdef int reply_table_open(ReplyTable* table, Arena* arena) noexcept nogil:
    table.slots = <PushedReply*> arena_take_pages(arena, PUSHES_MAX * sizeof(PushedReply))
    if table.slots == NULL or name_map_open(&table.clients) != OK:
        return POOL_EMPTY
    table.first_free = -1
    return OK


cdef void reply_table_close(ReplyTable* table) noexcept nogil:
    name_map_close(&table.clients)


cdef PushedReply* reply_table_next(ReplyTable* table) noexcept nogil:
    if table.first_free >= 0:
        return &table.slots[table.first_free]
    return &table.slots[table.fresh] if table.fresh < PUSHES_MAX else NULL


cdef int32_t reply_table_take(ReplyTable* table, PushedReply* slot, uint64_t to_id) noexcept nogil:
    """Returns the opaque of the push."""
    if slot == &table.slots[table.fresh]:
        table.fresh += 1
    else:
        table.first_free = slot.next_free
    table.count += 1
    slot.to_id = to_id
    slot.uses = (slot.uses + 1) & USES_MASK
    return <int32_t> (PUSH_OPAQUE | slot.uses << SLOT_BITS | <uint32_t> (slot - table.slots))


cdef PushedReply* reply_table_find(ReplyTable* table, int32_t opaque,
                                   uint64_t to_id) noexcept nogil:
    cdef PushedReply* slot = &table.slots[opaque & (PUSHES_MAX - 1)]
    if slot.to_id != to_id or (<uint32_t> opaque >> SLOT_BITS & USES_MASK) != slot.uses:
        return NULL
    return slot


cdef void reply_table_free(ReplyTable* table, PushedReply* slot) noexcept nogil:
    slot.to_id = 0
    slot.next_free = table.first_free
    table.first_free = <int32_t> (slot - table.slots)
    table.count -= 1
