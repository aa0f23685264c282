"""Signature: whether a request comes from who knows the user's password, without Python.

HmacSHA1 over the values of all header fields but Signature, in the order of their names, and the
body; rmq/format/signature.py is the same in Python and says what clients leave out. OpenSSL does
the hashing. Of a password the two hash states that HMAC begins with are kept, so that a request
costs what its own bytes cost.

    SigningKey          of one user
    SignatureCheck      what one thread checks with

Example: of fields {"AccessKey":"alice","b":"t","Signature":..} and body "x" alicetx is hashed.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from cext.wire.header cimport EXT_FIELDS_MAX, Header

cdef extern from * nogil:
    """
    #define OPENSSL_SUPPRESS_DEPRECATED
    #include <openssl/sha.h>
    """
    ctypedef struct SHA_CTX:        # a hash under way; a copy of it goes on from there
        uint32_t h0, h1, h2, h3, h4

cdef enum:
    VALUES_MAX = 262144             # bytes of all values, as they are written

cdef struct SigningKey:
    SHA_CTX inner                   # behind the padded password
    SHA_CTX outer

cdef struct SignatureCheck:
    uint8_t* values                 # owned; VALUES_MAX, for those of one request
    # The fields of the last request, as they lie in its header, in the order of their names: the
    # next one is mostly like it, and then it need not be sorted; of the same shape, not even looked
    # at. All headers that have a shape are of one HeaderShapes.
    uint8_t[EXT_FIELDS_MAX] order
    int order_count                 # 0: none is known
    uint64_t shape                  # Header.shape of the last request; 0: it had none
    int signature_at                # in `order`; -1: there is none

cdef void signing_key_set(SigningKey* key, const uint8_t* password, uint32_t length) noexcept nogil
# OK | POOL_EMPTY. Close whatever came of it.
cdef int signature_check_open(SignatureCheck* check) noexcept nogil
cdef void signature_check_close(SignatureCheck* check) noexcept nogil

# OK: it is right. MALFORMED: it is not, or is missing. TOO_LARGE: names with backslashes, or very
# long values: control looks at those.
cdef int signature_check(SignatureCheck* check, const SigningKey* key, const Header* header,
                         const uint8_t* body, uint32_t body_bytes) noexcept nogil
