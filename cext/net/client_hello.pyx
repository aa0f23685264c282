"""Client hello. See client_hello.pxd. RFC 5246, 7.4.1.2; RFC 5077, 3.2; RFC 8446, 4.2.1."""
from libc.stdint cimport uint8_t, uint32_t

from cext.base.byteorder cimport load_u16

cdef enum:
    RECORD_HEAD = 5                 # type, version, length
    MESSAGE_HEAD = 4                # type, length of three bytes
    FIXED = 34                      # version and random bytes
    CLIENT_HELLO = 1
    SESSION_TICKET = 35             # extensions
    SUPPORTED_VERSIONS = 43         # sent by clients that speak TLS 1.3


cdef struct Bytes:
    const uint8_t* at
    size_t left


cdef const uint8_t* take(Bytes* b, size_t length) noexcept nogil:
    """The next `length` bytes. NULL: there are fewer; nothing is left then."""
    cdef const uint8_t* at = b.at
    if length > b.left:
        b.left = 0
        return NULL
    b.at += length
    b.left -= length
    return at


cdef bint take_vector(Bytes* b, size_t length_bytes, Bytes* out) noexcept nogil:
    """Reads a length of one or two bytes, and as many bytes into *out."""
    cdef const uint8_t* at = take(b, length_bytes)
    out.left = 0
    if at == NULL:
        return False
    out.left = at[0] if length_bytes == 1 else load_u16(at)
    out.at = take(b, out.left)
    return out.at != NULL


cdef bint open_hello(const uint8_t* at, size_t length, Bytes* out) noexcept nogil:
    """Sets *out to what follows the version and the random bytes of a hello in one record."""
    cdef uint32_t message
    if length < RECORD_HEAD + MESSAGE_HEAD + FIXED or at[0] != HELLO_RECORD:
        return False
    message = <uint32_t> load_u16(at + 3)
    if message > length - RECORD_HEAD or message < MESSAGE_HEAD + FIXED:
        return False
    at += RECORD_HEAD
    if at[0] != CLIENT_HELLO or at[1] != 0 or load_u16(at + 2) != message - MESSAGE_HEAD:
        return False
    out.at = at + MESSAGE_HEAD + FIXED
    out.left = message - MESSAGE_HEAD - FIXED
    return True


cdef bint hello_resumes(const uint8_t* at, size_t length) noexcept nogil:
    cdef Bytes hello, field, extensions
    cdef const uint8_t* kind
    cdef bint resumes
    if not open_hello(at, length, &hello) or not take_vector(&hello, 1, &field):
        return False
    resumes = field.left > 0                                # the session's id
    if not take_vector(&hello, 2, &field) or not take_vector(&hello, 1, &field):
        return False                                        # cipher suites; compression methods
    if hello.left == 0:
        return resumes
    if not take_vector(&hello, 2, &extensions):
        return False
    while extensions.left > 0:
        kind = take(&extensions, 2)
        if kind == NULL or not take_vector(&extensions, 2, &field):
            return False
        if load_u16(kind) == SUPPORTED_VERSIONS:
            return False
        resumes |= load_u16(kind) == SESSION_TICKET and field.left > 0
    return resumes
