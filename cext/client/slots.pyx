"""The table of requests under way (slots.pxd; the lifecycle of a slot is drawn in state.pxd)."""
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from cext.base.check cimport debug_check
from cext.base.status cimport Status
from cext.base.sysio cimport event_signal
from cext.client.mutex cimport condition_signal, lock_release, lock_take
from cext.client.state cimport (
    SLOT_BITS, SLOT_MASK, SLOTS, Batch, EngineState, MailboxState, Slot,
)
from cext.memory.list_ends cimport list_ends_check

cdef enum:
    GENERATIONS = 1 << (31 - SLOT_BITS)


cdef int slots_open(EngineState* state) noexcept nogil:
    cdef int32_t i
    state.slots = <Slot*>calloc(SLOTS, sizeof(Slot))
    if state.slots == NULL:
        return Status.POOL_EMPTY
    for i in range(SLOTS):
        state.slots[i].index = i
        state.slots[i].next = &state.slots[i + 1] if i + 1 < SLOTS else NULL
    state.free_first = &state.slots[0]
    state.free_last = &state.slots[SLOTS - 1]
    state.free_count = SLOTS
    return Status.OK


cdef Slot* slot_take(EngineState* state) noexcept nogil:
    cdef Slot* slot = state.free_first
    if slot == NULL:
        return NULL
    state.free_first = slot.next
    if state.free_first == NULL:
        state.free_last = NULL
    list_ends_check(state.free_first, state.free_last)
    state.free_count -= 1
    slot.next = NULL
    slot.generation = slot.generation + 1 if slot.generation + 1 < GENERATIONS else 1
    slot.opaque = slot.generation << SLOT_BITS | slot.index
    slot.frame = NULL
    slot.batch = NULL
    slot.id_bytes = 0
    slot.framed = False
    return slot


cdef Slot* slot_of(EngineState* state, int32_t opaque) noexcept nogil:
    cdef Slot* slot = &state.slots[opaque & SLOT_MASK]
    if opaque <= 0 or slot.opaque != opaque or not slot.framed:
        return NULL
    return slot


cdef void batch_free(Batch* batch) noexcept nogil:
    if batch != NULL:
        free(batch.bytes)
        free(batch.items)
        free(batch)


cdef void slot_release(EngineState* state, Slot* slot) noexcept nogil:
    free(slot.frame)
    slot.frame = NULL
    batch_free(slot.batch)
    slot.batch = NULL
    if slot.on_heap:
        free(slot)
        return
    slot.opaque = 0
    slot.next = NULL
    if state.free_last != NULL:
        state.free_last.next = slot
    else:
        state.free_first = slot
    state.free_last = slot
    debug_check(state.free_count < SLOTS, b"the client: a slot is freed once", slot.index,
                state.free_count)
    state.free_count += 1
    if state.slot_waiters:
        condition_signal(&state.slots_freed)


cdef Slot* slot_on_heap(int outcome, int32_t link) noexcept nogil:
    cdef Slot* slot = <Slot*>calloc(1, sizeof(Slot))
    if slot != NULL:
        slot.on_heap = True
        slot.outcome = <unsigned char>outcome
        slot.link = link
    return slot


cdef void slot_stage(EngineState* state, Slot* slot, int outcome, int32_t code) noexcept nogil:
    cdef MailboxState* mailbox = slot.mailbox
    slot.outcome = <unsigned char>outcome
    slot.code = code
    slot.opaque = 0
    slot.next = NULL
    if mailbox.staged_last != NULL:
        mailbox.staged_last.next = slot
    else:
        mailbox.staged_first = slot
    mailbox.staged_last = slot
    if not mailbox.is_staged:
        mailbox.is_staged = True
        mailbox.next_staged = state.staged_first
        state.staged_first = mailbox


cdef void put(MailboxState* mailbox, Slot* first, Slot* last) noexcept nogil:
    """After this call the mailbox may be gone: only the slots in it keep its owner alive."""
    lock_take(&mailbox.lock)
    if mailbox.last != NULL:
        mailbox.last.next = first
    else:
        mailbox.first = first
    mailbox.last = last
    if mailbox.waiters:
        condition_signal(&mailbox.filled)
    if mailbox.event_fd >= 0 and not mailbox.signalled:
        mailbox.signalled = True
        event_signal(mailbox.event_fd)
    lock_release(&mailbox.lock)


cdef void post_staged(EngineState* state) noexcept nogil:
    cdef MailboxState* mailbox = state.staged_first
    cdef MailboxState* following
    cdef Slot* first
    cdef Slot* last
    state.staged_first = NULL
    while mailbox != NULL:
        following = mailbox.next_staged
        first = mailbox.staged_first
        last = mailbox.staged_last
        mailbox.staged_first = mailbox.staged_last = NULL
        mailbox.is_staged = False
        put(mailbox, first, last)
        mailbox = following
