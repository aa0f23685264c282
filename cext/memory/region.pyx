"""Node and lock of a mapped range. See region.pxd."""
import os

from libc.errno cimport errno
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from cext.base.status cimport IO_ERROR, MALFORMED, OK

cdef extern from "<sys/syscall.h>" nogil:
    enum: SYS_mbind, SYS_get_mempolicy

cdef extern from "<unistd.h>" nogil:
    long syscall(long number, ...)

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t size)
    int mlock2(const void* at, size_t size, unsigned int flags)
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, MLOCK_ONFAULT
    void* MAP_FAILED

cdef enum:
    MPOL_DEFAULT = 0
    MPOL_PREFERRED = 1
    MPOL_F_ADDR = 2
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


def exercise(uint64_t size, int32_t node, bint lock=False):
    """For tests: maps `size` bytes, applies both and touches them; (status of the node,
    status of the lock, errno, policy and nodes as the kernel reports them)."""
    cdef int error = 0, first_error = 0
    cdef int policy = -1
    cdef int locked = OK
    cdef uint64_t mask[MASK_WORDS]
    cdef uint64_t i
    cdef uint8_t* base = <uint8_t*> mmap(NULL, size, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if base == MAP_FAILED:
        raise MemoryError("no address space")
    preferred = region_prefer_node(base, size, node, &error)
    first_error = error
    if lock:
        locked = region_lock(base, size, &error)
        first_error = first_error or error
    for i in range(0, size, 4096):
        base[i] = 1
    memset(mask, 0, sizeof(mask))
    if syscall(SYS_get_mempolicy, &policy, <void*> mask, <unsigned long> (NODE_MAX + 2), base,
               <unsigned long> MPOL_F_ADDR) != 0:
        error = errno
        munmap(base, size)
        raise OSError(error, os.strerror(error))
    munmap(base, size)
    nodes = [n for n in range(NODE_MAX + 1)
             if mask[n // WORD_BITS] >> <uint64_t> (n % WORD_BITS) & 1]
    return preferred, locked, first_error, policy, nodes
