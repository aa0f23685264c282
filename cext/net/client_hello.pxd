"""Client hello: the first message of a TLS client, read to estimate what answering it will cost.

Resuming a session of TLS 1.2 needs only hashes and a symmetric cipher, which cost less than handing
the step to the handshake thread. TLS 1.3 exchanges keys even when it resumes a session, and a new
session needs a signature. This is an estimate: OpenSSL reads the same bytes again and may find that
it does not know the session.

Example: when a client of Java 8 reconnects, its hello has the id of its session; that of a client
with OpenSSL has a ticket. The hello of a client that connects for the first time has neither.
"""
from libc.stdint cimport uint8_t

cdef enum:
    HELLO_RECORD = 0x16             # the first byte of a TLS handshake

# Whether these bytes are a complete hello of TLS 1.2 that asks to resume a session, by id or
# ticket.
cdef bint hello_resumes(const uint8_t* at, size_t length) noexcept nogil
