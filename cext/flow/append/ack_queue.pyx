"""Requests that wait for their answer. See ack_queue.pxd."""
from libc.string cimport memset

from cext.memory.arena cimport arena_page_bytes, arena_take_pages


cdef inline uint64_t entries_of(uint64_t capacity) noexcept nogil:
    cdef uint64_t size = 64
    while size < capacity:
        size *= 2
    return size


cdef uint64_t ack_queue_arena_bytes(uint64_t capacity) noexcept nogil:
    return arena_page_bytes(entries_of(capacity) * sizeof(PendingAck))


cdef int ack_queue_open(AckQueue* queue, Arena* arena, uint64_t capacity) noexcept nogil:
    memset(queue, 0, sizeof(AckQueue))
    queue.entries = <PendingAck*> arena_take_pages(
        arena, entries_of(capacity) * sizeof(PendingAck))
    if queue.entries == NULL:
        return -2
    queue.mask = entries_of(capacity) - 1
    return 0
