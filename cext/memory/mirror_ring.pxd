"""Mirror ring: a ring of bytes mapped twice, back to back, so that every range in it is contiguous.

One memfd of `size` bytes is mapped at base and again at base + size. Byte i and byte i + size are
the same memory. A position p of an endless stream is at base + (p & (size - 1)), and the `size`
bytes from there on have consecutive addresses: writers and system calls see no wrap.

    size 8:   base: 0 1 2 3 4 5 6 7 | 0 1 2 3 4 5 6 7
    position 14 = byte 6; the 5 bytes 14..18 are at base + 6 .. base + 10, bytes 6 7 0 1 2

Pages are touched lazily: an idle ring costs address space only. One thread opens and closes it;
its owner decides which thread may write which range (cext/store/log/commit_log).
"""
from libc.stdint cimport uint8_t, uint64_t

cdef struct MirrorRing:
    uint8_t* base        # owned: 2 * size bytes of address space
    uint64_t size        # bytes of memory; a power of two, at least one page

# OK | MALFORMED (size no power of two, or less than a page) | IO_ERROR
cdef int mirror_ring_open(MirrorRing* ring, uint64_t size) noexcept nogil
cdef void mirror_ring_close(MirrorRing* ring) noexcept nogil


cdef inline uint8_t* mirror_ring_at(const MirrorRing* ring, uint64_t position) noexcept nogil:
    return ring.base + (position & (ring.size - 1))
