"""Reply space: bytes written straight into what a connection is about to send.

Used for a request of the broker to a client, and for an answer made before its ack. Ordinary sizes
lie in the connection's reply buffer, large ones in a jumbo buffer of their own. Nothing else may be
queued for the connection between the two calls.

Example: at = reply_space_take(s, to, 700, &block); 650 bytes are written there;
reply_space_commit(s, to, at, 650, block).

Reactor only.
"""
from libc.stdint cimport uint8_t, uint64_t

from cext.flow.context.turn_context cimport TurnContext
from cext.net.connection cimport Connection

# Where to write at most `room` bytes; NULL: no buffer is free, or none is large enough.
cdef uint8_t* reply_space_take(TurnContext s, Connection* to, uint64_t room,
                               void** block) noexcept nogil
# Queues the `length` bytes written there. False: that was not possible, and the room is given back.
cdef bint reply_space_commit(TurnContext s, Connection* to, uint8_t* at, uint64_t length,
                             void* block) noexcept nogil
