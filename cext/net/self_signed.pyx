"""Self-signed: a certificate that a server makes for itself, to speak TLS before it has a real one.

    pem = self_signed_pem()         key and certificate, elliptic P-256, valid for ten years

It hides traffic from eavesdroppers but does not prove who the server is: clients that check
certificates refuse it. Nothing is stored: each call makes another key and certificate.
"""
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_PKEY:
        pass
    ctypedef struct EVP_MD:
        pass
    EVP_PKEY* EVP_PKEY_Q_keygen(void* library, const char* query, const char* type, ...)
    void EVP_PKEY_free(EVP_PKEY* key)
    const EVP_MD* EVP_sha256()

cdef extern from "<openssl/x509v3.h>" nogil:
    ctypedef struct X509:
        pass
    ctypedef struct X509_NAME:
        pass
    ctypedef struct X509_EXTENSION:
        pass
    ctypedef struct X509V3_CTX:
        pass
    ctypedef struct ASN1_INTEGER:
        pass
    ctypedef struct ASN1_TIME:
        pass
    enum: MBSTRING_UTF8, NID_subject_alt_name
    X509* X509_new()
    void X509_free(X509* certificate)
    int X509_set_version(X509* certificate, long version)
    ASN1_INTEGER* X509_get_serialNumber(X509* certificate)
    int ASN1_INTEGER_set_uint64(ASN1_INTEGER* number, uint64_t value)
    ASN1_TIME* X509_getm_notBefore(X509* certificate)
    ASN1_TIME* X509_getm_notAfter(X509* certificate)
    ASN1_TIME* X509_gmtime_adj(ASN1_TIME* time, long seconds)
    int X509_set_pubkey(X509* certificate, EVP_PKEY* key)
    X509_NAME* X509_get_subject_name(X509* certificate)
    int X509_set_issuer_name(X509* certificate, X509_NAME* name)
    int X509_NAME_add_entry_by_txt(X509_NAME* name, const char* field, int type,
                                   const uint8_t* text, int length, int place, int set)
    void X509V3_set_ctx(X509V3_CTX* context, X509* issuer, X509* subject, void* request,
                        void* list, int flags)
    X509_EXTENSION* X509V3_EXT_nconf_nid(void* file, X509V3_CTX* context, int name,
                                         const char* value)
    int X509_add_ext(X509* certificate, X509_EXTENSION* extension, int place)
    void X509_EXTENSION_free(X509_EXTENSION* extension)
    int X509_sign(X509* certificate, EVP_PKEY* key, const EVP_MD* digest)

cdef extern from "<openssl/pem.h>" nogil:
    ctypedef struct BIO:
        pass
    ctypedef struct BIO_METHOD:
        pass
    const BIO_METHOD* BIO_s_secmem()
    BIO* BIO_new(const BIO_METHOD* method)
    int BIO_free(BIO* out)
    long BIO_get_mem_data(BIO* out, char** at)
    int PEM_write_bio_X509(BIO* out, X509* certificate)
    int PEM_write_bio_PrivateKey(BIO* out, EVP_PKEY* key, void* cipher, void* password, int length,
                                 void* callback, void* data)

cdef extern from "<openssl/rand.h>" nogil:
    int RAND_bytes(uint8_t* out, int count)

cdef enum:
    VERSION_3 = 2                           # versions are counted from 0
    DAY_S = 86_400
    VALID_S = 3650 * DAY_S
    BEGUN_S = -DAY_S                        # since clients' clocks may be slow


cdef bint fill(X509* certificate, EVP_PKEY* key) noexcept nogil:
    """Fills in the certificate and signs it with the key. False: OpenSSL has failed."""
    cdef X509_NAME* name = X509_get_subject_name(certificate)
    cdef X509_EXTENSION* names
    cdef X509V3_CTX context
    cdef uint64_t serial = 0
    cdef bint is_added
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0)
    if RAND_bytes(<uint8_t*> &serial, 8) != 1:
        return False
    serial >>= 1                            # positive, with 63 random bits
    if (X509_set_version(certificate, VERSION_3) != 1
            or ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) != 1
            or X509_gmtime_adj(X509_getm_notBefore(certificate), BEGUN_S) == NULL
            or X509_gmtime_adj(X509_getm_notAfter(certificate), VALID_S) == NULL
            or X509_NAME_add_entry_by_txt(name, b"CN", MBSTRING_UTF8, b"rmq", -1, -1, 0) != 1
            or X509_set_issuer_name(certificate, name) != 1
            or X509_set_pubkey(certificate, key) != 1):
        return False
    names = X509V3_EXT_nconf_nid(NULL, &context, NID_subject_alt_name,
                                 b"DNS:localhost,IP:127.0.0.1,IP:::1")
    if names == NULL:
        return False
    is_added = X509_add_ext(certificate, names, -1) == 1
    X509_EXTENSION_free(names)
    return is_added and X509_sign(certificate, key, EVP_sha256()) > 0


def self_signed_pem():
    """Returns a new key and its certificate, in PEM. RuntimeError if OpenSSL fails."""
    cdef EVP_PKEY* key = EVP_PKEY_Q_keygen(NULL, NULL, b"EC", <const char*> b"P-256")
    cdef X509* certificate = X509_new()
    cdef BIO* out = BIO_new(BIO_s_secmem())     # wiped when it is freed
    cdef char* at = NULL
    cdef long length
    try:
        if (key == NULL or certificate == NULL or out == NULL or not fill(certificate, key)
                or PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) != 1
                or PEM_write_bio_X509(out, certificate) != 1):
            raise RuntimeError("OpenSSL makes no certificate: give tls.server.certPath, or "
                               "tls.server.mode=disabled")
        length = BIO_get_mem_data(out, &at)
        return at[:length]
    finally:
        BIO_free(out)
        X509_free(certificate)
        EVP_PKEY_free(key)
