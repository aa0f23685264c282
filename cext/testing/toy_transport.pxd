"""Toy transport: what TLS asks of the reactor, small enough to read, for tests.

Bytes pass in records (kind, length as 2 bytes, payload XOR 0x5A). As with TLS

    - a handshake comes first (HELLO is read, then WELCOME written) and waits for the socket twice
    - a receive gives at most 7 bytes of what it has: the rest is pending, with an empty socket
    - a PING has to be answered before anything behind it is received (WANT_WRITE)
    - after 1,000 bytes sent nothing more is until the client said ANSWER to ASK (WANT_READ)
    - several pieces are sent as one record each, and one that the socket took half is kept
    - BYE is said before the socket is closed
"""
from cext.net.connection cimport Transport

cdef enum ToyRecord:
    DATA = 1
    HELLO = 2                   # by the client
    WELCOME = 3
    ASK = 4
    ANSWER = 5                  # by the client
    PING = 6                    # by the client
    PONG = 7
    BYE = 8

cdef const Transport* toy_transport() noexcept nogil
