# Signer: signs requests of a load for an account, when their fields change from one to the next.
# Requests that do not change are signed once, in Python (rmq/load/frames.py).
#
# It is HmacSHA1, by OpenSSL, of the values of the fields in the order of their names and of the
# body, in Base64; rmq/format/signature.py is the same in Python.
#
# Example: begin(), add("alice"), add("{..}"), end(out) writes the Signature that
# Credentials("alice", ..).sign({}, b"{..}") has.

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    SIGNATURE_BYTES = 28
    SIGNED_BYTES_MAX = 131072        # of one request's values and body


# Belongs to one loop, because it gathers here what is added.
cdef class Signer:
    cdef readonly bytes access_key
    cdef const uint8_t* name         # its bytes
    cdef uint32_t name_bytes
    cdef bytes secret_key
    cdef const uint8_t* key          # the secret's bytes
    cdef int key_bytes
    cdef uint8_t* content            # owned; SIGNED_BYTES_MAX
    cdef uint32_t length

    cdef bint try_end(self, uint8_t* out) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void add(self, const uint8_t* part, uint32_t length) noexcept nogil
    # Writes SIGNATURE_BYTES.
    cdef void end(self, uint8_t* out) noexcept nogil
