"""Signatures of a load's requests (see signer.pxd).

    signer = Signer(b"alice", b"secret")
    FrameSet(frames, b"", [], signer=signer, signed=[..])
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.base.check cimport check

from rmq.errors import not_copied

cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_MD:
        pass
    const EVP_MD* EVP_sha1()
    int EVP_EncodeBlock(uint8_t* out, const uint8_t* data, int size)

cdef extern from "<openssl/hmac.h>" nogil:
    uint8_t* HMAC(const EVP_MD* digest, const void* key, int key_length, const uint8_t* data,
                  size_t size, uint8_t* out, unsigned int* out_length)

cdef enum:
    DIGEST_BYTES = 20


cdef class Signer:
    def __cinit__(self, bytes access_key not None, bytes secret_key not None):
        cdef uint8_t text[SIGNATURE_BYTES]
        self.access_key = access_key
        self.name = <const uint8_t*><const char*>access_key
        self.name_bytes = <uint32_t>len(access_key)
        self.secret_key = secret_key
        self.key = <const uint8_t*><const char*>secret_key
        self.key_bytes = <int>len(secret_key)
        self.content = <uint8_t*>malloc(SIGNED_BYTES_MAX)
        if self.content == NULL:
            raise MemoryError(f"{SIGNED_BYTES_MAX} bytes")
        self.begin()
        if not self.try_end(text):      # the machine's policy may forbid SHA-1
            raise ValueError("OpenSSL makes no HmacSHA1 here")

    def __reduce__(self):
        raise not_copied(self, "make one in each process, from its keys")

    def __dealloc__(self):
        free(self.content)

    cdef void begin(self) noexcept nogil:
        self.length = 0

    cdef void add(self, const uint8_t* part, uint32_t length) noexcept nogil:
        check(length <= SIGNED_BYTES_MAX - self.length, b"the load generator: what is signed",
              self.length, length)
        memcpy(self.content + self.length, part, length)
        self.length += length

    cdef bint try_end(self, uint8_t* out) noexcept nogil:
        cdef uint8_t digest[DIGEST_BYTES]
        cdef uint8_t text[SIGNATURE_BYTES + 1]     # OpenSSL adds a zero
        if HMAC(EVP_sha1(), self.key, self.key_bytes, self.content, self.length, digest,
                NULL) == NULL:
            return False
        EVP_EncodeBlock(text, digest, DIGEST_BYTES)
        memcpy(out, text, SIGNATURE_BYTES)
        return True

    cdef void end(self, uint8_t* out) noexcept nogil:
        check(self.try_end(out), b"the load generator: OpenSSL makes a signature, as it did before",
              self.length, 0)
