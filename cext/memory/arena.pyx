"""A bump allocator over one mapping. See arena.pxd."""
from libc.stdint cimport int64_t
from libc.string cimport memset

from cext.base.check cimport check
from cext.base.status cimport Status
from cext.memory.region cimport region_lock, region_prefer_node

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t size)
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE
    void* MAP_FAILED


cdef class SharedArena:
    def __cinit__(self, uint64_t size, int32_t node=-1):
        """When the pages cannot come from `node`, `bind_error` says so; there is no exception."""
        if arena_open(&self.arena, size) != Status.OK:
            raise MemoryError(f"no address space for {size} bytes of buffers")
        if node >= 0:
            arena_bind(&self.arena, node)

    def __dealloc__(self):
        arena_close(&self.arena)


cdef int arena_open(Arena* arena, uint64_t size) noexcept nogil:
    cdef void* base
    memset(arena, 0, sizeof(Arena))
    arena.node = -1
    size = arena_page_bytes(size)
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0)
    if base == MAP_FAILED:
        return Status.IO_ERROR
    arena.base = <uint8_t*>base
    arena.size = size
    return Status.OK


cdef int arena_bind(Arena* arena, int32_t node) noexcept nogil:
    cdef int status = region_prefer_node(arena.base, arena.size, node, &arena.bind_error)
    if status == Status.OK:
        arena.node = node
    return status


cdef int arena_lock(Arena* arena, uint64_t size) noexcept nogil:
    cdef int status = region_lock(arena.base, min(size, arena.size), &arena.lock_error)
    if status == Status.OK:
        arena.locked = min(size, arena.size)
    return status


cdef void* arena_take(Arena* arena, uint64_t size, uint64_t align) noexcept nogil:
    cdef uint64_t start
    check(arena.used <= arena.size, b"an arena: no more is taken than it has",
          <int64_t> arena.used, <int64_t> arena.size)
    if align == 0 or align & (align - 1) != 0 or arena.sealed:
        arena.refusals += 1
        return NULL
    start = (arena.used + align - 1) & ~(align - 1)
    if start < arena.used or start > arena.size or size > arena.size - start:
        arena.refusals += 1
        return NULL
    arena.used = start + size
    return arena.base + start


cdef void* arena_take_pages(Arena* arena, uint64_t size) noexcept nogil:
    return arena_take(arena, arena_page_bytes(size), ARENA_PAGE)


cdef void arena_seal(Arena* arena) noexcept nogil:
    arena.sealed = True


cdef void arena_close(Arena* arena) noexcept nogil:
    if arena.base != NULL:
        munmap(arena.base, arena.size)
    memset(arena, 0, sizeof(Arena))
