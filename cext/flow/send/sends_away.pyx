"""Sends that the control thread has. See sends_away.pxd."""
from libc.stdint cimport uint32_t

from cext.flow.client_state cimport UNREAD_AWAY, ClientState, client_state


cdef void send_is_away(ShardState s, Connection* c) noexcept nogil:
    client_state(c).sends_away += 1
    client_state(c).away_ms = s.now_ms
    s.net.stop_reading(c, UNREAD_AWAY)


cdef void send_is_back(ShardState s, Connection* c) noexcept nogil:
    if client_state(c).sends_away > 0:
        client_state(c).sends_away -= 1
        if client_state(c).sends_away == 0:
            s.net.go_on_reading(c, UNREAD_AWAY)


cdef void forget_late_sends(ShardState s) noexcept nogil:
    cdef ClientState* client
    cdef Connection* c
    cdef uint32_t slot
    if s.net.unread_count(UNREAD_AWAY) == 0:
        return
    for slot in range(s.net.highest_slot):
        c = &s.net.connections[slot]
        client = client_state(c)
        if c.id != 0 and client.sends_away > 0 and s.now_ms - client.away_ms > AWAY_MS:
            client.sends_away = 0
            s.net.go_on_reading(c, UNREAD_AWAY)
