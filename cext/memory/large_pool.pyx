"""Blocks for what is larger than any buffer. See large_pool.pxd."""
from libc.stdlib cimport free, malloc

from cext.base.check cimport check


cdef LargeBlock* large_pool_take(LargePool* pool, uint64_t bytes) noexcept nogil:
    cdef LargeBlock* block = NULL
    if bytes <= pool.bytes_max - pool.bytes:
        block = <LargeBlock*> malloc(sizeof(LargeBlock) + bytes)
    if block == NULL:
        pool.refusals += 1
        return NULL
    block.bytes = bytes
    pool.bytes += bytes
    return block


cdef void large_pool_release(LargePool* pool, LargeBlock* block) noexcept nogil:
    check(block.bytes <= pool.bytes, b"a large pool: no more comes back than is out", block.bytes,
          pool.bytes)
    pool.bytes -= block.bytes
    free(block)
