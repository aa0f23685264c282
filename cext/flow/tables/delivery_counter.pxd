"""Delivery counter: what a group was given of one topic, and how far it has pulled each queue.

A counter stands in two lists, its group's and its topic's (delivery_counter_lists.pxd).
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.memory.use_count cimport UseCount

cdef struct DeliveryCounter:
    UseCount use            # by pulls and pops
    void* topic             # Topic*; NULL, like `group`, when group or topic is removed
    void* group             # Group*
    uint64_t messages
    uint64_t bytes
    int32_t slots           # length of `pulled`
    int64_t* pulled         # owned: up to where each queue was pulled; -1: not since the start
    DeliveryCounter* next           # of the group
    DeliveryCounter* next_of_topic

cdef inline void delivery_counter_add(DeliveryCounter* delivered, uint64_t messages,
                                      uint64_t bytes) noexcept nogil:
    if delivered != NULL:
        delivered.messages += messages
        delivered.bytes += bytes

# Makes room for the queue's pull offset; without memory for that, the offset is not kept.
cdef void delivery_counter_grow(DeliveryCounter* delivered, int32_t queue_id) noexcept nogil
# A pull asks from this offset on, or its answer sends it there: what is before was delivered.
cdef inline void delivery_counter_pulled(DeliveryCounter* delivered, int32_t queue_id,
                                         int64_t offset) noexcept nogil:
    if delivered != NULL and queue_id < delivered.slots:
        delivered.pulled[queue_id] = offset

# At the end of a group: frees all its counters.
cdef void delivery_counters_free(DeliveryCounter* at) noexcept nogil
