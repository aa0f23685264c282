"""Socket BIO: how OpenSSL reads and writes the socket of a connection.

OpenSSL's own socket BIO reads each record with two system calls, one for the five bytes of its head
and one for the rest, and then a third call finds the socket empty. This BIO always receives as much
as its buffer has room for. If less came, the socket is known to be empty, and OpenSSL's next read
within the same call is answered without a system call. A turn that brings a record thus costs one
system call, not three.

OpenSSL's read-ahead is no alternative: with it, SSL_read does not stop at the end of a record, and
a client that sends nothing but key changes could keep the reactor busy as long as it likes.

The kernel's encryption (kTLS) works only with OpenSSL's own socket BIO: this one takes no keys.

Since bytes may be left in the socket, the loop must wait for the state "readable", not for the
arrival of bytes: epoll level-triggered, or armed again.

Example: 200 bytes came as two records. One recv takes both; the third SSL_read returns WANT_READ.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.openssl cimport BIO

cdef struct SocketBio:
    int fd                          # borrowed
    uint8_t* held                   # owned; received, not read by OpenSSL yet; NULL: no buffer
    uint32_t begin, end             # of these bytes in `held`
    bint is_empty                   # the last recv left room; OpenSSL has not been told yet
    bint has_ended                  # the other side sends no more

# The BIO of `state`, which must live as long as the BIO. NULL: no memory.
cdef BIO* socket_bio_new(SocketBio* state) noexcept nogil
# Call before a call of OpenSSL, so that its first read asks the socket.
cdef void socket_bio_look(SocketBio* state) noexcept nogil
# Call after a call of OpenSSL: frees the buffer if it holds no bytes.
cdef void socket_bio_rest(SocketBio* state) noexcept nogil
# Received bytes that OpenSSL has not read.
cdef uint32_t socket_bio_holds(const SocketBio* state) noexcept nogil
# Harmless if the state was never used.
cdef void socket_bio_free(SocketBio* state) noexcept nogil
