"""Node and lock of a mapped range. See region.pxd."""
from libc.errno cimport errno
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

from cext.base.status cimport IO_ERROR, MALFORMED, OK

cdef extern from "<sys/syscall.h>" nogil:
    enum: SYS_mbind

cdef extern from "<unistd.h>" nogil:
    long syscall(long number, ...)

cdef extern from "<sys/mman.h>" nogil:
    int mlock2(const void* at, size_t size, unsigned int flags)
    enum: MLOCK_ONFAULT

cdef enum:
    MPOL_DEFAULT = 0
    MPOL_PREFERRED = 1
    WORD_BITS = 64
    MASK_WORDS = 16             # NODE_MAX + 1 bits


cdef int region_prefer_node(void* base, uint64_t size, int32_t node, int* error) noexcept nogil:
    cdef uint64_t mask[MASK_WORDS]
    error[0] = 0
    if node < -1 or node > NODE_MAX or <uint64_t> base & 4095 != 0:
        return MALFORMED
    memset(mask, 0, sizeof(mask))
    if node >= 0:
        mask[node // WORD_BITS] = <uint64_t> 1 << (node % WORD_BITS)
    # The kernel takes one bit less than the count it is given.
    if syscall(SYS_mbind, base, size, <long> (MPOL_PREFERRED if node >= 0 else MPOL_DEFAULT),
               <void*> mask if node >= 0 else NULL,
               <unsigned long> (NODE_MAX + 2 if node >= 0 else 0), <unsigned long> 0) != 0:
        error[0] = errno
        return IO_ERROR
    return OK


cdef int region_lock(void* base, uint64_t size, int* error) noexcept nogil:
    error[0] = 0
    if mlock2(base, size, MLOCK_ONFAULT) != 0:
        error[0] = errno
        return IO_ERROR
    return OK
