"""Slots: requests under way. All functions but slots_open need the engine's lock held.

Example: slot = slot_take(state); ...frame with slot.opaque...; later slot_of(state, opaque).
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.client.state cimport Batch, EngineState, Link, MailboxState, Slot

# OK | POOL_EMPTY (no memory).
cdef int slots_open(EngineState* state) noexcept nogil

# A slot with an opaque of its own, or NULL when all are in use.
cdef Slot* slot_take(EngineState* state) noexcept nogil

# The slot with this opaque, or NULL when its request is no longer under way.
cdef Slot* slot_of(EngineState* state, int32_t opaque) noexcept nogil

# Frees what the engine owns of the slot and makes it available. Call it when the slot's Python
# references are gone.
cdef void slot_release(EngineState* state, Slot* slot) noexcept nogil

# A slot outside the table, for what is not an answer; NULL without memory. Needs no lock.
cdef Slot* slot_on_heap(int outcome, int32_t link) noexcept nogil

cdef void batch_free(Batch* batch) noexcept nogil

# Engine thread. Marks the slot as ended; post_staged(), at the turn's end, puts it into its
# mailbox.
cdef void slot_stage(EngineState* state, Slot* slot, int outcome, int32_t code) noexcept nogil
cdef void post_staged(EngineState* state) noexcept nogil
