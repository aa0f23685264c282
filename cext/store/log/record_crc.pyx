"""The checksum of a whole record. Bytes and promises are in record_crc.pxd."""
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

from cext.base.checksum cimport body_crc
from cext.base.status cimport Status

cdef extern from *:
    """
    #define rmq_flipped_bits(a, b) __builtin_popcountll((uint64_t)(a) ^ (uint64_t)(b))
    """
    int flipped_bits "rmq_flipped_bits" (uint64_t a, uint64_t b) noexcept nogil

cdef enum:
    NAME_BYTES = 8
    DIGITS = 10
    NEARLY = 2                  # so many flipped bits in name and separators still make it a pair

cdef uint64_t NAME              # "__CRC32#" as this machine loads it
memcpy(&NAME, b"__CRC32#", NAME_BYTES)


cdef inline void write_pair(uint8_t* to, uint32_t crc) noexcept nogil:
    cdef int i
    memcpy(to, &NAME, NAME_BYTES)
    to[NAME_BYTES] = 1
    for i in range(DIGITS):
        to[NAME_BYTES + 1 + i] = 48 + crc % 10
        crc //= 10
    to[RECORD_CRC_BYTES - 1] = 2


cdef inline bint is_pair(const uint8_t* pair) noexcept nogil:
    cdef uint64_t name, differ
    memcpy(&name, pair, NAME_BYTES)
    differ = name ^ NAME
    differ &= differ - 1
    if differ & (differ - 1):       # three bits or more, as in nearly all properties: no counting
        return False
    return (flipped_bits(name, NAME) + flipped_bits(pair[NAME_BYTES], 1)
            + flipped_bits(pair[RECORD_CRC_BYTES - 1], 2)) <= NEARLY


cdef uint32_t record_crc_strip(const uint8_t* properties, uint32_t length) noexcept nogil:
    while length >= RECORD_CRC_BYTES and is_pair(properties + length - RECORD_CRC_BYTES):
        length -= RECORD_CRC_BYTES
    return length


cdef void record_crc_write(uint8_t* at, uint32_t bytes) noexcept nogil:
    write_pair(at + bytes, body_crc(at, bytes))


cdef int record_crc_check(const uint8_t* at, uint32_t total) noexcept nogil:
    cdef const uint8_t* pair = at + total - RECORD_CRC_BYTES
    cdef uint8_t expected[RECORD_CRC_BYTES]
    if not is_pair(pair):
        return Status.NOT_FOUND
    write_pair(expected, body_crc(at, total - RECORD_CRC_BYTES))
    return Status.OK if memcmp(pair, expected, RECORD_CRC_BYTES) == 0 else Status.CORRUPT
