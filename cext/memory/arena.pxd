"""Arena: one reserved region from which a shard takes all its long-lived memory at start.

Each take moves a mark upwards. Pieces are never given back one by one, and nothing can be taken
after arena_seal. The region is address space only (MAP_NORESERVE): a page costs memory when it is
first touched, and fresh memory reads as zeros. A shard's arena is as large as the sum of what its
users say they need (their `.._arena_bytes` functions, built from arena_page_bytes), so a sealed
arena is full and cannot grow.

Example: an arena of 1 MiB; take(100, 64) -> base + 0, take(8, 64) -> base + 128, used 136;
after arena_seal every take returns NULL and counts in `refusals`.

One thread (the one that starts the shard) uses it. `arena_bind`, called before any page is touched,
makes the region's pages come from a NUMA node; `arena_lock` keeps touched pages in memory.
"""
from libc.stdint cimport int32_t, uint8_t, uint64_t

cdef enum:
    ARENA_PAGE = 4096

cdef struct Arena:
    uint8_t* base        # owned; `size` bytes, page aligned
    uint64_t size
    uint64_t used        # bytes taken, padding included
    uint64_t refusals    # takes answered with NULL
    uint64_t locked      # that many bytes from base on stay in memory once touched
    int32_t node         # NUMA node that was granted; -1 none
    int bind_error       # errno of a binding that failed
    int lock_error       # errno of a lock that failed
    bint sealed          # no more takes

cdef class SharedArena:  # an arena that lives as long as any object that took from it
    cdef Arena arena

# OK | IO_ERROR (no address space)
cdef int arena_open(Arena* arena, uint64_t size) noexcept nogil
# Prefers `node` for pages touched from now on; -1: no preference. OK | MALFORMED | IO_ERROR
cdef int arena_bind(Arena* arena, int32_t node) noexcept nogil
# The first `size` bytes (or all, if there are fewer) stay in memory once touched. OK | IO_ERROR
cdef int arena_lock(Arena* arena, uint64_t size) noexcept nogil
# `size` zeroed bytes at a multiple of `align` (a power of two), or NULL: full, sealed, bad align.
cdef void* arena_take(Arena* arena, uint64_t size, uint64_t align) noexcept nogil
# The same, beginning and ending at a page; it uses up arena_page_bytes(size).
cdef void* arena_take_pages(Arena* arena, uint64_t size) noexcept nogil
cdef void arena_seal(Arena* arena) noexcept nogil
cdef void arena_close(Arena* arena) noexcept nogil


cdef inline uint64_t arena_page_bytes(uint64_t size) noexcept nogil:
    return (size + ARENA_PAGE - 1) & ~<uint64_t> (ARENA_PAGE - 1)
