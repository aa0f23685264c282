"""Pending topic sends: how many sends of a connection wait at control, which makes their topics.

The sends wait there (rmq/broker/dispatch/topic_creations); what the client sends after them waits
in the socket.

    send to an unknown topic -> control (pending_topic_sends 1), reading of the connection pauses
    control creates the topic, gives the frame back or refuses it (0 again), reading goes on

So when a client sends at full speed to a topic that is being made for it, its messages are stored
in the order in which it sent them, none is refused because too much waits for control, and control
holds no more than was read at once. Requests of other connections are served meanwhile.

A send that does not come back within PENDING_MS no longer holds its client back.
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
# Lets clients go on whose sends did not come back in time; about once a second.
cdef void pending_sends_expire(SendService s) noexcept nogil
