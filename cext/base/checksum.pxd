"""Checksum: CRC-32 (zlib polynomial) of byte ranges, for log records and other checked bytes.

The ways of computing it, and which processor takes which, are in cext/c/crc32.h.
Callable from any thread; it holds no state.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

# Continues `crc` over `length` bytes; start with 0. crc32_update(crc32(a), b) == crc32(a + b).
cdef uint32_t crc32_update(uint32_t crc, const uint8_t* bytes, size_t length) noexcept nogil

# The whole checksum of one range.
cdef uint32_t crc32(const uint8_t* bytes, size_t length) noexcept nogil

# What RocketMQ stores as bodyCRC: crc32 without the top bit (Java reads it as positive); 0 when
# empty.
cdef uint32_t body_crc(const uint8_t* bytes, size_t length) noexcept nogil
