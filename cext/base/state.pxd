# State: where something is in its life; only some states may follow each other.
#
# The one setter names the states from which the new one may be reached, as bits. Any other move is
# a mistake in this code and ends the process, with the state before and the one that was wanted.
# It moves with release order: a state may hand what it guards to another thread, which reads it
# with acquire order. Only the side whose turn it is moves it.
#
# Example: a repair is LOOKING or WRITING before it is OVER:
#
#     state_move(&r.state, OVER, 1 << LOOKING | 1 << WRITING, b"a repair is over after its work")

from libc.stdint cimport int32_t, uint32_t

from cext.base.atomics cimport store_release_i32
from cext.base.check cimport check


cdef inline void state_move(int32_t* state, int32_t to, uint32_t allowed_from,
                            const char* text) noexcept nogil:
    check(allowed_from >> state[0] & 1, text, state[0], to)
    store_release_i32(state, to)
