"""White list. See white_list.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from cext.base.byteorder cimport load_u16
from cext.base.status cimport MALFORMED, OK, POOL_EMPTY
from cext.net.address_network cimport MAPPED, MAPPED_BYTES

cdef enum:
    V4_PARTS = 4
    V6_PARTS = 8
    RANGE_BYTES = 4


cdef bint is_whole(const uint8_t* packed, uint32_t length) noexcept nogil:
    cdef uint64_t at = 0
    cdef uint32_t parts, _part
    while at < length:
        parts = packed[at]
        if parts not in (0, V4_PARTS, V6_PARTS):
            return False
        at += 1
        for _part in range(parts):
            if at + 2 > length:
                return False
            at += 2 + <uint64_t> load_u16(packed + at) * RANGE_BYTES
    return at == length


cdef int white_list_set(WhiteList* list, const uint8_t* packed, uint32_t length) noexcept nogil:
    cdef uint8_t* kept = NULL
    if not is_whole(packed, length):
        return MALFORMED
    if length > 0:
        kept = <uint8_t*> malloc(length)
        if kept == NULL:
            return POOL_EMPTY
        memcpy(kept, packed, length)
    free(list.packed)
    list.packed = kept
    list.length = length
    return OK


cdef void white_list_close(WhiteList* list) noexcept nogil:
    free(list.packed)
    list.packed = NULL
    list.length = 0


cdef inline bint in_ranges(const uint8_t* ranges, uint32_t count, uint32_t number) noexcept nogil:
    cdef uint32_t _i
    for _i in range(count):
        if load_u16(ranges) <= number <= load_u16(ranges + 2):
            return True
        ranges += RANGE_BYTES
    return False


cdef bint white_list_covers(const WhiteList* list, const uint8_t* address) noexcept nogil:
    cdef const uint8_t* at = list.packed
    cdef const uint8_t* end = at + list.length
    cdef bint is_v4 = memcmp(address, MAPPED, MAPPED_BYTES) == 0
    cdef uint32_t part, parts, count, number
    cdef bint fits
    while at < end:
        parts = at[0]
        at += 1
        if parts == 0:
            return True
        fits = is_v4 == (parts == V4_PARTS)
        for part in range(parts):
            count = load_u16(at)
            at += 2
            if fits:
                if is_v4:
                    number = address[MAPPED_BYTES + part]
                else:
                    number = load_u16(address + 2 * part)
                fits = in_ranges(at, count, number)
            at += count * RANGE_BYTES
        if fits:
            return True
    return False
