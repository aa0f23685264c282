"""Fixed-size buffers from the arena. See buffer_pool.pxd."""
from libc.stdint cimport int64_t
from libc.string cimport memset

from cext.base.check cimport DEBUG_BUILD, check, debug_check
from cext.base.status cimport IO_ERROR, OK
from cext.base.thread_owner cimport thread_check, thread_clear, thread_note
from cext.memory.arena cimport arena_page_bytes, arena_take_pages

cdef extern from "<sys/mman.h>" nogil:
    int madvise(void*, size_t, int)
    enum: MADV_DONTNEED

cdef extern from * nogil:
    """
    /* In the sanitizer build a free buffer is poisoned, except for the link at its start, so that a
     * use after the release is reported as it is for malloc'd memory. */
    #if defined(__SANITIZE_ADDRESS__)
    #include <sanitizer/asan_interface.h>
    #else
    #define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
    #define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
    #endif
    """
    void ASAN_POISON_MEMORY_REGION(void* at, size_t size)
    void ASAN_UNPOISON_MEMORY_REGION(void* at, size_t size)

cdef enum:
    LINK_BYTES = 8
    PAGE = 4096
    RELEASED_LOOKS = 64
    RELEASES_PER_COUNT = 4096       # in debug builds


cdef inline uint64_t whole_lines(uint64_t bytes) noexcept nogil:
    return (bytes + 63) & ~<uint64_t> 63


cdef uint64_t buffer_pool_arena_bytes(uint64_t buffer_bytes, uint32_t count) noexcept nogil:
    return arena_page_bytes(whole_lines(buffer_bytes) * count)


cdef int buffer_pool_open(BufferPool* pool, Arena* arena, uint64_t buffer_bytes, uint32_t count,
                          uint64_t keep_bytes) noexcept nogil:
    memset(pool, 0, sizeof(BufferPool))
    pool.buffer_bytes = whole_lines(buffer_bytes)
    pool.count = count
    pool.keep_bytes = (keep_bytes + 4095) & ~<uint64_t> 4095
    pool.region_bytes = pool.buffer_bytes * count
    pool.base = <uint8_t*> arena_take_pages(arena, pool.region_bytes)
    if pool.base == NULL:
        pool.count = 0
        return IO_ERROR
    return OK


cdef void buffer_pool_close(BufferPool* pool) noexcept nogil:
    if DEBUG_BUILD:
        count_free(pool)
    if pool.base != NULL:
        ASAN_UNPOISON_MEMORY_REGION(pool.base, pool.region_bytes)
    memset(pool, 0, sizeof(BufferPool))


cdef void buffer_pool_own(BufferPool* pool, bint mine) noexcept nogil:
    if mine:
        thread_note(&pool.owner)
    else:
        thread_clear(&pool.owner)


cdef inline bint is_of_pool(const BufferPool* pool, const void* buffer) noexcept nogil:
    cdef uint64_t at = <uint64_t> (<const uint8_t*> buffer - pool.base)
    return at < pool.region_bytes and at % pool.buffer_bytes == 0


cdef bint is_free(const BufferPool* pool, const void* buffer) noexcept nogil:
    """Returns whether `buffer` is among those released last. For debug builds."""
    cdef void* free_one = pool.free_head
    cdef int _i
    for _i in range(RELEASED_LOOKS):
        if free_one == NULL or free_one == buffer:
            return free_one != NULL
        free_one = (<void**> free_one)[0]
    return False


cdef inline void check_sum(const BufferPool* pool, uint64_t free_count) noexcept nogil:
    check(free_count + pool.in_use == pool.fresh,
          b"a buffer pool: what is free and what is in use are all", <int64_t> free_count,
          pool.in_use)


cdef void count_free(const BufferPool* pool) noexcept nogil:
    cdef void* buffer = pool.free_head
    cdef uint64_t free_count = 0
    while buffer != NULL and free_count <= pool.fresh:      # more: the list has become a circle
        free_count += 1
        buffer = (<void**> buffer)[0]
    check_sum(pool, free_count)


cdef void* buffer_pool_take(BufferPool* pool) noexcept nogil:
    cdef void* buffer = pool.free_head
    thread_check(&pool.owner, b"a buffer pool: a buffer is taken by the pool's thread")
    debug_check(pool.in_use <= pool.fresh and pool.fresh <= pool.count,
                b"a buffer pool: no more buffers are in use than there are", pool.in_use,
                pool.fresh)
    if buffer != NULL:
        debug_check(is_of_pool(pool, buffer), b"a buffer pool: a free buffer is one of its own",
                    <uint8_t*> buffer - pool.base, <int64_t> pool.buffer_bytes)
        pool.free_head = (<void**> buffer)[0]
    elif pool.fresh < pool.count:
        buffer = pool.base + pool.fresh * pool.buffer_bytes
        pool.fresh += 1
    else:
        pool.refusals += 1
        return NULL
    ASAN_UNPOISON_MEMORY_REGION(buffer, pool.buffer_bytes)
    pool.in_use += 1
    if pool.in_use > pool.high_water:
        pool.high_water = pool.in_use
    return buffer


cdef void buffer_pool_release(BufferPool* pool, void* buffer) noexcept nogil:
    if pool.keep_bytes != 0 and pool.keep_bytes < pool.buffer_bytes:
        madvise(<uint8_t*> buffer + pool.keep_bytes, pool.buffer_bytes - pool.keep_bytes,
                MADV_DONTNEED)
    buffer_pool_release_head(pool, buffer)


cdef void buffer_pool_release_head(BufferPool* pool, void* buffer) noexcept nogil:
    check(pool.in_use > 0, b"a buffer pool: no more buffers come back than were taken",
          pool.in_use, <int64_t> pool.buffer_bytes)
    thread_check(&pool.owner, b"a buffer pool: a buffer is released by the pool's thread")
    if DEBUG_BUILD:
        check(is_of_pool(pool, buffer), b"a buffer pool: a buffer comes back to its own pool",
              <uint8_t*> buffer - pool.base, <int64_t> pool.buffer_bytes)
        check(not is_free(pool, buffer), b"a buffer pool: a buffer is released once",
              <uint8_t*> buffer - pool.base, pool.in_use)
    (<void**> buffer)[0] = pool.free_head
    pool.free_head = buffer
    pool.in_use -= 1
    pool.releases += 1
    if DEBUG_BUILD and pool.releases % RELEASES_PER_COUNT == 0:
        count_free(pool)
    ASAN_POISON_MEMORY_REGION(<uint8_t*> buffer + LINK_BYTES, pool.buffer_bytes - LINK_BYTES)


cdef void buffer_pool_trim(BufferPool* pool, uint32_t warm) noexcept nogil:
    cdef uint8_t* buffer = <uint8_t*> pool.free_head
    cdef uint64_t free_count = 0
    while buffer != NULL:
        free_count += 1
        if warm > 0:
            warm -= 1
        else:
            madvise(buffer + PAGE, pool.buffer_bytes - PAGE, MADV_DONTNEED)
        buffer = (<uint8_t**> buffer)[0]
    check_sum(pool, free_count)
