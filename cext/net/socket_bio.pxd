"""Socket BIO: how OpenSSL reads and writes the socket of a connection.

OpenSSL's own reads each record by two system calls, its five bytes of head and the rest, and looks
once more when there is nothing left. This one takes from the socket what its buffer has room for,
whatever it is asked for, and where less came the socket is known to be empty: the next look, which
OpenSSL takes in the same call, is answered without one. So a turn that brings a record costs one
call, not three.

It does so in the place of OpenSSL's read-ahead, with which a read of OpenSSL does not end with its
record: who sends nothing but changes of keys would keep the reactor for as long as it likes.

The kernel's own encryption (kTLS) is for OpenSSL's BIO of sockets alone: this one takes no keys.

Whoever waits for the socket must be told of bytes that are there by then, and not of their coming
alone: epoll, level-triggered, or armed anew.

Example: 200 bytes came as two records. One recv has both; the third SSL_read says WANT_READ.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.openssl cimport BIO

cdef struct SocketBio:
    int fd                          # borrowed
    uint8_t* held                   # owned; what was received and not asked for yet; NULL: nothing
    uint32_t begin, end             # in `held`
    bint is_empty                   # less came than there was room, and nobody has heard of it yet
    bint has_ended                  # the other side sends no more

# The BIO of `state`, which lives as long; NULL: no memory.
cdef BIO* socket_bio_new(SocketBio* state) noexcept nogil
# Before a call of OpenSSL: its reads ask the socket.
cdef void socket_bio_look(SocketBio* state) noexcept nogil
# Behind it: a buffer without bytes is given back.
cdef void socket_bio_rest(SocketBio* state) noexcept nogil
# Bytes that OpenSSL has not asked for.
cdef uint32_t socket_bio_holds(const SocketBio* state) noexcept nogil
# Harmless of one that was never used.
cdef void socket_bio_free(SocketBio* state) noexcept nogil
