"""Slots and room for callers who may wait for them (see claim.pxd)."""
from libc.stdint cimport int64_t, uint64_t

from cext.base.clock cimport machine_us, monotonic_us_at, wake_us
from cext.client.mailbox cimport Mailbox, give_back_own, is_teller
from cext.client.mutex cimport condition_wait, lock_release, lock_take
from cext.client.slots cimport slot_take
from cext.client.state cimport EngineState, Link, Slot


cdef bint has_time(int64_t timeout_us, int64_t* looked_us, int64_t* until_us) noexcept nogil:
    cdef int64_t look_us = machine_us()
    cdef int64_t now_us = monotonic_us_at(look_us)
    cdef int64_t over_us = look_us - looked_us[0] - WAIT_US
    if looked_us[0] == 0:
        until_us[0] = now_us + timeout_us
    elif over_us > STOOD_US:
        until_us[0] += over_us
    looked_us[0] = look_us
    return now_us < until_us[0]


cdef Slot* claim_slot(EngineState* state, int64_t timeout_us, int64_t* until_us, Mailbox mailbox):
    cdef Slot* slot
    cdef int64_t looked_us = 0
    cdef bint in_time, tells = is_teller(mailbox)
    while True:
        lock_take(&state.lock)
        in_time = has_time(timeout_us, &looked_us, until_us)
        if state.closed:
            lock_release(&state.lock)
            return NULL
        slot = slot_take(state)
        if slot == NULL and mailbox.engine.tellers != NULL:
            give_back_own(mailbox.engine)
            slot = slot_take(state)
        if slot != NULL:
            return slot
        if tells or not in_time:
            lock_release(&state.lock)
            return NULL
        # A thread must never wait for the GIL while it has the lock: others have the GIL and want
        # the lock. So the lock is released before `nogil` ends.
        with nogil:
            state.slot_waiters += 1
            condition_wait(&state.slots_freed, &state.lock,
                           min(wake_us(until_us[0]), looked_us + WAIT_US))
            state.slot_waiters -= 1
            lock_release(&state.lock)


cdef bint claim_room(EngineState* state, Link* link, uint64_t bytes, uint64_t bytes_max,
                     int64_t timeout_us) noexcept:
    cdef int64_t looked_us = 0, until_us = 0
    cdef bint in_time
    while True:
        lock_take(&state.lock)
        in_time = has_time(timeout_us, &looked_us, &until_us)
        if (state.closed or bytes_max == 0 or link.fill_used == 0
                or link.fill_used + bytes <= bytes_max):
            return True
        if not in_time:
            lock_release(&state.lock)
            return False
        with nogil:                  # as in claim_slot
            state.room_waiters += 1
            condition_wait(&state.room_made, &state.lock,
                           min(wake_us(until_us), looked_us + WAIT_US))
            state.room_waiters -= 1
            lock_release(&state.lock)
