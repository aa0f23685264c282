"""TLS: a transport by OpenSSL, for listeners of the reactor.

    TlsContext      certificate, key and whom to trust; made by the control thread
    TlsServer       what a listener has: the context of now, and whether plain clients are served
    OfferedTls      of connections whose handshake is over when they come (tls_stream.pxd)

A client's first byte says which it is: 0x16 begins a TLS handshake. Where plain clients are served,
too (permissive), one that begins otherwise gets rid of its transport and is as fast as ever; else
it is closed.

Who shows a certificate that is believed has proved to be the one that its common name says; where
it has none, or several, nobody.

The steps of a handshake are the handshake thread's, and so is a connection's SSL while one is out.
The short ones are the reactor's: both of a session of TLS 1.2 that goes on, and a last one where
only the client's Finished is left to be heard. A session that turns out to be unknown needs a
signature: such a step stops before it, and goes to the thread.

A context is replaced for the connections that come from then on; those that are there keep theirs.
OpenSSL reads and writes the socket itself. What is sent is gathered to records of up to 16 KiB,
so that a reply's pieces do not become a record each. Of so many records TLS 1.3's keys are good
for (RFC 8446, 5.5: 2^24.5 of AES-GCM, some 390 GB) that only a stream of the log lives to see it:
each KEY_RECORDS of them they are changed.

Example: transport of a listener on port 10911, permissive: an old Java client sends 0x00 first and
speaks plainly, one with useTLS sends 0x16.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.connection cimport Transport
from cext.net.openssl cimport SSL, SSL_CTX, SSL_METHOD

cdef enum:
    RECORD_BYTES = 16384
    KEY_RECORDS = 8388608           # 2^23

cdef struct TlsServer:
    Transport transport             # its owner is the server itself
    SSL_CTX* context                # owned; NULL: there is none, and every client is plain
    bint is_permissive
    uint8_t* gathered               # owned; RECORD_BYTES
    uint32_t key_records            # sent with the same keys; KEY_RECORDS, but in tests
    # counters
    unsigned long long handshakes
    unsigned long long resumed
    unsigned long long failed
    unsigned long long key_updates

cdef struct OfferedTls:
    Transport transport             # its owner is this
    TlsServer* server               # whose buffer and counters it uses; borrowed
    SSL* offered                    # of the next connection that is added; owned until then

cdef class TlsContext:
    cdef SSL_CTX* context           # owned

# The beginning of a context of either side; NULL is no answer: MemoryError.
cdef SSL_CTX* new_context(const SSL_METHOD* method) except NULL
# What it shows: PEM files, the key's password. ConfigError, which names a file by its setting,
# `side`.certPath or `side`.keyPath, also for a key that is not the certificate's.
cdef int show(SSL_CTX* context, str side, str certificate, str key, password) except -1
# OpenSSL's own words for the first thing that went wrong in this thread.
cdef str last_error()

# OK | POOL_EMPTY. Close whatever came of it.
cdef int tls_server_open(TlsServer* server) noexcept nogil
cdef void tls_server_close(TlsServer* server) noexcept nogil
# The context of connections from now on; what it was is freed when its last connection is.
cdef void tls_server_set(TlsServer* server, SSL_CTX* context, bint is_permissive) noexcept nogil

cdef void tls_offered_open(OfferedTls* offered, TlsServer* server) noexcept nogil
# The transport for a connection that is added next, and that owns `ssl` from then on.
cdef const Transport* tls_offer(OfferedTls* offered, SSL* ssl) noexcept nogil
