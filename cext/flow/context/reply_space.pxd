"""Reply space: bytes written straight into what a connection is about to send.

For a request of the broker to a client, and for an answer made before its ack. What is of
ordinary size lies in the connection's reply buffer, what is large in a jumbo buffer of its own.
Between the two calls nothing else may be queued for the connection.

Example: at = reply_space_take(s, to, 700, &block); 650 bytes are written there;
reply_space_commit(s, to, at, 650, block).

Reactor only.
"""
from libc.stdint cimport uint8_t, uint64_t

from cext.flow.context.turn_context cimport TurnContext
from cext.net.connection cimport Connection

# Where to write at most `room` bytes; NULL: no buffer is free, or none is so large.
cdef uint8_t* reply_space_take(TurnContext s, Connection* to, uint64_t room,
                               void** block) noexcept nogil
# Queues the `length` bytes written there; False: it could not, the room is given back.
cdef bint reply_space_commit(TurnContext s, Connection* to, uint8_t* at, uint64_t length,
                             void* block) noexcept nogil
