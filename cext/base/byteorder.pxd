"""Byte order: big-endian loads and stores, as RocketMQ writes all integers in frames and files.

The machines rmq runs on are little-endian (setup.py refuses others), so each helper is one
unaligned move and one byte swap, which gcc compiles to a single `movbe` or to `mov` + `bswap`. The
pointer needs no alignment. No helper checks bounds: the caller has compared the length before.

Example: bytes 00 00 01 90 at `at` -> load_u32(at) == 400; store_u32(at, 400) writes them again.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from * nogil:
    uint16_t __builtin_bswap16(uint16_t) noexcept
    uint32_t __builtin_bswap32(uint32_t) noexcept
    uint64_t __builtin_bswap64(uint64_t) noexcept


cdef inline uint16_t load_u16(const uint8_t* at) noexcept nogil:
    cdef uint16_t word
    memcpy(&word, at, 2)
    return __builtin_bswap16(word)


cdef inline uint32_t load_u32(const uint8_t* at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return __builtin_bswap32(word)


cdef inline uint64_t load_u64(const uint8_t* at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return __builtin_bswap64(word)


cdef inline int16_t load_i16(const uint8_t* at) noexcept nogil:
    return <int16_t>load_u16(at)


cdef inline int32_t load_i32(const uint8_t* at) noexcept nogil:
    return <int32_t>load_u32(at)


cdef inline int64_t load_i64(const uint8_t* at) noexcept nogil:
    return <int64_t>load_u64(at)


cdef inline void store_u16(uint8_t* at, uint16_t value) noexcept nogil:
    cdef uint16_t word = __builtin_bswap16(value)
    memcpy(at, &word, 2)


cdef inline void store_u32(uint8_t* at, uint32_t value) noexcept nogil:
    cdef uint32_t word = __builtin_bswap32(value)
    memcpy(at, &word, 4)


cdef inline void store_u64(uint8_t* at, uint64_t value) noexcept nogil:
    cdef uint64_t word = __builtin_bswap64(value)
    memcpy(at, &word, 8)


cdef inline void store_i16(uint8_t* at, int16_t value) noexcept nogil:
    store_u16(at, <uint16_t>value)


cdef inline void store_i32(uint8_t* at, int32_t value) noexcept nogil:
    store_u32(at, <uint32_t>value)


cdef inline void store_i64(uint8_t* at, int64_t value) noexcept nogil:
    store_u64(at, <uint64_t>value)
