"""Memory that grows. See byte_buffer.pxd."""
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef enum:
    FIRST_BYTES = 256


cdef bint buffer_reserve(ByteBuffer* to, uint64_t more) noexcept nogil:
    cdef uint64_t wanted = to.size + more
    cdef uint64_t capacity = to.capacity * 2 if to.capacity > 0 else FIRST_BYTES
    cdef void* memory
    if wanted <= to.capacity:
        return True
    if wanted < to.size:
        return False
    if capacity < wanted:
        capacity = wanted
    memory = realloc(to.bytes, capacity)
    if memory == NULL:
        return False
    to.bytes = <uint8_t*> memory
    to.capacity = capacity
    return True


cdef void buffer_free(ByteBuffer* to) noexcept nogil:
    free(to.bytes)
    to.bytes = NULL
    to.size = to.capacity = 0


cdef inline uint64_t character_at(const uint8_t* at, uint64_t left) noexcept nogil:
    """Size of the well-formed character at `at`; 0: there is none."""
    cdef uint8_t first = at[0], second
    if first < 0x80:
        return 1
    if left < 2 or first < 0xC2 or first > 0xF4:
        return 0
    second = at[1]
    if first < 0xE0:
        return 2 if second & 0xC0 == 0x80 else 0
    if left < 3 or at[2] & 0xC0 != 0x80:
        return 0
    if first < 0xF0:
        if first == 0xE0:
            return 3 if 0xA0 <= second <= 0xBF else 0
        if first == 0xED:               # no halves of surrogate pairs
            return 3 if 0x80 <= second <= 0x9F else 0
        return 3 if second & 0xC0 == 0x80 else 0
    if left < 4 or at[3] & 0xC0 != 0x80:
        return 0
    if first == 0xF0:
        return 4 if 0x90 <= second <= 0xBF else 0
    if first == 0xF4:
        return 4 if 0x80 <= second <= 0x8F else 0
    return 4 if second & 0xC0 == 0x80 else 0


cdef bint buffer_append_text(ByteBuffer* to, const uint8_t* bytes, uint64_t count) noexcept nogil:
    cdef uint64_t at = 0, good = 0, step, word
    while at < count:
        if at + 8 <= count:             # ASCII, eight bytes at a time
            memcpy(&word, bytes + at, 8)
            if not word & <uint64_t> 0x8080808080808080:
                at += 8
                continue
        step = character_at(bytes + at, count - at)
        if step > 0:
            at += step
            continue
        if (not buffer_append(to, bytes + good, at - good)
                or not buffer_append(to, b"\xEF\xBF\xBD", 3)):
            return False
        at += 1
        good = at
    return buffer_append(to, bytes + good, count - good)
