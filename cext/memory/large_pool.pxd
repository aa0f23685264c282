"""Large pool: blocks of the system's for what is larger than any buffer, so many bytes at a time.

    block = large_pool_take(&pool, 20 << 20, owner)     block.data: 20 MiB; NULL: come again
    large_pool_release(&pool, block)

Each block has an owner, a number of who takes it, and nobody has two: one who never gives his back
keeps no others from theirs as long as these fit.

It is for what a store of another broker may bring and this one takes from nobody: a record beyond
16 MiB. Nothing of the kind comes by itself, so nothing is kept for it in the arena.

Example: 256 MiB may be out: of records of 32 MiB eight are, the ninth waits until one is sent.

One thread.
"""
from libc.stdint cimport uint8_t, uint64_t

cdef struct LargeBlock:
    LargeBlock* next                # in LargePool.first
    uint64_t owner
    uint64_t bytes                  # of data
    uint8_t data[0]

cdef struct LargePool:              # zeros: none is given
    uint64_t bytes_max              # out at once
    uint64_t bytes                  # out
    uint64_t refusals               # takes answered with NULL
    LargeBlock* first               # those that are out: few, as large as they are

# Of this owner; NULL: none is.
cdef LargeBlock* large_pool_find(const LargePool* pool, uint64_t owner) noexcept nogil
# NULL: the owner has one, more would be out than may, or memory is.
cdef LargeBlock* large_pool_take(LargePool* pool, uint64_t bytes, uint64_t owner) noexcept nogil
cdef void large_pool_release(LargePool* pool, LargeBlock* block) noexcept nogil
