"""TLS stream: TLS on a socket of the control thread, which the reactor takes over when it is there.

    stream = TlsStream(fd, TlsClientContext(..), False); handshake, a few bytes here and there
    core.follow_master(fd, whole, stream)       take_ssl(): the reactor's connection owns it now

So that what is said before a connection is the reactor's (who is it? from where does the log go
on?) is hidden as well.

Example: a slave shakes hands with its master's HA port, by TLS and as HA has it, and gives both to
the reactor.
"""
from cext.net.openssl cimport SSL, SSL_CTX

cdef class TlsClientContext:
    cdef SSL_CTX* context           # owned

cdef class TlsStream:
    cdef SSL* ssl                   # owned; NULL: it was taken
    cdef readonly bint wants_write  # the last call waits until the socket is writable

    cdef SSL* opened(self) except NULL
    # None; OSError where nothing more can come of it.
    cdef object waits(self, int result)

# Of what a call was given: a TlsStream, or None. NULL: plain.
cdef SSL* take_ssl(stream) except? NULL
# Of a connection that nobody has added.
cdef void drop_ssl(SSL* ssl) noexcept nogil
