"""Buffer pool: buffers of one size from a part of the shard's arena, never allocated singly.

That part is address space and touched when a buffer is first taken, so a pool that is idle costs
no memory. Freed buffers are reused last in, first out: the warmest first.
An empty pool returns NULL and counts a refusal; the caller answers SYSTEM_BUSY or stops reading.

One thread uses a pool (the reactor, which notes itself with buffer_pool_own). A buffer that is not
of the pool, or one release more than there were takes, ends the process; a debug build also finds
a buffer that is released twice. What is in use and what is free are all that was ever taken: they
are counted when the free ones are gone through anyway, and in debug builds now and then.

Example: 4096 buffers of 16 KiB reserve 64 MiB; after a burst that held 10 of them at once, 160 KiB
are resident and `high_water` is 10.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena

cdef struct BufferPool:
    uint8_t* base           # of the arena; borrowed for the pool's life
    uint64_t region_bytes
    uint64_t buffer_bytes   # size of one buffer, a multiple of 64
    uint32_t count          # buffers in all
    uint32_t fresh          # buffers never taken so far; they start at base + fresh * buffer_bytes
    uint32_t in_use
    uint32_t high_water     # most buffers ever in use at once
    uint64_t refusals       # takes answered with NULL
    uint64_t releases
    void* free_head         # freed buffers, linked through their first 8 bytes
    int32_t owner           # thread_owner.pxd
    uint64_t keep_bytes     # on release, memory beyond this many bytes goes back to the system

# What buffer_pool_open takes from the arena.
cdef uint64_t buffer_pool_arena_bytes(uint64_t buffer_bytes, uint32_t count) noexcept nogil
# OK, or IO_ERROR when the arena has not so much left. keep_bytes 0 keeps whole buffers.
cdef int buffer_pool_open(BufferPool* pool, Arena* arena, uint64_t buffer_bytes, uint32_t count,
                          uint64_t keep_bytes) noexcept nogil
cdef void buffer_pool_close(BufferPool* pool) noexcept nogil
# From now on this thread's; with False nobody's.
cdef void buffer_pool_own(BufferPool* pool, bint mine) noexcept nogil
cdef void* buffer_pool_take(BufferPool* pool) noexcept nogil
cdef void buffer_pool_release(BufferPool* pool, void* buffer) noexcept nogil
# The same for a buffer whose bytes from keep_bytes on were not touched: spares a system call.
cdef void buffer_pool_release_head(BufferPool* pool, void* buffer) noexcept nogil
# Gives the memory of freed buffers back to the system, but for the `warm` that come next and a page
# of each. Only for buffers of whole pages that are not locked in memory.
cdef void buffer_pool_trim(BufferPool* pool, uint32_t warm) noexcept nogil
