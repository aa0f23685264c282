"""Blocks for what is larger than any buffer. See large_pool.pxd."""
from libc.stdlib cimport free, malloc

from cext.base.check cimport check


cdef LargeBlock* large_pool_find(const LargePool* pool, uint64_t owner) noexcept nogil:
    cdef LargeBlock* block = pool.first
    while block != NULL and block.owner != owner:
        block = block.next
    return block


cdef LargeBlock* large_pool_take(LargePool* pool, uint64_t bytes, uint64_t owner) noexcept nogil:
    cdef LargeBlock* block = NULL
    if bytes <= pool.bytes_max - pool.bytes and large_pool_find(pool, owner) == NULL:
        block = <LargeBlock*> malloc(sizeof(LargeBlock) + bytes)
    if block == NULL:
        pool.refusals += 1
        return NULL
    block.next = pool.first
    block.owner = owner
    block.bytes = bytes
    pool.first = block
    pool.bytes += bytes
    return block


cdef void large_pool_release(LargePool* pool, LargeBlock* block) noexcept nogil:
    cdef LargeBlock** at = &pool.first
    while at[0] != NULL and at[0] != block:
        at = &at[0].next
    check(at[0] == block, b"a large pool: what comes back is out", block.bytes, pool.bytes)
    check(block.bytes <= pool.bytes, b"a large pool: no more comes back than is out", block.bytes,
          pool.bytes)
    at[0] = block.next
    pool.bytes -= block.bytes
    free(block)
