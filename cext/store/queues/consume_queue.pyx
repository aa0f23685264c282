"""Entries, chunks and the queue struct: memory only, no files. See consume_queue.pxd.

Chunks come from a part of the arena that the kernel backs with pages only when they are written, so
a pool sized for a burst costs nothing while it is idle. Chunks that were given back are lent first,
the newest of them before others, which keeps the touched part small and in the cache.

Example: 65,536 chunks = 64 MiB of address space = 3.2 million entries that wait for their file.
"""
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from cext.base.check cimport check, debug_check
from cext.base.status cimport Status
from cext.memory.arena cimport arena_page_bytes, arena_take_pages
from cext.memory.list_ends cimport list_ends_check
from cext.wire.limits cimport TOPIC_BYTES_MAX

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** memory, size_t alignment, size_t size)

cdef extern from *:
    """
    _Static_assert(sizeof(((struct {void *n, *p; long long f; unsigned char u[1000];} *)0)->u)
                   == 50 * 20, "a chunk holds CHUNK_ENTRIES entries");
    """


cdef uint64_t chunk_pool_arena_bytes(int64_t capacity) noexcept nogil:
    return arena_page_bytes(<uint64_t> capacity * CHUNK_BYTES)


cdef int chunk_pool_open(ChunkPool* pool, Arena* arena, int64_t capacity) noexcept nogil:
    memset(pool, 0, sizeof(ChunkPool))
    pool.base = <uint8_t*> arena_take_pages(arena, <uint64_t> capacity * CHUNK_BYTES)
    if pool.base == NULL:
        return Status.POOL_EMPTY
    pool.capacity = capacity
    return Status.OK


cdef Chunk* chunk_take(ChunkPool* pool) noexcept nogil:
    cdef Chunk* chunk = pool.free_list
    if chunk != NULL:
        pool.free_list = chunk.next
        pool.free_count -= 1
        debug_check((pool.free_list == NULL) == (pool.free_count == 0),
                    b"queue chunks: as many are free as are counted", pool.free_count,
                    pool.free_list == NULL)
        return chunk
    if pool.touched == pool.capacity:
        pool.refusals += 1
        return NULL
    chunk = <Chunk*> (pool.base + pool.touched * CHUNK_BYTES)
    pool.touched += 1
    return chunk


cdef void chunk_give(ChunkPool* pool, Chunk* chunk) noexcept nogil:
    chunk.next = pool.free_list
    pool.free_list = chunk
    pool.free_count += 1
    check(pool.free_count <= pool.touched, b"queue chunks: no more are free than were ever lent",
          pool.free_count, pool.touched)


cdef Queue* queue_create(const char* topic, int32_t topic_length, int32_t queue_id,
                         uint64_t serial) noexcept nogil:
    # Aligned, so that an append touches one cache line of the struct and not two.
    cdef void* memory = NULL
    cdef size_t size = sizeof(Queue) + <size_t> topic_length + 1
    if posix_memalign(&memory, 64, size) != 0:
        return NULL
    memset(memory, 0, size)
    cdef Queue* queue = <Queue*> memory
    queue.topic = <char*> queue + sizeof(Queue)
    memcpy(queue.topic, topic, <size_t> topic_length)
    queue.topic_length = topic_length
    queue.queue_id = queue_id
    queue.serial = serial
    return queue


cdef void queue_destroy(Queue* queue, ChunkPool* pool) noexcept nogil:
    cdef Chunk* chunk = queue.head
    cdef Chunk* following
    while chunk != NULL:
        following = chunk.next
        chunk_give(pool, chunk)
        chunk = following
    free(queue)


cdef void queue_add_chunk(Queue* queue, Chunk* chunk) noexcept nogil:
    chunk.next = NULL
    chunk.previous = queue.tail
    chunk.first_offset = queue.max_offset
    list_ends_check(queue.head, queue.tail)
    debug_check(queue.tail == NULL or queue.tail.first_offset + CHUNK_ENTRIES == queue.max_offset,
                b"a queue: a chunk follows one that is full",
                0 if queue.tail == NULL else queue.tail.first_offset, queue.max_offset)
    if queue.tail == NULL:
        queue.head = chunk
    else:
        queue.tail.next = chunk
    queue.tail = chunk
    queue.chunk_count += 1
    queue.write_at = chunk.entries
    queue.write_end = chunk.entries + CHUNK_ENTRIES * QUEUE_ENTRY_BYTES


cdef int queue_release(Queue* queue, ChunkPool* pool, uint32_t keep) noexcept nogil:
    cdef Chunk* chunk
    cdef int released = 0
    while queue.chunk_count > keep and queue.head != queue.tail:
        chunk = queue.head
        if chunk.next.first_offset > queue.persisted_offset:
            return released
        queue.head = chunk.next
        queue.head.previous = NULL
        queue.chunk_count -= 1
        chunk_give(pool, chunk)
        released += 1
    if keep == 0 and queue.head != NULL and queue.persisted_offset == queue.max_offset:
        chunk_give(pool, queue.head)
        queue.head = queue.tail = NULL
        queue.write_at = queue.write_end = NULL
        queue.chunk_count = 0
        released += 1
    list_ends_check(queue.head, queue.tail)
    debug_check((queue.chunk_count == 0) == (queue.head == NULL),
                b"a queue: as many chunks as are counted", queue.chunk_count, queue.head == NULL)
    return released


cdef Chunk* queue_chunk_at(Queue* queue, int64_t offset) noexcept nogil:
    cdef Chunk* chunk = queue.tail
    if queue.head == NULL or offset < queue.head.first_offset or offset >= queue.max_offset:
        return NULL
    # The search starts at the tail, since consumers are mostly there and hand-overs start a few
    # chunks before it. It starts at the head when the offset is nearer to it: a writer that is far
    # behind makes long chains.
    if offset - queue.head.first_offset < queue.tail.first_offset - offset:
        chunk = queue.head
        while offset >= chunk.first_offset + CHUNK_ENTRIES:
            chunk = chunk.next
        return chunk
    while offset < chunk.first_offset:
        chunk = chunk.previous
    return chunk


cdef void queue_copy_entries(Queue* queue, int64_t offset, int64_t count,
                             uint8_t* out) noexcept nogil:
    cdef Chunk* chunk = queue_chunk_at(queue, offset)
    cdef int64_t here
    while count > 0 and chunk != NULL:
        here = min(count, chunk.first_offset + CHUNK_ENTRIES - offset)
        memcpy(out, chunk.entries + (offset - chunk.first_offset) * QUEUE_ENTRY_BYTES,
               <size_t> here * QUEUE_ENTRY_BYTES)
        out += here * QUEUE_ENTRY_BYTES
        offset += here
        count -= here
        chunk = chunk.next


cdef bint topic_is_valid(const char* topic, int32_t length) noexcept nogil:
    cdef int32_t i
    cdef uint8_t c
    if length <= 0 or length > TOPIC_BYTES_MAX:
        return False
    for i in range(length):
        c = <uint8_t> topic[i]
        if not (c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c'0' <= c <= c'9'
                or c == c'%' or c == c'|' or c == c'_' or c == c'-' or c == c'+'):
            return False
    return True
