"""Sends that the control thread has, because their topic is new: what the client sends behind them
waits in the socket.

    send to an unknown topic -> control (sends_away 1), reading of the connection pauses
    control creates the topic, gives the frame back or refuses it (sends_away 0), reading goes on

So a client that sends at full speed to a topic that is made for it has its messages stored in the
order it sent them, none is refused because too much waits for control, and control holds what was
read at once and no more. Requests of other connections are served meanwhile.

A send that does not come back within AWAY_MS holds its client back no longer.
"""
from libc.stdint cimport int32_t

from cext.flow.shard_state cimport ShardState
from cext.net.connection cimport Connection

cdef enum:
    AWAY_MS = 3000

# Control has been given a send of this connection.
cdef void send_is_away(ShardState s, Connection* c) noexcept nogil
# Control is done with a send of this connection.
cdef void send_is_back(ShardState s, Connection* c) noexcept nogil
# About once a second.
cdef void forget_late_sends(ShardState s) noexcept nogil
