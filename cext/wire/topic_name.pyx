"""Topic names. See topic_name.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from cext.wire.limits cimport RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX
from cext.wire.system_topics cimport (
    DLQ_PREFIX,
    DLQ_PREFIX_BYTES,
    RETRY_PREFIX,
    RETRY_PREFIX_BYTES,
)


cdef inline bint begins_with(const uint8_t* name, uint32_t length, const char* prefix,
                             uint32_t prefix_bytes) noexcept nogil:
    return length >= prefix_bytes and memcmp(name, prefix, prefix_bytes) == 0


cdef inline bint is_allowed(uint8_t byte) noexcept nogil:
    return (c'a' <= byte <= c'z' or c'A' <= byte <= c'Z' or c'0' <= byte <= c'9'
            or byte == c'_' or byte == c'-' or byte == c'%' or byte == c'|')


cdef bint is_topic_name(const uint8_t* name, uint32_t length) noexcept nogil:
    cdef bint is_retry = begins_with(name, length, RETRY_PREFIX, RETRY_PREFIX_BYTES)
    cdef uint32_t most = TOPIC_CHARACTERS_MAX
    cdef uint32_t i
    cdef bint has_plus = False
    if is_retry or begins_with(name, length, DLQ_PREFIX, DLQ_PREFIX_BYTES):
        most = RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX
    if length == 0 or length > most:
        return False
    for i in range(length):
        if is_retry and name[i] == c'+' and not has_plus:
            has_plus = True                     # retry topics of pops have one (pop_table.pxd)
        elif not is_allowed(name[i]):
            return False
    return True
