"""Checksum: CRC-32 (zlib polynomial) of byte ranges.

This is a thin module over cext/c/crc32.h, so that the tables and the choice of the processor's
instructions exist once in the process and not in every module that checks a record.

Example: crc32 of b"123456789" is 0xCBF43926, its body_crc 0x4BF43926.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "crc32.h" nogil:
    uint32_t rmq_crc32(uint32_t crc, const uint8_t* bytes, size_t length) noexcept


cdef uint32_t crc32_update(uint32_t crc, const uint8_t* bytes, size_t length) noexcept nogil:
    return rmq_crc32(crc, bytes, length)


cdef uint32_t crc32(const uint8_t* bytes, size_t length) noexcept nogil:
    return rmq_crc32(0, bytes, length)


cdef uint32_t body_crc(const uint8_t* bytes, size_t length) noexcept nogil:
    return rmq_crc32(0, bytes, length) & <uint32_t>0x7FFFFFFF
