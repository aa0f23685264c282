"""Large pool: malloc'd blocks for what is larger than any buffer, up to so many bytes at a time.

    block = large_pool_take(&pool, 20 << 20, owner)     block.data: 20 MiB; NULL: try again later
    large_pool_release(&pool, block)

Each block has an owner, a number that stands for its taker, and no owner has two blocks. So an
owner that never gives its block back does not keep others from theirs while these still fit.

It is for records beyond 16 MiB. This broker accepts none from clients, but the store of another
broker may hold some. They are rare, so nothing is kept for them in the arena.

Example: 256 MiB may be taken at once: eight records of 32 MiB are, and the ninth waits until one of
them has been sent.

One thread.
"""
from libc.stdint cimport uint8_t, uint64_t

cdef struct LargeBlock:
    LargeBlock* next                # in the list from LargePool.first
    uint64_t owner
    uint64_t bytes                  # of data
    uint8_t data[0]

cdef struct LargePool:              # all zeros: no block may be taken
    uint64_t bytes_max              # may be taken at once
    uint64_t bytes                  # taken now
    uint64_t refusals               # takes answered with NULL
    LargeBlock* first               # the blocks taken now: few, since they are so large

# The owner's block; NULL: it has none.
cdef LargeBlock* large_pool_find(const LargePool* pool, uint64_t owner) noexcept nogil
# NULL: the owner has a block, bytes_max would be exceeded, or there is no memory.
cdef LargeBlock* large_pool_take(LargePool* pool, uint64_t bytes, uint64_t owner) noexcept nogil
cdef void large_pool_release(LargePool* pool, LargeBlock* block) noexcept nogil
