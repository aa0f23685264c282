"""Pending topic sends. See pending_topic_sends.pxd."""
from libc.stdint cimport uint32_t

from cext.flow.context.client_state cimport UNREAD_PENDING, ClientState, client_state


cdef void pending_send_add(SendService s, Connection* c) noexcept nogil:
    client_state(c).pending_topic_sends += 1
    client_state(c).pending_since_ms = s.turn.now_ms
    s.turn.net.stop_reading(c, UNREAD_PENDING)


cdef void pending_send_done(SendService s, Connection* c) noexcept nogil:
    if client_state(c).pending_topic_sends > 0:
        client_state(c).pending_topic_sends -= 1
        if client_state(c).pending_topic_sends == 0:
            s.turn.net.go_on_reading(c, UNREAD_PENDING)


cdef void pending_sends_expire(SendService s) noexcept nogil:
    cdef ClientState* client
    cdef Connection* c
    cdef uint32_t slot
    if s.turn.net.unread_count(UNREAD_PENDING) == 0:
        return
    for slot in range(s.turn.net.highest_slot):
        c = &s.turn.net.connections[slot]
        client = client_state(c)
        if (c.id != 0 and client.pending_topic_sends > 0
                and s.turn.now_ms - client.pending_since_ms > PENDING_MS):
            client.pending_topic_sends = 0
            s.turn.net.go_on_reading(c, UNREAD_PENDING)
