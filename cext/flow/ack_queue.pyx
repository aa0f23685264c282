"""Sends that wait for their acknowledgement. See ack_queue.pxd."""
from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef int ack_queue_open(AckQueue* queue, uint64_t capacity) noexcept nogil:
    cdef uint64_t size = 64
    while size < capacity:
        size *= 2
    memset(queue, 0, sizeof(AckQueue))
    # calloc of this size maps zero pages: what is never used costs no memory.
    queue.entries = <PendingAck*> calloc(size, sizeof(PendingAck))
    if queue.entries == NULL:
        return -2
    queue.mask = size - 1
    return 0


cdef void ack_queue_close(AckQueue* queue) noexcept nogil:
    free(queue.entries)
    memset(queue, 0, sizeof(AckQueue))
