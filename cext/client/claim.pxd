"""Claim: what a caller takes before it writes a frame, and may have to wait for: a slot, or room in
a link's buffer. And the waking of the engine's thread, when the frame is written.

    slot = claim_slot(state, timeout_us, &until_us, mailbox)     # now the engine's lock is held
    ...the frame, link_mark...
    wake = needs_wake(state, 0); lock_release(&state.lock)
    if wake: engine_wake(state)
"""
from libc.stdint cimport int64_t, uint64_t

from cext.base.sysio cimport event_signal
from cext.client.mailbox cimport Mailbox
from cext.client.state cimport EngineState, Link, Slot


cdef enum:
    WAIT_US = 100_000        # longest single wait of a caller; then it looks again
    STOOD_US = 250_000       # if a wait ends later by more, the thread was not let run

# A slot for a Python caller, which waits for one up to `timeout_us`, without the GIL. NULL: none
# came free; otherwise the engine's lock is held on return. `mailbox`: where the request's end will
# be told. A caller that is delivering at the moment may get the slot of a request whose end it has
# begun to tell; if it delivers from `mailbox` itself, it does not wait for a slot. `until_us` is
# set to the end of the caller's time. The clock for that is read under the lock. If the process
# stands still after that, the engine finds the slot and gives the time back; if it stood still
# before, the time was not counted. Time in which the thread waited and was not let run is not
# counted either.
cdef Slot* claim_slot(EngineState* state, int64_t timeout_us, int64_t* until_us, Mailbox mailbox)

# True, with the lock held, when the link's buffer is empty, or `bytes` more keep it within
# bytes_max, or the engine is closed; with bytes_max 0 at once. False, without the lock, when that
# did not come in time.
cdef bint claim_room(EngineState* state, Link* link, uint64_t bytes, uint64_t bytes_max,
                     int64_t timeout_us) noexcept

# For a caller that waits, and looks again after WAIT_US at most: whether any of its `timeout_us`,
# which began with its first look, is left. Time in which the process stood still between two looks
# (stopped, swapped out, its machine paused) does not count. looked_us: its last look, by
# machine_us; 0 before the first look.
cdef bint has_time(int64_t timeout_us, int64_t* looked_us, int64_t* until_us) noexcept nogil

# Lock held. Whether the thread sleeps beyond until_us (0: sleeps at all); then release the lock and
# call engine_wake.
cdef inline bint needs_wake(EngineState* state, int64_t until_us) noexcept nogil:
    if state.sleeping and until_us < state.sleep_until_us:
        state.sleeping = False
        return True
    return False


cdef inline void engine_wake(EngineState* state) noexcept nogil:
    event_signal(state.wake_fd)
