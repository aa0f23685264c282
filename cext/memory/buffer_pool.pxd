"""Buffer pool: buffers of one size from a part of the shard's arena, never allocated one by one.

That part is address space until a buffer is first taken and touched, so an idle pool costs no
memory. Freed buffers are reused last in, first out: the warmest first.
An empty pool returns NULL and counts a refusal; the caller answers SYSTEM_BUSY or stops reading.

One thread uses a pool (the reactor, which notes itself with buffer_pool_own). More releases than
takes end the process; a debug build also ends it for a buffer that belongs to another pool or is
released twice. The buffers in use and the free ones together must be all that were ever taken: this
is checked when the free ones are walked anyway (buffer_pool_trim), and in debug builds now and
then.

Example: 4096 buffers of 16 KiB reserve 64 MiB; after a burst that held 10 of them at once, 160 KiB
are resident and `high_water` is 10.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena

cdef struct BufferPool:
    uint8_t* base           # in the arena; borrowed for the pool's life
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
    uint64_t keep_bytes     # a released buffer's memory beyond these goes back to the system

# What buffer_pool_open takes from the arena.
cdef uint64_t buffer_pool_arena_bytes(uint64_t buffer_bytes, uint32_t count) noexcept nogil
# OK, or IO_ERROR when the arena has less than that left. keep_bytes 0 keeps whole buffers.
cdef int buffer_pool_open(BufferPool* pool, Arena* arena, uint64_t buffer_bytes, uint32_t count,
                          uint64_t keep_bytes) noexcept nogil
cdef void buffer_pool_close(BufferPool* pool) noexcept nogil
# Makes this thread the pool's only user; with False, any thread may use the pool.
cdef void buffer_pool_own(BufferPool* pool, bint mine) noexcept nogil
cdef void* buffer_pool_take(BufferPool* pool) noexcept nogil
cdef void buffer_pool_release(BufferPool* pool, void* buffer) noexcept nogil
# The same for a buffer whose bytes from keep_bytes on were not touched: it saves a system call.
cdef void buffer_pool_release_head(BufferPool* pool, void* buffer) noexcept nogil
# Gives the memory of freed buffers back to the system, except the first page of each and the `warm`
# buffers that will be taken next. Only for buffers of whole pages that are not locked in memory.
cdef void buffer_pool_trim(BufferPool* pool, uint32_t warm) noexcept nogil
