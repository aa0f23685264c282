"""Checksum: CRC-32 (zlib polynomial) of byte ranges.

A thin module over cext/c/crc32.h, so that the tables and the choice of the processor's instructions
exist once in the process and not in every module that checks a record.

Example: crc32 of b"123456789" is 0xCBF43926, its body_crc 0x4BF43926.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "crc32.h" nogil:
    uint32_t rmq_crc32(uint32_t crc, const uint8_t* bytes, size_t length) noexcept
    ctypedef uint32_t (*rmq_crc32_function)(uint32_t, const uint8_t*, size_t) noexcept nogil
    rmq_crc32_function* rmq_crc32_ways
    int rmq_crc32_way_count
    int rmq_wide_parts_in_use()


cdef uint32_t crc32_update(uint32_t crc, const uint8_t* bytes, size_t length) noexcept nogil:
    return rmq_crc32(crc, bytes, length)


cdef uint32_t crc32(const uint8_t* bytes, size_t length) noexcept nogil:
    return rmq_crc32(0, bytes, length)


cdef uint32_t body_crc(const uint8_t* bytes, size_t length) noexcept nogil:
    return rmq_crc32(0, bytes, length) & <uint32_t>0x7FFFFFFF


# ---- for tests ----

def crc32_of(bytes data not None, uint32_t crc=0) -> int:
    """CRC-32 of data, continuing crc, by the way this processor takes."""
    return crc32_update(crc, <const uint8_t*>data, len(data))


def crc32_by_all_ways(bytes data not None) -> list:
    """CRC-32 of data by the tables, and by every other way that this processor knows."""
    cdef int way
    return [(~rmq_crc32_ways[way](<uint32_t>0xFFFFFFFF, <const uint8_t*>data, len(data)))
            & 0xFFFFFFFF for way in range(rmq_crc32_way_count)]


def wide_parts_in_use_after(bytes data not None) -> int:
    """What of the registers' upper halves a checksum leaves in use: 0, or -1 when not known."""
    crc32(<const uint8_t*>data, len(data))
    return rmq_wide_parts_in_use()


def body_crc_of(bytes data not None) -> int:
    """What a record stores as bodyCRC for this body."""
    return body_crc(<const uint8_t*>data, len(data))
