"""Text: a string in a frame, pointed at and not copied.

This module undoes JSON escapes. Java's writer escapes the two property separators, so it is called
once for the properties of nearly every send: bytes between escapes are copied 16 at a time.

Example: `K\\u0001v\\u0002` (14 bytes) -> K 0x01 v 0x02 (4 bytes).

What \\u escapes become, in UTF-8:
    0000-007F one byte, 0080-07FF two, 0800-FFFF three, a pair D800-DBFF + DC00-DFFF four;
    half a pair alone becomes '?', as when Java encodes it in UTF-8.

Bytes that are not escaped are not checked: they are taken to be UTF-8 and copied unchanged.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from cext.base.status cimport Status


cdef extern from "scan.h" nogil:
    uint32_t rmq_copy_until(const uint8_t* source, uint32_t length, uint8_t* to, uint32_t capacity,
                            uint8_t stop) noexcept

cdef enum:
    ESCAPED_NAME_BYTES_MAX = 255 * 6    # a name of 255 bytes, each spelled \u00XX


cdef inline int hex_digit(uint8_t byte) noexcept nogil:
    if c'0' <= byte <= c'9':
        return byte - 48
    byte |= 32
    if c'a' <= byte <= c'f':
        return byte - 87
    return -1


cdef inline int32_t read_unit(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """The UTF-16 unit spelled by `uXXXX` at `at`, or -1."""
    cdef int32_t unit = 0
    cdef int digit
    cdef int i
    if end - at < 5 or at[0] != c'u':
        return -1
    for i in range(1, 5):
        digit = hex_digit(at[i])
        if digit < 0:
            return -1
        unit = unit << 4 | digit
    return unit


cdef inline int simple_escape(uint8_t byte) noexcept nogil:
    """What the letter after a backslash stands for, or -1."""
    if byte == c'"' or byte == c'\\' or byte == c'/':
        return byte
    if byte == c'n':
        return 10
    if byte == c't':
        return 9
    if byte == c'r':
        return 13
    if byte == c'b':
        return 8
    if byte == c'f':
        return 12
    return -1


cdef inline uint8_t* write_utf8(uint8_t* out, uint32_t point) noexcept nogil:
    if point < 0x80:
        out[0] = <uint8_t>point
        return out + 1
    if point < 0x800:
        out[0] = <uint8_t>(0xC0 | point >> 6)
        out[1] = <uint8_t>(0x80 | (point & 0x3F))
        return out + 2
    if point < 0x10000:
        out[0] = <uint8_t>(0xE0 | point >> 12)
        out[1] = <uint8_t>(0x80 | (point >> 6 & 0x3F))
        out[2] = <uint8_t>(0x80 | (point & 0x3F))
        return out + 3
    out[0] = <uint8_t>(0xF0 | point >> 18)
    out[1] = <uint8_t>(0x80 | (point >> 12 & 0x3F))
    out[2] = <uint8_t>(0x80 | (point >> 6 & 0x3F))
    out[3] = <uint8_t>(0x80 | (point & 0x3F))
    return out + 4


cdef const uint8_t* undo_escape(const uint8_t* at, const uint8_t* end,
                                uint8_t** out) noexcept nogil:
    """Writes the character that is escaped at `at`, which is the place after a backslash. Returns
    where the text goes on, or NULL. Every escape is at least as long as its UTF-8, so `out` never
    overtakes the source."""
    cdef int32_t unit
    cdef int32_t low
    cdef int plain
    if at >= end:
        return NULL
    if end - at >= 5 and memcmp(at, b"u000", 4) == 0 and hex_digit(at[4]) >= 0:
        out[0][0] = <uint8_t>hex_digit(at[4])      # the property separators: nearly all escapes
        out[0] += 1
        return at + 5
    plain = simple_escape(at[0])
    if plain >= 0:
        out[0][0] = <uint8_t>plain
        out[0] += 1
        return at + 1
    unit = read_unit(at, end)
    if unit < 0:
        return NULL
    at += 5
    if 0xD800 <= unit <= 0xDFFF:
        if unit < 0xDC00 and end - at >= 6 and at[0] == c'\\':
            low = read_unit(at + 1, end)
            if 0xDC00 <= low <= 0xDFFF:
                unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
                out[0] = write_utf8(out[0], <uint32_t>unit)
                return at + 6
        unit = c'?'
    out[0] = write_utf8(out[0], <uint32_t>unit)
    return at


cdef int32_t text_copy(const Text* text, uint8_t* out, uint32_t capacity) noexcept nogil:
    cdef const uint8_t* at = text.bytes
    cdef const uint8_t* end
    cdef uint8_t* to = out
    cdef uint8_t* limit = out + capacity
    cdef uint32_t plain
    if text.bytes == NULL:
        return 0
    if text.length > capacity or text.length > 0x7FFFFFFF:
        return Status.TOO_LARGE
    if not text.escaped:
        memcpy(out, text.bytes, text.length)
        return <int32_t>text.length
    end = at + text.length
    while at < end:
        plain = rmq_copy_until(at, <uint32_t>(end - at), to, <uint32_t>(limit - to), c'\\')
        at += plain
        to += plain
        if at == end:
            break
        at = undo_escape(at + 1, end, &to)
        if at == NULL:
            return Status.MALFORMED
    return <int32_t>(to - out)


cdef bint escaped_text_equals(const Text* text, const uint8_t* name,
                              uint32_t length) noexcept nogil:
    cdef uint8_t plain[ESCAPED_NAME_BYTES_MAX]
    cdef int32_t plain_length = text_copy(text, plain, ESCAPED_NAME_BYTES_MAX)
    return (plain_length >= 0 and <uint32_t>plain_length == length
            and memcmp(plain, name, length) == 0)


cdef int text_i64_slow(const Text* text, int64_t* out) noexcept nogil:
    cdef uint8_t plain[128]
    cdef int32_t length = text_copy(text, plain, sizeof(plain))
    cdef int32_t i = 0
    cdef uint64_t total = 0
    cdef uint64_t limit = 0x7FFFFFFFFFFFFFFF
    cdef uint32_t digit
    cdef bint negative
    if length <= 0:
        return Status.MALFORMED
    negative = plain[0] == c'-'
    if negative or plain[0] == c'+':
        i = 1
    if negative:
        limit += 1
    if i == length:
        return Status.MALFORMED
    while i < length:
        digit = <uint32_t>plain[i] - 48
        if digit > 9 or total > (limit - digit) // 10:
            return Status.MALFORMED
        total = total * 10 + digit
        i += 1
    out[0] = <int64_t>(0 - total) if negative else <int64_t>total
    return Status.OK
