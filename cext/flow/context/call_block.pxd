"""Call block: the memory that a call's results lie in, when there are many of them.

The call's reactor half takes it from malloc, the control thread reads it and gives it back.
"""
from libc.stdint cimport uint8_t, uint64_t

cdef struct Block:
    uint8_t* bytes              # NULL: not taken
    uint64_t length             # bytes in use; set to what was asked for by block_take

# OK, or POOL_EMPTY. A block of no bytes is taken, too.
cdef int block_take(Block* block, uint64_t length) noexcept nogil
cdef void block_free(Block* block) noexcept nogil
# The i64 numbers (native order) that the block holds; it is given back.
cdef list block_numbers(Block* block)
