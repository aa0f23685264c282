"""What the control thread may have the reactor do between two turns: one C function per call.

The tables belong to the reactor. The control thread fills an Arguments on its stack, passes it with
the function through the control link and sleeps until the reactor has run it (a turn at most).
Each function reads the inputs it documents and leaves `status` (a Status or a count) and results.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.tables.group_table cimport Subscription
from cext.flow.shard_state cimport ShardState

cdef enum:
    RANGES_MAX = 1024           # queues that call_queue_ranges looks at

cdef struct Arguments:
    const uint8_t* a            # borrowed; a name, mostly a topic
    uint32_t a_bytes
    const uint8_t* b            # borrowed; mostly a group
    uint32_t b_bytes
    const uint8_t* c            # borrowed; append: body
    uint32_t c_bytes
    const uint8_t* d            # borrowed; append: properties
    uint32_t d_bytes
    int64_t numbers[8]
    Subscription* subscription  # borrowed
    int64_t status
    int64_t results[4]
    uint8_t* block              # result, malloc'd by the call, freed by the caller
    uint64_t block_bytes

cdef void call_put_topic(ShardState s, Arguments* x) noexcept nogil
cdef void call_remove_topic(ShardState s, Arguments* x) noexcept nogil
cdef void call_put_group(ShardState s, Arguments* x) noexcept nogil
cdef void call_put_retries(ShardState s, Arguments* x) noexcept nogil
cdef void call_lock_group(ShardState s, Arguments* x) noexcept nogil
cdef void call_remove_group(ShardState s, Arguments* x) noexcept nogil
cdef void call_put_subscription(ShardState s, Arguments* x) noexcept nogil
cdef void call_put_expression(ShardState s, Arguments* x) noexcept nogil
cdef void call_remove_subscriptions(ShardState s, Arguments* x) noexcept nogil
cdef void call_commit_offset(ShardState s, Arguments* x) noexcept nogil
cdef void call_reset_offset(ShardState s, Arguments* x) noexcept nogil
cdef void call_query_offset(ShardState s, Arguments* x) noexcept nogil
cdef void call_copy_offsets(ShardState s, Arguments* x) noexcept nogil
cdef void call_remove_offsets(ShardState s, Arguments* x) noexcept nogil
cdef void call_queue_range(ShardState s, Arguments* x) noexcept nogil
cdef void call_queue_ranges(ShardState s, Arguments* x) noexcept nogil
cdef void call_queue_snapshot(ShardState s, Arguments* x) noexcept nogil
cdef void call_topic_stats(ShardState s, Arguments* x) noexcept nogil
cdef void call_append(ShardState s, Arguments* x) noexcept nogil
cdef void call_is_in_memory(ShardState s, Arguments* x) noexcept nogil
cdef void call_set_writable(ShardState s, Arguments* x) noexcept nogil
cdef void call_set_delay_levels(ShardState s, Arguments* x) noexcept nogil
cdef void call_delay_offsets(ShardState s, Arguments* x) noexcept nogil
cdef void call_start_transactions(ShardState s, Arguments* x) noexcept nogil
cdef void call_end_halves(ShardState s, Arguments* x) noexcept nogil
cdef void call_open_halves(ShardState s, Arguments* x) noexcept nogil
cdef void call_drop_segment(ShardState s, Arguments* x) noexcept nogil
