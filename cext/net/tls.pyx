"""TLS transport. See tls.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cext.base.atomics cimport store_release_i32
from cext.base.check cimport check
from cext.base.status cimport OK, POOL_EMPTY
from cext.net.client_hello cimport HELLO_RECORD, hello_resumes
from cext.net.connection cimport (
    ELSEWHERE,
    HANDSHAKE_BEGUN,
    PROVED_BYTES_MAX,
    TRANSPORT_FAILED,
    WANT_READ,
    WANT_WRITE,
    Connection,
)
from cext.net.handshake_thread cimport HandshakeStep
from cext.net.openssl cimport (
    BIO,
    ASN1_STRING_to_UTF8,
    ERR_clear_error,
    ERR_error_string_n,
    ERR_get_error,
    NID_commonName,
    OPENSSL_free,
    SSL,
    SSL_CTX,
    SSL_CTX_check_private_key,
    SSL_CTX_clear_mode,
    SSL_CTX_clear_options,
    SSL_CTX_free,
    SSL_CTX_load_verify_locations,
    SSL_CTX_new,
    SSL_CTX_set_cert_cb,
    SSL_CTX_set_ciphersuites,
    SSL_CTX_set_default_passwd_cb,
    SSL_CTX_set_default_passwd_cb_userdata,
    SSL_CTX_set_min_proto_version,
    SSL_CTX_set_mode,
    SSL_CTX_set_num_tickets,
    SSL_CTX_set_options,
    SSL_CTX_set_session_id_context,
    SSL_CTX_set_tlsext_ticket_keys,
    SSL_CTX_set_verify,
    SSL_CTX_up_ref,
    SSL_CTX_use_PrivateKey_file,
    SSL_CTX_use_certificate_chain_file,
    SSL_ERROR_WANT_READ,
    SSL_ERROR_WANT_WRITE,
    SSL_ERROR_WANT_X509_LOOKUP,
    SSL_ERROR_ZERO_RETURN,
    SSL_FILETYPE_PEM,
    SSL_METHOD,
    SSL_KEY_UPDATE_NOT_REQUESTED,
    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
    SSL_MODE_AUTO_RETRY,
    SSL_MODE_ENABLE_PARTIAL_WRITE,
    SSL_MODE_RELEASE_BUFFERS,
    SSL_OP_CIPHER_SERVER_PREFERENCE,
    SSL_OP_ENABLE_KTLS,
    SSL_OP_IGNORE_UNEXPECTED_EOF,
    SSL_OP_NO_RENEGOTIATION,
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    SSL_VERIFY_NONE,
    SSL_VERIFY_PEER,
    SSL_do_handshake,
    SSL_free,
    SSL_get_app_data,
    SSL_get_error,
    SSL_get_finished,
    SSL_get_peer_certificate,
    SSL_get_verify_mode,
    SSL_get_verify_result,
    SSL_key_update,
    SSL_new,
    SSL_pending,
    SSL_read,
    SSL_session_reused,
    SSL_set_accept_state,
    SSL_set_app_data,
    SSL_set_bio,
    SSL_shutdown,
    SSL_version,
    SSL_write,
    TLS1_2_VERSION,
    TLS1_3_VERSION,
    TLS_server_method,
    X509,
    X509_NAME,
    X509_NAME_ENTRY_get_data,
    X509_NAME_get_entry,
    X509_NAME_get_index_by_NID,
    X509_V_OK,
    X509_cmp_current_time,
    X509_free,
    X509_get0_notAfter,
    X509_get_subject_name,
)
from cext.net.socket_bio cimport (
    SocketBio, socket_bio_free, socket_bio_holds, socket_bio_look, socket_bio_new, socket_bio_rest,
)
from cext.net.socket_api cimport EAGAIN, EINTR, MSG_DONTWAIT, close, errno, iovec, recv

from rmq.errors import ConfigError, not_copied

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_PEEK

cdef enum:
    HELLO_BYTES = 2048              # of a hello that are looked at; a ticket has 200 and more
# For TLS 1.3, cheapest first: 128 bits are strong enough and cost a fifth less per byte.
cdef const char* SUITES = (b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                           b"TLS_CHACHA20_POLY1305_SHA256")


TICKET_KEY_BYTES = 80               # of OpenSSL 1.1 and later: a name, a key of HMAC, one of AES


# ---- contexts

cdef str last_error():
    cdef char text[256]
    cdef unsigned long error = ERR_get_error()
    ERR_clear_error()
    if error == 0:
        return "no reason given"
    ERR_error_string_n(error, text, sizeof(text))
    return text.decode("utf-8", "replace").rpartition(":")[2] or "no reason given"


cdef int give_password(char* out, int size, int writes, void* data) noexcept nogil:
    cdef const char* password = <const char*> data
    cdef int length = 0
    while password != NULL and password[length] != 0 and length < size:
        out[length] = password[length]
        length += 1
    return length


cdef SSL_CTX* new_context(const SSL_METHOD* method) except NULL:
    cdef SSL_CTX* context
    ERR_clear_error()
    context = SSL_CTX_new(method)
    if context == NULL:
        raise MemoryError("no memory for TLS")
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF)
    # An openssl.cnf may turn kernel TLS on for all programs. docs/design/tls.md says what it
    # breaks.
    SSL_CTX_clear_options(context, SSL_OP_ENABLE_KTLS)
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS
                     | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
    # A read ends with its record, so that records without data do not take up the turn.
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY)
    return context


cdef int show(SSL_CTX* context, str side, str certificate, str key, password) except -1:
    cdef bytes secret = (password or "").encode()
    SSL_CTX_set_default_passwd_cb(context, give_password)
    SSL_CTX_set_default_passwd_cb_userdata(context, <char*> secret)
    if SSL_CTX_use_certificate_chain_file(context, certificate.encode()) != 1:
        raise ConfigError(f"{side}.certPath={certificate}: {last_error()}")
    if SSL_CTX_use_PrivateKey_file(context, key.encode(), SSL_FILETYPE_PEM) != 1:
        raise ConfigError(f"{side}.keyPath={key}: {last_error()}")
    if SSL_CTX_check_private_key(context) != 1:
        raise ConfigError(f"{side}.keyPath={key}: it is not the key of {certificate}")
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL)
    return 0


cdef int choose_certificate(SSL* ssl, void* _) noexcept nogil:
    """Called by OpenSSL if no session is resumed: a signature comes next, which is not short."""
    cdef TlsState* s = <TlsState*> SSL_get_app_data(ssl)    # NULL: of a TlsStream
    return -1 if s != NULL and s.step.is_short else 1


cdef class TlsContext:
    """A server's certificate, and whose certificates it trusts.

    certificate, key: PEM files; password: of the key, or None; trusted: a PEM file of authorities
    for clients' certificates, or None; asks: "none", "optional" or "require" a client's
    certificate. ConfigError names a file that cannot be used, or a key that does not belong to the
    certificate.
    """

    def __cinit__(self, str certificate not None, str key not None, password, trusted, str asks):
        self.context = new_context(TLS_server_method())
        SSL_CTX_set_ciphersuites(self.context, SUITES)
        SSL_CTX_set_options(self.context, SSL_OP_CIPHER_SERVER_PREFERENCE)
        SSL_CTX_set_cert_cb(self.context, choose_certificate, NULL)
        SSL_CTX_set_num_tickets(self.context, 1)    # a client has one connection to a broker
        SSL_CTX_set_session_id_context(self.context, <const uint8_t*> b"rmq", 3)
        show(self.context, "tls.server", certificate, key, password)
        if trusted and SSL_CTX_load_verify_locations(self.context, trusted.encode(), NULL) != 1:
            raise ConfigError(f"tls.server.trustCertPath={trusted}: {last_error()}")
        if asks == "require":
            SSL_CTX_set_verify(self.context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                               NULL)
        elif asks == "optional":
            SSL_CTX_set_verify(self.context, SSL_VERIFY_PEER, NULL)

    def __dealloc__(self):
        SSL_CTX_free(self.context)

    def set_ticket_keys(self, bytes keys not None):
        """Sets the keys that encrypt session tickets, TICKET_KEY_BYTES in all, instead of OpenSSL's
        random ones. Call it before the context is in use: the handshake thread reads the keys."""
        if (len(keys) != TICKET_KEY_BYTES
                or SSL_CTX_set_tlsext_ticket_keys(self.context, <char*> keys, len(keys)) != 1):
            raise ValueError(f"{len(keys)} bytes of ticket keys, not {TICKET_KEY_BYTES}")

    def __reduce__(self):
        raise not_copied(self, "it is of one process")


# ---- connections

cdef struct TlsState:
    HandshakeStep step              # the first field (ELSEWHERE)
    TlsServer* server
    SSL_CTX* context                # owned; NULL once the first step has made `ssl`
    SSL* ssl                        # owned; NULL: no step was run yet
    SocketBio socket                # of `ssl`; unused if that was made elsewhere
    uint8_t* name                   # owned; common name of the client's certificate; NULL: none
    uint32_t name_length
    bint is_named                   # `name` has been looked up
    bint is_broken                  # nothing more can be sent
    bint has_ended                  # nothing more can be received: the next receive reports it
    uint32_t records                # sent with the current keys


cdef inline TlsState* state_of(Connection* c) noexcept nogil:
    return <TlsState*> c.transport_state


cdef int result_of(TlsState* s, int result) noexcept nogil:
    """A TransportResult, or 0: the other side has closed TLS."""
    cdef int error = SSL_get_error(s.ssl, result)
    if error == SSL_ERROR_WANT_READ:
        return WANT_READ
    if error == SSL_ERROR_WANT_WRITE:
        return WANT_WRITE
    if error == SSL_ERROR_WANT_X509_LOOKUP:
        return ELSEWHERE
    if error == SSL_ERROR_ZERO_RETURN:
        return 0
    s.is_broken = True
    return TRANSPORT_FAILED


cdef bint tls_open(void* owner, Connection* c) noexcept nogil:
    cdef TlsState* s = <TlsState*> calloc(1, sizeof(TlsState))
    if s != NULL:
        s.server = <TlsServer*> owner
    c.transport_state = s
    return s != NULL


cdef int look_at_first(Connection* c) noexcept nogil:
    """Returns 0 when the first byte has told how the client speaks, or a TransportResult."""
    cdef TlsState* s = state_of(c)
    cdef uint8_t first[HELLO_BYTES]
    cdef ssize_t got = recv(c.fd, first, HELLO_BYTES, MSG_PEEK | MSG_DONTWAIT)
    if got < 0 and (errno == EAGAIN or errno == EINTR):
        return WANT_READ
    if got <= 0:
        return TRANSPORT_FAILED
    if first[0] != HELLO_RECORD or s.server.context == NULL:
        if not s.server.is_permissive:
            s.server.failed += 1
            return TRANSPORT_FAILED
        free(s)
        c.transport_state = NULL
        c.transport = NULL          # plain from now on
        return 0
    SSL_CTX_up_ref(s.server.context)
    s.context = s.server.context
    s.step.run = run_step
    s.step.drop = drop_step
    s.step.connection_id = c.id
    s.step.fd = c.fd
    s.step.is_short = hello_resumes(first, <size_t> got)
    return 0


cdef bint make_ssl(TlsState* s) noexcept nogil:
    cdef BIO* bio = NULL
    s.ssl = SSL_new(s.context)
    SSL_CTX_free(s.context)
    s.context = NULL
    if s.ssl != NULL:
        s.socket.fd = s.step.fd
        bio = socket_bio_new(&s.socket)
    if bio == NULL:
        return False
    SSL_set_bio(s.ssl, bio, bio)
    SSL_set_accept_state(s.ssl)
    SSL_set_app_data(s.ssl, s)
    return True


cdef void run_step(HandshakeStep* step) noexcept nogil:
    """Runs in the thread that owns the state at that moment."""
    cdef TlsState* s = <TlsState*> step
    cdef int result
    ERR_clear_error()
    if s.ssl == NULL:
        if not make_ssl(s):
            step.result = TRANSPORT_FAILED
            return
    socket_bio_look(&s.socket)
    result = SSL_do_handshake(s.ssl)
    socket_bio_rest(&s.socket)
    step.result = 0 if result == 1 else result_of(s, result)
    if result != 1 and step.result == 0:        # the client has closed TLS instead
        step.result = TRANSPORT_FAILED


cdef bint is_nearly_over(const TlsState* s) noexcept nogil:
    """Whether only the client's Finished is missing. That is so once the server has sent its own,
    as in TLS 1.3 and when a session is resumed: reading it costs less than handing the step over,
    unless the client sends a certificate before it."""
    cdef uint8_t finished
    return (s.ssl != NULL and SSL_get_finished(s.ssl, &finished, sizeof(finished)) > 0
            and SSL_get_verify_mode(s.ssl) == SSL_VERIFY_NONE)


cdef inline void check_is_here(const TlsState* s) noexcept nogil:
    check(not s.step.is_out, b"TLS: the reactor uses what the handshake thread does not have",
          s.step.connection_id, s.step.fd)


cdef int tls_handshake(Connection* c) noexcept nogil:
    cdef TlsState* s = state_of(c)
    cdef int result
    check_is_here(s)
    if s.step.connection_id == 0:           # its first byte has not been seen
        result = look_at_first(c)
        if result < 0 or c.transport == NULL:
            return result
        c.transport_wants |= HANDSHAKE_BEGUN
    if not s.step.is_back:
        s.step.is_short |= is_nearly_over(s)
        return ELSEWHERE
    s.step.is_back = s.step.is_short = False
    if s.step.result == 0:
        s.server.handshakes += 1
        s.server.resumed += SSL_session_reused(s.ssl) != 0
    elif s.step.result == TRANSPORT_FAILED:
        s.server.failed += 1
    return s.step.result


cdef ssize_t receive_records(TlsState* s, uint8_t* at, size_t room) noexcept nogil:
    """Reads until there is no room, nothing more has come, or a record brought no data."""
    cdef size_t taken = 0
    cdef int result
    while taken < room:
        result = SSL_read(s.ssl, at + taken, <int> min(room - taken, <size_t> 1 << 30))
        if result <= 0:
            result = result_of(s, result)
            if taken == 0:
                return result
            s.has_ended = result != WANT_READ and result != WANT_WRITE
            return <ssize_t> taken
        taken += <size_t> result
    return <ssize_t> taken


cdef ssize_t tls_receive(Connection* c, void* at, size_t room) noexcept nogil:
    cdef TlsState* s = state_of(c)
    cdef ssize_t result
    check_is_here(s)
    if s.has_ended:
        return TRANSPORT_FAILED if s.is_broken else 0
    ERR_clear_error()
    socket_bio_look(&s.socket)
    result = receive_records(s, <uint8_t*> at, room)
    socket_bio_rest(&s.socket)
    return result


cdef int gather(TlsServer* server, const iovec* pieces, int count, size_t skipped) noexcept nogil:
    """Copies what follows the first `skipped` bytes to server.gathered, at most a record; returns
    how many bytes."""
    cdef size_t at = 0, begin, length
    cdef int i
    for i in range(count):
        if skipped >= pieces[i].iov_len:
            skipped -= pieces[i].iov_len
            continue
        begin = skipped
        skipped = 0
        length = min(pieces[i].iov_len - begin, <size_t> RECORD_BYTES - at)
        memcpy(server.gathered + at, <const uint8_t*> pieces[i].iov_base + begin, length)
        at += length
        if at == RECORD_BYTES:
            break
    return <int> at


cdef void change_keys(TlsState* s) noexcept nogil:
    """New keys from the next record on. TLS 1.2 cannot change them, and its nonces do not need
    it."""
    s.records = 0
    if SSL_version(s.ssl) == TLS1_3_VERSION:
        s.server.key_updates += SSL_key_update(s.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1


cdef ssize_t send_records(TlsState* s, const iovec* pieces, int count) noexcept nogil:
    cdef size_t taken = 0
    cdef int length, result
    while True:
        length = gather(s.server, pieces, count, taken)
        if length == 0:
            return <ssize_t> taken
        result = SSL_write(s.ssl, s.server.gathered, length)
        if result <= 0:
            result = result_of(s, result)
            if result == 0:
                result = TRANSPORT_FAILED
            return <ssize_t> taken if taken > 0 and result != TRANSPORT_FAILED else result
        taken += <size_t> result
        s.records += 1
        if s.records >= s.server.key_records:
            change_keys(s)


cdef ssize_t tls_send(Connection* c, const iovec* pieces, int count) noexcept nogil:
    """If half of a key change has been received, OpenSSL reads the rest of it before it writes."""
    cdef TlsState* s = state_of(c)
    cdef ssize_t result
    check_is_here(s)
    ERR_clear_error()
    socket_bio_look(&s.socket)
    result = send_records(s, pieces, count)
    socket_bio_rest(&s.socket)
    return result


cdef int common_name(X509* certificate, uint8_t** out) noexcept nogil:
    """Returns the length of the common name and OpenSSL's block with it in *out. 0: the certificate
    has none that could be a user's name, or has several."""
    cdef X509_NAME* subject = X509_get_subject_name(certificate)
    cdef int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1)
    cdef int length, i
    if at < 0 or X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0:
        return 0
    length = ASN1_STRING_to_UTF8(out, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)))
    if length < 0:
        return 0
    if length == 0 or length > PROVED_BYTES_MAX:
        OPENSSL_free(out[0])
        return 0
    for i in range(length):
        if out[0][i] < 0x20 or out[0][i] == 0x7F:
            OPENSSL_free(out[0])
            return 0
    return length


cdef void find_name(TlsState* s) noexcept nogil:
    cdef X509* certificate = NULL
    cdef uint8_t* found = NULL
    cdef int length = 0
    s.is_named = True
    if SSL_get_verify_result(s.ssl) == X509_V_OK:
        certificate = SSL_get_peer_certificate(s.ssl)
    if certificate != NULL:
        # When a session is resumed OpenSSL does not look at the certificate's dates again.
        if X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0:
            length = common_name(certificate, &found)
        X509_free(certificate)
    if length > 0:
        s.name = <uint8_t*> malloc(<size_t> length)
        if s.name != NULL:
            memcpy(s.name, found, <size_t> length)
            s.name_length = <uint32_t> length
        OPENSSL_free(found)
    ERR_clear_error()


cdef const uint8_t* tls_proved(Connection* c, uint32_t* length) noexcept nogil:
    cdef TlsState* s = state_of(c)
    if not s.is_named:
        find_name(s)
    length[0] = s.name_length
    return s.name


cdef size_t tls_pending(Connection* c) noexcept nogil:
    """Counts bytes that are decrypted and bytes that are not yet. Nothing of an incomplete record
    is held here that OpenSSL has not asked for, so a receive that finds one waits for the
    socket."""
    cdef TlsState* s = state_of(c)
    if s.step.is_out or s.ssl == NULL:
        return 0
    return <size_t> SSL_pending(s.ssl) + socket_bio_holds(&s.socket) + s.has_ended


cdef void free_state(TlsState* s) noexcept nogil:
    check(not s.step.is_out, b"TLS: a state is freed when its step is back", s.step.connection_id,
          s.step.is_back)
    if s.ssl != NULL:
        ERR_clear_error()
        if not s.is_broken:
            SSL_shutdown(s.ssl)
        SSL_free(s.ssl)
        ERR_clear_error()
    socket_bio_free(&s.socket)
    SSL_CTX_free(s.context)
    free(s.name)
    free(s)


cdef void drop_step(HandshakeStep* step) noexcept nogil:
    cdef int fd = step.fd
    free_state(<TlsState*> step)
    close(fd)


cdef void tls_close(Connection* c) noexcept nogil:
    cdef TlsState* s = state_of(c)
    c.transport_state = NULL
    if s.step.is_out:
        store_release_i32(&s.step.is_given_up, 1)       # it is dropped when it comes back
    else:
        free_state(s)


# ---- servers

cdef int tls_server_open(TlsServer* server) noexcept nogil:
    memset(server, 0, sizeof(TlsServer))
    server.is_permissive = True
    server.key_records = KEY_RECORDS
    server.gathered = <uint8_t*> malloc(RECORD_BYTES)
    if server.gathered == NULL:
        return POOL_EMPTY
    server.transport.owner = server
    server.transport.open = tls_open
    server.transport.handshake = tls_handshake
    server.transport.receive = tls_receive
    server.transport.send = tls_send
    server.transport.pending = tls_pending
    server.transport.close = tls_close
    server.transport.proved = tls_proved
    return OK


cdef void tls_server_close(TlsServer* server) noexcept nogil:
    SSL_CTX_free(server.context)
    free(server.gathered)
    memset(server, 0, sizeof(TlsServer))


cdef void tls_server_set(TlsServer* server, SSL_CTX* context, bint is_permissive) noexcept nogil:
    SSL_CTX_up_ref(context)
    SSL_CTX_free(server.context)
    server.context = context
    server.is_permissive = is_permissive


# ---- connections that have finished their handshake elsewhere

cdef bint offered_open(void* owner, Connection* c) noexcept nogil:
    cdef OfferedTls* offered = <OfferedTls*> owner
    cdef TlsState* s = <TlsState*> calloc(1, sizeof(TlsState))
    check(offered.offered != NULL, b"TLS: a connection is added after it was offered", c.id, c.fd)
    c.transport_state = s
    if s == NULL:
        SSL_free(offered.offered)
    else:
        s.server = offered.server
        s.ssl = offered.offered
        c.transport_wants = 0
    offered.offered = NULL
    return s != NULL


cdef void tls_offered_open(OfferedTls* offered, TlsServer* server) noexcept nogil:
    offered.transport = server.transport
    offered.transport.owner = offered
    offered.transport.open = offered_open
    offered.server = server
    offered.offered = NULL


cdef const Transport* tls_offer(OfferedTls* offered, SSL* ssl) noexcept nogil:
    check(offered.offered == NULL, b"TLS: one connection is offered at a time", 1, ssl != NULL)
    offered.offered = ssl
    return &offered.transport
