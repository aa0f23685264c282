"""Replies that have been pushed and are not answered yet. See reply_table.pxd."""
from cext.base.check cimport check
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


cdef inline int32_t place_of(ReplyTable* table, PushedReply* slot) noexcept nogil:
    return <int32_t> (slot - table.slots)


cdef int32_t reply_table_take(ReplyTable* table, PushedReply* slot, uint64_t to_id) noexcept nogil:
    """Returns the opaque of the push."""
    cdef int32_t place = place_of(table, slot)
    check(slot.to_id == 0, b"pushed replies: a slot that is taken is free", place, slot.to_id)
    if place == table.fresh:
        table.fresh += 1
    else:
        check(place == table.first_free, b"pushed replies: a slot is taken from the free ones",
              place, table.first_free)
        table.first_free = slot.next_free
    table.count += 1
    slot.to_id = to_id
    slot.uses = (slot.uses + 1) & USES_MASK
    return <int32_t> (PUSH_OPAQUE | slot.uses << SLOT_BITS | <uint32_t> place)


cdef PushedReply* reply_table_find(ReplyTable* table, int32_t opaque,
                                   uint64_t to_id) noexcept nogil:
    cdef PushedReply* slot = &table.slots[opaque & (PUSHES_MAX - 1)]
    if slot.to_id != to_id or (<uint32_t> opaque >> SLOT_BITS & USES_MASK) != slot.uses:
        return NULL
    return slot


cdef void reply_table_free(ReplyTable* table, PushedReply* slot) noexcept nogil:
    cdef int32_t place = place_of(table, slot)
    check(slot.to_id != 0, b"pushed replies: a slot is freed once", place, table.first_free)
    check(table.count > 0, b"pushed replies: no more end than were pushed", table.count, place)
    slot.to_id = 0
    slot.next_free = table.first_free
    table.first_free = place
    table.count -= 1


cdef void reply_table_check(ReplyTable* table) noexcept nogil:
    cdef int32_t i, used = 0, unused = 0
    for i in range(table.fresh):
        used += table.slots[i].to_id != 0
    check(used == table.count, b"pushed replies: as many are under way as are counted", used,
          table.count)
    i = table.first_free
    while 0 <= i < table.fresh and unused <= table.fresh:
        unused += 1
        i = table.slots[i].next_free
    check(used + unused == table.fresh, b"pushed replies: a slot is under way or free", unused,
          table.fresh - used)
