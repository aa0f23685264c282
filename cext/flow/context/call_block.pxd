"""Call block: the memory that a call's results lie in, when there are many of them.

The half of the call that runs in the reactor takes it from malloc; the control thread reads it and
gives it back.
"""
from libc.stdint cimport uint8_t, uint64_t

cdef struct Block:
    uint8_t* bytes              # NULL: not taken
    uint64_t length             # bytes in use; block_take sets it to what was asked for

# OK, or POOL_EMPTY. A block of 0 bytes is taken, too.
cdef int block_take(Block* block, uint64_t length) noexcept nogil
cdef void block_free(Block* block) noexcept nogil
# The i64 numbers (native order) in the block, which is given back.
cdef list block_numbers(Block* block)
