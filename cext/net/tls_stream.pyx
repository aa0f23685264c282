"""TLS stream. See tls_stream.pxd."""
from libc.stdint cimport uint8_t

from cext.net.openssl cimport (
    ERR_clear_error,
    SSL,
    SSL_CTX,
    SSL_CTX_free,
    SSL_CTX_load_verify_locations,
    SSL_CTX_set_default_verify_paths,
    SSL_CTX_set_verify,
    SSL_ERROR_WANT_READ,
    SSL_ERROR_WANT_WRITE,
    SSL_ERROR_ZERO_RETURN,
    SSL_VERIFY_PEER,
    SSL_do_handshake,
    SSL_free,
    SSL_get_error,
    SSL_get_verify_result,
    SSL_new,
    SSL_read,
    SSL_set_accept_state,
    SSL_set_connect_state,
    SSL_set_fd,
    SSL_write,
    TLS_client_method,
    X509_V_OK,
    X509_verify_cert_error_string,
)
from cext.net.tls cimport TlsContext, last_error, new_context, show

from rmq.errors import ConfigError, not_copied

cdef enum:
    READ_BYTES = 4096


cdef class TlsClientContext:
    """This process's certificate as a client, and the servers' certificates that it trusts.

    trusted: a PEM file of authorities, or None for the machine's; verifies: whether one of them
    must have signed the server's certificate; certificate, key, password: its own, or None. Names
    in certificates are not checked, because servers are known by address. ConfigError names a file
    that cannot be used.
    """

    def __cinit__(self, trusted, bint verifies, certificate, key, password):
        self.context = new_context(TLS_client_method())
        if trusted and SSL_CTX_load_verify_locations(self.context, trusted.encode(), NULL) != 1:
            raise ConfigError(f"tls.client.trustCertPath={trusted}: {last_error()}")
        if verifies:
            if not trusted:
                SSL_CTX_set_default_verify_paths(self.context)
            SSL_CTX_set_verify(self.context, SSL_VERIFY_PEER, NULL)
        if certificate:
            show(self.context, "tls.client", certificate, key or certificate, password)

    def __dealloc__(self):
        SSL_CTX_free(self.context)

    def __reduce__(self):
        raise not_copied(self, "it is of one process")


cdef class TlsStream:
    """TLS on a non-blocking socket.

    A call that must wait returns None. Repeat it when the socket is readable, or writable if
    `wants_write`. OSError says why the connection has failed.
    """

    def __cinit__(self, int fd, context, bint serves):
        cdef SSL_CTX* made
        if serves:
            made = (<TlsContext?> context).context
        else:
            made = (<TlsClientContext?> context).context
        self.ssl = SSL_new(made)
        if self.ssl == NULL or SSL_set_fd(self.ssl, fd) != 1:
            raise MemoryError("no memory for TLS")
        if serves:
            SSL_set_accept_state(self.ssl)
        else:
            SSL_set_connect_state(self.ssl)

    def __dealloc__(self):
        drop_ssl(self.ssl)

    def __reduce__(self):
        raise not_copied(self, "it is of one process")

    cdef object waits(self, int result):
        cdef int error = SSL_get_error(self.ssl, result)
        cdef long verdict = SSL_get_verify_result(self.ssl)
        if error == SSL_ERROR_WANT_READ or error == SSL_ERROR_WANT_WRITE:
            self.wants_write = error == SSL_ERROR_WANT_WRITE
            return None
        reason = last_error()
        if verdict != X509_V_OK:
            reason = f"{reason}: {X509_verify_cert_error_string(verdict).decode()}"
        raise OSError(f"TLS: {reason}")

    cdef SSL* opened(self) except NULL:
        if self.ssl == NULL:
            raise ValueError("this stream is the reactor's now")
        ERR_clear_error()
        return self.ssl

    def handshake(self):
        """Returns True when the handshake is over."""
        cdef int result = SSL_do_handshake(self.opened())
        return True if result == 1 else self.waits(result)

    def receive(self, int room):
        """Returns the bytes received; b"" when the other side has closed."""
        cdef uint8_t got[READ_BYTES]
        cdef int result = SSL_read(self.opened(), got, min(room, <int> READ_BYTES))
        if result > 0:
            return got[:result]
        if SSL_get_error(self.ssl, result) == SSL_ERROR_ZERO_RETURN:
            return b""
        return self.waits(result)

    def send(self, bytes given not None):
        """Returns how many bytes were sent, from the first on. `given` must not be empty."""
        cdef int result = SSL_write(self.opened(), <const char*> given, <int> len(given))
        return result if result > 0 else self.waits(result)


cdef SSL* take_ssl(stream) except? NULL:
    cdef TlsStream given
    cdef SSL* ssl
    if stream is None:
        return NULL
    given = <TlsStream?> stream
    ssl = given.opened()
    given.ssl = NULL
    return ssl


cdef void drop_ssl(SSL* ssl) noexcept nogil:
    SSL_free(ssl)
