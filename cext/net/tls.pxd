"""TLS: a transport for the reactor's listeners, built on OpenSSL.

    TlsContext      certificate, key and trusted authorities; made by the control thread
    TlsServer       of a listener: its current context, and whether it also serves plain clients
    OfferedTls      for connections that have finished their handshake elsewhere (tls_stream.pxd)

A client's first byte tells how it speaks: 0x16 begins a TLS handshake. Any other byte means a plain
client. In permissive mode its connection drops this transport and is as fast as without TLS; in
enforcing mode it is closed.

A client that shows a trusted certificate is known by the certificate's common name. With no common
name, or with several, it is anonymous.

The handshake thread runs the steps of a handshake, and owns the connection's SSL while it has one.
Two kinds of steps are short, so that the reactor runs them itself: those that resume a session of
TLS 1.2, and a last step that only waits for the client's Finished. If the session to be resumed is
unknown, a signature is needed after all: the step stops before it and goes to the thread.

A new context is used for new connections; those that exist keep theirs. OpenSSL reads and writes
the socket itself. The pieces of a reply are gathered into records of up to 16 KiB instead of
becoming a record each. TLS 1.3 limits how many records one key may protect (RFC 8446, 5.5: 2^24.5
with AES-GCM, some 390 GB). Only a replication stream lives long enough to reach that, and its keys
are changed every KEY_RECORDS records.

Example: a permissive listener on port 10911. An old Java client sends 0x00 first and speaks
plainly; one with useTLS sends 0x16.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.connection cimport Transport
from cext.net.openssl cimport SSL, SSL_CTX, SSL_METHOD

cdef enum:
    RECORD_BYTES = 16384
    KEY_RECORDS = 8388608           # 2^23

cdef struct TlsServer:
    Transport transport             # its owner is the server itself
    SSL_CTX* context                # owned; NULL: no TLS, every client is plain
    bint is_permissive
    uint8_t* gathered               # owned; RECORD_BYTES
    uint32_t key_records            # sent with the same keys; KEY_RECORDS, except in tests
    # counters
    unsigned long long handshakes
    unsigned long long resumed
    unsigned long long failed
    unsigned long long key_updates

cdef struct OfferedTls:
    Transport transport             # its owner is this
    TlsServer* server               # borrowed; its buffer and counters are used
    SSL* offered                    # for the next connection that is added; owned until then

cdef class TlsContext:
    cdef SSL_CTX* context           # owned

# A context with the settings that both sides share. MemoryError.
cdef SSL_CTX* new_context(const SSL_METHOD* method) except NULL
# Gives a context its certificate: PEM files and the key's password. ConfigError names the file by
# its setting (`side`.certPath or `side`.keyPath), also if the key does not belong to the
# certificate.
cdef int show(SSL_CTX* context, str side, str certificate, str key, password) except -1
# OpenSSL's text for the first error of this thread.
cdef str last_error()

# OK | POOL_EMPTY. Close it in any case.
cdef int tls_server_open(TlsServer* server) noexcept nogil
cdef void tls_server_close(TlsServer* server) noexcept nogil
# Sets the context of new connections. The one before is freed with its last connection.
cdef void tls_server_set(TlsServer* server, SSL_CTX* context, bint is_permissive) noexcept nogil

cdef void tls_offered_open(OfferedTls* offered, TlsServer* server) noexcept nogil
# Returns the transport for the connection that is added next, which then owns `ssl`.
cdef const Transport* tls_offer(OfferedTls* offered, SSL* ssl) noexcept nogil
