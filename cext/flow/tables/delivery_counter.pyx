"""Delivery counter. See delivery_counter.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc


cdef void delivery_counter_grow(DeliveryCounter* delivered, int32_t queue_id) noexcept nogil:
    cdef int32_t slots = 8
    cdef int64_t* pulled
    if delivered == NULL or queue_id < delivered.slots:
        return
    while slots <= queue_id:
        slots *= 2
    pulled = <int64_t*> realloc(delivered.pulled, slots * sizeof(int64_t))
    if pulled == NULL:
        return
    delivered.pulled = pulled
    while delivered.slots < slots:
        pulled[delivered.slots] = -1
        delivered.slots += 1


cdef void delivery_counters_free(DeliveryCounter* at) noexcept nogil:
    cdef DeliveryCounter* following
    while at != NULL:
        following = at.next
        free(at.pulled)
        free(at)
        at = following
