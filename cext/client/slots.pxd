"""Slots: requests under way. All functions but slots_open want the engine's lock held.

Example: slot = slot_take(state, now); ...frame with slot.opaque...; later slot_of(state, opaque).
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.client.state cimport Batch, EngineState, Link, MailboxState, Slot

# OK | POOL_EMPTY (no memory).
cdef int slots_open(EngineState* state) noexcept nogil

# A slot with an opaque of its own, or NULL when all are in use.
cdef Slot* slot_take(EngineState* state) noexcept nogil

# The slot that has this opaque, or NULL when it is not under way any more.
cdef Slot* slot_of(EngineState* state, int32_t opaque) noexcept nogil

# Frees what the engine owns of it and makes it available. The Python references are gone by then.
cdef void slot_release(EngineState* state, Slot* slot) noexcept nogil

# A slot outside the table for what is not an answer; NULL without memory. No lock needed.
cdef Slot* slot_on_heap(int outcome, int32_t link) noexcept nogil

cdef void batch_free(Batch* batch) noexcept nogil

# Engine thread: hands the slot to its mailbox at the end of the turn. `post_staged` does it.
cdef void slot_stage(EngineState* state, Slot* slot, int outcome, int32_t code) noexcept nogil
cdef void post_staged(EngineState* state) noexcept nogil
