"""Call blocks. See call_block.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.base.status cimport OK, POOL_EMPTY


cdef int block_take(Block* block, uint64_t length) noexcept nogil:
    block.bytes = <uint8_t*> malloc(length + 1)
    block.length = length if block.bytes != NULL else 0
    return OK if block.bytes != NULL else POOL_EMPTY


cdef void block_free(Block* block) noexcept nogil:
    free(block.bytes)
    block.bytes = NULL
    block.length = 0


cdef list block_numbers(Block* block):
    cdef int64_t number
    cdef uint64_t i
    cdef list out = []
    for i in range(block.length // 8):
        memcpy(&number, block.bytes + 8 * i, 8)
        out.append(number)
    block_free(block)
    return out
