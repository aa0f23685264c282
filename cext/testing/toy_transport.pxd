"""Toy transport: everything that TLS asks of the reactor, small enough to read, for tests.

Bytes pass in records (kind, length as 2 bytes, payload XOR 0x5A). As with TLS

    - a handshake comes first (HELLO is read, then WELCOME written) and waits for the socket twice
    - a receive gives at most 7 bytes of what it has: the rest is pending while the socket is empty
    - a PING must be answered before anything after it is received (WANT_WRITE)
    - after 1,000 bytes nothing more is sent until the client has answered ASK (WANT_READ)
    - several pieces are sent, each as a record; a record that the socket took partly is kept
    - BYE is sent before the socket is closed
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
