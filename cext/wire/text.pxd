"""Text: a string in a frame, pointed at and not copied.

A JSON header spells 0x01 as \\u0001, so a Text says whether it has backslashes inside. Comparing
and copying undo the escapes; all other code may pass the bytes on as they are. Texts of binary
headers and of stored properties are never escaped.

Example: the JSON value "TAGS\\u0001A" -> length 11, escaped; text_copy gives 6 bytes TAGS 0x01 A.

All functions: any thread, no state, no allocation.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cext.base.status cimport Status

cdef extern from "scan.h" nogil:
    bint rmq_eight_digits(const uint8_t* at, uint64_t* number) noexcept


cdef struct Text:
    const uint8_t* bytes  # borrowed from the frame; NULL: absent, or JSON null
    uint32_t length       # bytes in the frame, backslashes included
    bint escaped          # there is at least one JSON backslash inside


# Copies the text into `out` with JSON escapes undone (a lone surrogate becomes '?', as in Java).
# Returns the length, which is never more than text.length | TOO_LARGE: it may not fit | MALFORMED:
# a broken escape. Bytes of `out` after the text, up to `capacity`, may be overwritten with rubbish.
cdef int32_t text_copy(const Text* text, uint8_t* out, uint32_t capacity) noexcept nogil

# The slow half of text_equals, for escaped texts: whether the text is this name (at most 255
# bytes).
cdef bint escaped_text_equals(const Text* text, const uint8_t* name, uint32_t length) noexcept nogil

# The slow half of text_i64, for numbers with an escape or with more than 19 characters.
cdef int text_i64_slow(const Text* text, int64_t* out) noexcept nogil


cdef inline Text text_of(const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef Text text
    text.bytes = bytes
    text.length = length
    text.escaped = False
    return text


cdef inline bint text_equals(const Text* text, const char* name, uint32_t length) noexcept nogil:
    """False for an absent text."""
    if text.bytes == NULL:
        return False
    if text.escaped:
        return escaped_text_equals(text, <const uint8_t*>name, length)
    if text.length != length:
        return False
    # Different names mostly differ in the first byte; comparing it costs less than calling memcmp.
    return length == 0 or (text.bytes[0] == <uint8_t>name[0]
                           and memcmp(text.bytes, name, length) == 0)


cdef inline int text_i64(const Text* text, int64_t* out) noexcept nogil:
    """Decimal digits after an optional sign, as Java's parseLong: OK or MALFORMED."""
    cdef const uint8_t* at = text.bytes
    cdef uint32_t length = text.length
    cdef uint32_t i = 0
    cdef uint64_t total = 0
    cdef uint64_t eight = 0
    cdef uint32_t digit
    cdef bint negative = False
    if text.escaped or length == 0 or length > 19:
        return text_i64_slow(text, out)
    if at[0] == c'-' or at[0] == c'+':
        negative = at[0] == c'-'
        i = 1
        if length == 1:
            return Status.MALFORMED
    while length - i >= 8 and rmq_eight_digits(at + i, &eight):
        total = total * 100000000 + eight
        i += 8
    while i < length:                 # at most 19 digits: below 2^64
        digit = <uint32_t>at[i] - 48
        if digit > 9:
            return Status.MALFORMED
        total = total * 10 + digit
        i += 1
    if total > <uint64_t>0x7FFFFFFFFFFFFFFF:
        return Status.MALFORMED       # the lowest number has 20 characters: text_i64_slow reads it
    out[0] = -<int64_t>total if negative else <int64_t>total
    return Status.OK


cdef inline int text_i32(const Text* text, int32_t* out) noexcept nogil:
    """As text_i64, and within 32 bits."""
    cdef int64_t wide = 0
    if text.length == 1 and not text.escaped and c'0' <= text.bytes[0] <= c'9':
        out[0] = text.bytes[0] - 48
        return Status.OK                # most numbers in a send are of this kind
    if text_i64(text, &wide) != Status.OK or wide != <int64_t>(<int32_t>wide):
        return Status.MALFORMED
    out[0] = <int32_t>wide
    return Status.OK


cdef inline bint text_is_true(const Text* text) noexcept nogil:
    """As Java's parseBoolean: "true" in any case is true; everything else, or no text, is false."""
    if text.bytes == NULL or text.escaped or text.length != 4:
        return False
    return ((text.bytes[0] | 32) == c't' and (text.bytes[1] | 32) == c'r'
            and (text.bytes[2] | 32) == c'u' and (text.bytes[3] | 32) == c'e')
