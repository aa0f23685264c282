"""Subscription: the tag expression of a pull, as tag codes with which queue entries are compared.

The rule is Java's: absent, empty and exactly "*" mean everything; otherwise the text is split at
"||", each part is stripped of characters up to and including the blank, and empty parts are
dropped. A text of nothing but separators ("||") is an error; a text of separators and blanks
(" || ") matches nothing.

Example: "A|| B ||" -> codes 65, 66. A pull that carries its own subscription is parsed here each
time; registered subscriptions are parsed by control.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.base.status cimport Status
from cext.wire.properties cimport tags_code
from cext.wire.text cimport Text, text_copy


cdef inline uint32_t part_end(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    """The place of the next "||" at or after `at`, or length."""
    while at < length:
        if bytes[at] == c'|' and at + 1 < length and bytes[at + 1] == c'|':
            return at
        at += 1
    return length


cdef int read_tags(const uint8_t* bytes, uint32_t length, int32_t* codes,
                   int capacity) noexcept nogil:
    cdef uint32_t at = 0
    cdef uint32_t end
    cdef uint32_t next_part
    cdef bint any_part = False          # Java drops empty parts at the end; none left is an error
    cdef int count = 0
    while at < length:
        end = part_end(bytes, length, at)
        next_part = end + 2
        any_part = any_part or end > at
        while at < end and bytes[at] <= 32:
            at += 1
        while end > at and bytes[end - 1] <= 32:
            end -= 1
        if end > at:
            if count == capacity:
                return Status.TOO_LARGE
            codes[count] = <int32_t>tags_code(bytes + at, end - at)
            count += 1
        at = next_part
    return count if any_part else Status.MALFORMED


cdef int parse_tag_subscription(const Text* text, int32_t* codes, int capacity,
                                bint* all_tags) noexcept nogil:
    cdef uint8_t plain[SUBSCRIPTION_BYTES_MAX]
    cdef const uint8_t* bytes = text.bytes
    cdef uint32_t length = text.length
    cdef int32_t copied
    all_tags[0] = False
    if bytes != NULL and text.escaped:
        copied = text_copy(text, plain, SUBSCRIPTION_BYTES_MAX)
        if copied < 0:
            return copied
        bytes = plain
        length = <uint32_t>copied
    if bytes == NULL or length == 0 or (length == 1 and bytes[0] == c'*'):
        all_tags[0] = True
        return 0
    return read_tags(bytes, length, codes, capacity)
