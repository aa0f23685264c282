"""Property strings rewritten. See property_edit.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memmove, strlen

from cext.wire.properties cimport NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

cdef const char* RESERVED = "POP_CK"


cdef inline bint is_named(const uint8_t* at, uint32_t length, const char** names,
                          int count) noexcept nogil:
    cdef size_t name_length
    cdef int i
    for i in range(count):
        name_length = strlen(names[i])
        if (length > name_length and at[name_length] == NAME_VALUE_SEPARATOR
                and memcmp(at, names[i], name_length) == 0):
            return True
    return False


cdef uint32_t copy_properties_without(const uint8_t* bytes, uint32_t length,
                                      const char** names, int count, uint8_t* out) noexcept nogil:
    cdef const uint8_t* at = bytes
    cdef const uint8_t* end = bytes + length
    cdef const uint8_t* stop
    cdef uint32_t written = 0, piece
    while at < end:
        stop = <const uint8_t*> memchr(at, PROPERTY_SEPARATOR, end - at)
        if stop == NULL:
            stop = end
        piece = <uint32_t> (stop - at)
        if piece > 0 and not is_named(at, piece, names, count):
            memmove(out + written, at, piece)
            out[written + piece] = PROPERTY_SEPARATOR
            written += piece + 1
        at = stop + 1
    return written


cdef uint32_t copy_without_reserved(const uint8_t* bytes, uint32_t length,
                                    uint8_t* out) noexcept nogil:
    return copy_properties_without(bytes, length, &RESERVED, 1, out)
