"""OpenSSL: declarations of the functions used in this folder."""
from libc.stdint cimport uint8_t

cdef extern from "<openssl/bio.h>" nogil:
    ctypedef struct BIO:
        pass
    ctypedef struct BIO_METHOD:
        pass
    enum: BIO_CTRL_EOF, BIO_CTRL_FLUSH, BIO_TYPE_SOURCE_SINK
    BIO_METHOD* BIO_meth_new(int type, const char* name)
    int BIO_meth_set_read(BIO_METHOD* method, int (*read)(BIO*, char*, int) noexcept)
    int BIO_meth_set_write(BIO_METHOD* method, int (*write)(BIO*, const char*, int) noexcept)
    int BIO_meth_set_ctrl(BIO_METHOD* method, long (*control)(BIO*, int, long, void*) noexcept)
    BIO* BIO_new(const BIO_METHOD* method)
    void BIO_set_data(BIO* bio, void* data)
    void* BIO_get_data(BIO* bio)
    void BIO_set_init(BIO* bio, int is_ready)
    void BIO_clear_retry_flags(BIO* bio)
    void BIO_set_retry_read(BIO* bio)
    void BIO_set_retry_write(BIO* bio)

cdef extern from "<openssl/ssl.h>" nogil:
    ctypedef struct SSL_CTX:
        pass
    ctypedef struct SSL:
        pass
    ctypedef struct SSL_METHOD:
        pass
    ctypedef struct X509:
        pass
    ctypedef struct X509_NAME:
        pass
    ctypedef struct X509_NAME_ENTRY:
        pass
    ctypedef struct ASN1_STRING:
        pass
    ctypedef struct ASN1_TIME:
        pass
    enum:
        SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_ZERO_RETURN, SSL_ERROR_WANT_X509_LOOKUP
        SSL_FILETYPE_PEM, TLS1_2_VERSION, TLS1_3_VERSION, SSL_KEY_UPDATE_NOT_REQUESTED
        SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        SSL_MODE_AUTO_RETRY
        SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_RELEASE_BUFFERS
        SSL_OP_NO_RENEGOTIATION, SSL_OP_IGNORE_UNEXPECTED_EOF, SSL_OP_CIPHER_SERVER_PREFERENCE
        SSL_OP_ENABLE_KTLS
        X509_V_OK, NID_commonName
    const SSL_METHOD* TLS_server_method()
    const SSL_METHOD* TLS_client_method()
    SSL_CTX* SSL_CTX_new(const SSL_METHOD* method)
    void SSL_CTX_free(SSL_CTX* context)
    int SSL_CTX_up_ref(SSL_CTX* context)
    int SSL_CTX_set_min_proto_version(SSL_CTX* context, int version)
    int SSL_CTX_set_ciphersuites(SSL_CTX* context, const char* names)
    unsigned long long SSL_CTX_set_options(SSL_CTX* context, unsigned long long options)
    unsigned long long SSL_CTX_clear_options(SSL_CTX* context, unsigned long long options)
    long SSL_CTX_set_mode(SSL_CTX* context, long mode)
    long SSL_CTX_clear_mode(SSL_CTX* context, long mode)
    int SSL_CTX_use_certificate_chain_file(SSL_CTX* context, const char* path)
    int SSL_CTX_use_PrivateKey_file(SSL_CTX* context, const char* path, int type)
    int SSL_CTX_check_private_key(const SSL_CTX* context)
    int SSL_CTX_load_verify_locations(SSL_CTX* context, const char* file, const char* folder)
    int SSL_CTX_set_default_verify_paths(SSL_CTX* context)
    void SSL_CTX_set_verify(SSL_CTX* context, int mode, void* callback)
    void SSL_CTX_set_default_passwd_cb_userdata(SSL_CTX* context, void* data)
    void SSL_CTX_set_default_passwd_cb(SSL_CTX* context, int (*give)(char*, int, int, void*))
    int SSL_CTX_set_num_tickets(SSL_CTX* context, size_t count)
    long SSL_CTX_set_tlsext_ticket_keys(SSL_CTX* context, void* keys, long length)
    int SSL_CTX_set_session_id_context(SSL_CTX* context, const uint8_t* id, unsigned int length)
    # `choose` returns 1 to go on, -1 to stop the handshake with SSL_ERROR_WANT_X509_LOOKUP
    void SSL_CTX_set_cert_cb(SSL_CTX* context, int (*choose)(SSL*, void*) noexcept, void* data)
    SSL* SSL_new(SSL_CTX* context)
    int SSL_set_app_data(SSL* ssl, void* data)
    void* SSL_get_app_data(const SSL* ssl)
    void SSL_free(SSL* ssl)
    int SSL_set_fd(SSL* ssl, int fd)
    void SSL_set_accept_state(SSL* ssl)
    void SSL_set_connect_state(SSL* ssl)
    int SSL_do_handshake(SSL* ssl)
    int SSL_read(SSL* ssl, void* at, int room)
    int SSL_write(SSL* ssl, const void* at, int length)
    int SSL_get_error(const SSL* ssl, int result)
    int SSL_pending(const SSL* ssl)
    void SSL_set_bio(SSL* ssl, BIO* reads, BIO* writes)     # which are its own from then on
    int SSL_shutdown(SSL* ssl)
    int SSL_session_reused(const SSL* ssl)
    size_t SSL_get_finished(const SSL* ssl, void* at, size_t room)  # 0: none was sent yet
    int SSL_get_verify_mode(const SSL* ssl)
    int SSL_version(const SSL* ssl)
    int SSL_key_update(SSL* ssl, int type)
    long SSL_get_verify_result(const SSL* ssl)
    const char* X509_verify_cert_error_string(long result)
    X509* SSL_get_peer_certificate(const SSL* ssl)      # to be freed
    void X509_free(X509* certificate)
    X509_NAME* X509_get_subject_name(const X509* certificate)
    int X509_NAME_get_index_by_NID(X509_NAME* name, int kind, int behind)
    X509_NAME_ENTRY* X509_NAME_get_entry(const X509_NAME* name, int at)
    ASN1_STRING* X509_NAME_ENTRY_get_data(const X509_NAME_ENTRY* entry)
    int ASN1_STRING_to_UTF8(uint8_t** out, const ASN1_STRING* text)
    void OPENSSL_free(void* block)
    const ASN1_TIME* X509_get0_notAfter(const X509* certificate)
    int X509_cmp_current_time(const ASN1_TIME* time)    # 1: it is to come

cdef extern from "<openssl/err.h>" nogil:
    void ERR_clear_error()
    unsigned long ERR_get_error()
    void ERR_error_string_n(unsigned long error, char* out, size_t size)
