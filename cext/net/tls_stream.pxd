"""TLS stream: TLS on a socket of the control thread, which the reactor takes over later.

    stream = TlsStream(fd, TlsClientContext(..), False); handshake, a few bytes in each direction
    core.follow_master(fd, whole, stream)       take_ssl(): the reactor's connection owns it now

It encrypts also what is said before the reactor has the connection: which replica this is, and at
which offset the log continues.

Example: a slave does both handshakes with its master's HA port, that of TLS and that of HA, and
then gives the socket and the stream to the reactor.
"""
from cext.net.openssl cimport SSL, SSL_CTX

cdef class TlsClientContext:
    cdef SSL_CTX* context           # owned

cdef class TlsStream:
    cdef SSL* ssl                   # owned; NULL: the reactor has taken it
    cdef readonly bint wants_write  # the last call waits until the socket is writable

    # ValueError: the reactor has taken the stream.
    cdef SSL* opened(self) except NULL
    # None: the call must wait. OSError: the connection has failed.
    cdef object waits(self, int result)

# Takes the SSL out of `stream`, a TlsStream or None. NULL: it is None, the connection is plain.
cdef SSL* take_ssl(stream) except? NULL
# Frees the SSL of a connection that was not added.
cdef void drop_ssl(SSL* ssl) noexcept nogil
