"""Signature: checks that a request's sender knows the user's password, without Python.

A signature is HmacSHA1 over the values of all header fields except Signature, in the order of their
names, and the body. rmq/format/signature.py is the same in Python and says what clients leave out.
OpenSSL does the hashing. Instead of a password the two hash states with which its HMAC begins are
kept, so a check hashes no more than the request's own bytes.

    SigningKey          the password of one user
    SignatureCheck      the state with which one thread checks

Example: with fields {"AccessKey":"alice","b":"t","Signature":..} and body "x", "alicetx" is hashed.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from cext.wire.header cimport EXT_FIELDS_MAX, Header

cdef extern from * nogil:
    """
    #define OPENSSL_SUPPRESS_DEPRECATED
    #include <openssl/sha.h>
    """
    ctypedef struct SHA_CTX:        # the state of a hash; a copy can be continued on its own
        uint32_t h0, h1, h2, h3, h4

cdef enum:
    VALUES_MAX = 262144             # bytes of all values, as they are in the header

cdef struct SigningKey:
    SHA_CTX inner                   # after hashing the padded password
    SHA_CTX outer

cdef struct SignatureCheck:
    uint8_t* values                 # owned; VALUES_MAX bytes, for the values of one request
    # The indexes of the last request's fields in its header, in the order of their names. The next
    # request is mostly like it, and its fields then need no sorting; when it has the same shape,
    # not even their names are read. All headers with a shape must come from one HeaderShapes.
    uint8_t[EXT_FIELDS_MAX] order
    int order_count                 # 0: none is known
    uint64_t shape                  # Header.shape of the last request; 0: it had none
    int signature_at                # in `order`; -1: there is none

cdef void signing_key_set(SigningKey* key, const uint8_t* password, uint32_t length) noexcept nogil
# OK | POOL_EMPTY. Call signature_check_close in either case.
cdef int signature_check_open(SignatureCheck* check) noexcept nogil
cdef void signature_check_close(SignatureCheck* check) noexcept nogil

# OK: the signature is right. MALFORMED: it is wrong or missing. TOO_LARGE: there are names with
# backslashes, too many fields or very long values; control checks such a request.
cdef int signature_check(SignatureCheck* check, const SigningKey* key, const Header* header,
                         const uint8_t* body, uint32_t body_bytes) noexcept nogil
