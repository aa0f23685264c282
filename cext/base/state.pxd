# State: where an object is in its life; only certain states may follow each other.
#
# state_move is the one setter. Its caller names, as bits, the states from which the new one may be
# reached. Any other change is a mistake in this code and ends the process, with the state before
# and the one that was wanted. The state is stored with release order: a change of state may hand
# what the state guards to another thread, which reads the state with acquire order. Only the thread
# whose turn it is changes the state.
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
