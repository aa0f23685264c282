"""Sends that the control thread has. See sends_away.pxd."""
from libc.stdint cimport uint32_t, uint64_t

from cext.flow.replying cimport hand_to_control
from cext.net.connection cimport UNREAD_AWAY


cdef int give_send_away(ShardState s, Connection* c, const Header* h,
                        const Frame* f) noexcept nogil:
    cdef uint64_t before = s.counters.control_requests
    cdef int result = hand_to_control(s, c, h, f)
    if s.counters.control_requests != before:
        c.sends_away += 1
        c.away_ms = s.now_ms
        s.net.stop_reading(c, UNREAD_AWAY)
    return result


cdef void send_is_back(ShardState s, Connection* c) noexcept nogil:
    if c.sends_away > 0:
        c.sends_away -= 1
        if c.sends_away == 0:
            s.net.go_on_reading(c, UNREAD_AWAY)


cdef void forget_late_sends(ShardState s) noexcept nogil:
    cdef Connection* c
    cdef uint32_t slot
    if s.net.unread_count(UNREAD_AWAY) == 0:
        return
    for slot in range(s.net.highest_slot):
        c = &s.net.connections[slot]
        if c.id != 0 and c.sends_away > 0 and s.now_ms - c.away_ms > AWAY_MS:
            c.sends_away = 0
            s.net.go_on_reading(c, UNREAD_AWAY)
