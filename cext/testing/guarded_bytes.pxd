"""Guarded bytes: a buffer that ends directly before a page without access.

    guarded_open(&buffer)                       MemoryError
    at = guarded_copy(&buffer, bytes, length)   at most ROOM bytes
    guarded_close(&buffer)                      harmless if it was never opened

If a function reads or writes one byte too far the process ends, even in a release build. No .pyx.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memmove
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE, mmap, mprotect,
    munmap,
)

cdef enum:
    PAGE = 4096
    ROOM = 65536

cdef struct Guarded:
    uint8_t* base               # ROOM bytes, then a page without access; NULL: not open
    uint8_t* end                # base + ROOM


cdef inline int guarded_open(Guarded* guarded) except -1:
    cdef void* base = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if base == MAP_FAILED:
        raise MemoryError("no room for guarded bytes")
    guarded.base = <uint8_t*>base
    guarded.end = guarded.base + ROOM
    if mprotect(guarded.end, PAGE, PROT_NONE) != 0:
        raise MemoryError("no page behind guarded bytes")
    return 0


cdef inline void guarded_close(Guarded* guarded) noexcept nogil:
    if guarded.base != NULL:
        munmap(guarded.base, ROOM + PAGE)


cdef inline uint8_t* guarded_copy(Guarded* guarded, const uint8_t* bytes,
                                  uint32_t length) noexcept nogil:
    """A copy whose last byte is the last one that may be touched; returns its start."""
    memmove(guarded.end - length, bytes, length)
    return guarded.end - length
