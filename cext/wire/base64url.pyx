"""Base64 with the URL-safe alphabet. See base64url.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.base.status cimport MALFORMED

cdef enum:
    NO_DIGIT = 255


cdef uint32_t base64url(const uint8_t* bytes, uint32_t length, uint8_t* out) noexcept nogil:
    cdef const char* digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    cdef uint32_t at = 0, written = 0, word
    while at < length:
        word = <uint32_t> bytes[at] << 16
        if at + 1 < length:
            word |= <uint32_t> bytes[at + 1] << 8
        if at + 2 < length:
            word |= bytes[at + 2]
        out[written] = digits[word >> 18]
        out[written + 1] = digits[(word >> 12) & 63]
        out[written + 2] = digits[(word >> 6) & 63] if at + 1 < length else c"="
        out[written + 3] = digits[word & 63] if at + 2 < length else c"="
        at += 3
        written += 4
    return written


cdef inline uint32_t value_of(uint8_t digit) noexcept nogil:
    if c"A" <= digit <= c"Z":
        return digit - c"A"
    if c"a" <= digit <= c"z":
        return digit - c"a" + 26
    if c"0" <= digit <= c"9":
        return digit - c"0" + 52
    if digit == c"-":
        return 62
    return 63 if digit == c"_" else NO_DIGIT


cdef int32_t base64url_read(const uint8_t* text, uint32_t length, uint8_t* out) noexcept nogil:
    cdef uint32_t at = 0, bits = 0, word = 0, value
    cdef int32_t written = 0
    if length > 0 and length % 4 == 0 and text[length - 1] == c"=":
        length -= 2 if text[length - 2] == c"=" else 1
    if length % 4 == 1:
        return MALFORMED
    while at < length:
        value = value_of(text[at])
        if value == NO_DIGIT:
            return MALFORMED
        word = word << 6 | value
        bits += 6
        at += 1
        if bits >= 8:
            bits -= 8
            out[written] = <uint8_t> (word >> bits)
            word &= (<uint32_t> 1 << bits) - 1
            written += 1
    return written
