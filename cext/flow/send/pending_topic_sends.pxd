"""Pending topic sends: how many of a connection's sends control has, for topics that it makes.

The sends wait there (rmq/broker/dispatch/topic_creations); what the client sends behind them waits
in the socket.

    send to an unknown topic -> control (pending_topic_sends 1), reading of the connection pauses
    control creates the topic, gives the frame back or refuses it (0 again), reading goes on

So a client that sends at full speed to a topic that is made for it has its messages stored in the
order it sent them, none is refused because too much waits for control, and control holds what was
read at once and no more. Requests of other connections are served meanwhile.

A send that does not come back within PENDING_MS holds its client back no longer.
"""
from libc.stdint cimport int32_t

from cext.flow.send.send_service cimport SendService
from cext.net.connection cimport Connection

cdef enum:
    PENDING_MS = 3000

# Control has been given a send of this connection.
cdef void pending_send_add(SendService s, Connection* c) noexcept nogil
# Control is done with a send of this connection.
cdef void pending_send_done(SendService s, Connection* c) noexcept nogil
# About once a second.
cdef void pending_sends_expire(SendService s) noexcept nogil
