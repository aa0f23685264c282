"""Pop order: pops in order: of each queue a group has at most one batch in the hands of a consumer.

    pop     gives a batch and remembers it (OrderBlock); the offset stays where the batch begins
    ack     marks its message; the offset moves behind what is acknowledged from the start on
    until all are acknowledged, or the invisible time of those that are not is over, the queue is
    blocked; then the next pop begins at the offset: what was not acknowledged comes again, counted

What is below the group's offset was acknowledged, whatever the block says: a master that has the
block from before a failover, or from the file of before a kill, has not heard of each ack.

A pop with the attempt id of the one that got the batch is not blocked: a client that lost the reply
asks again. Kept in consumerOrderInfo.json by the control side, in Apache's form.

Example: offsets 5 6 7 were given, 5 and 7 acknowledged: the offset is 6, the queue blocked; later 6
and 7 come again, each counted once.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.pop.pop_pair cimport PopPair

cdef enum:
    ORDER_MESSAGES_MAX = 32
    ORDER_ILLEGAL = -1          # of order_ack(): not of the batch
    ORDER_OTHER_POP = -2        # of another pop: nothing changes

cdef struct OrderBlock:
    int64_t pop_ms
    int64_t invisible_ms
    int64_t touched_ms          # when it was popped
    int32_t count
    uint32_t acked              # bits
    int64_t offsets[ORDER_MESSAGES_MAX]
    int64_t visible_ms[ORDER_MESSAGES_MAX]      # 0: pop_ms + invisible_ms
    int32_t times[ORDER_MESSAGES_MAX]           # how often it came before
    uint32_t attempt_bytes
    uint8_t attempt[64]

# The queue's block, or NULL.
cdef OrderBlock* order_find(const PopPair* pair, int32_t queue_id) noexcept nogil
# The same, made when it is not there; NULL when memory is out.
cdef OrderBlock* order_obtain(PopPair* pair, int32_t queue_id) noexcept nogil
cdef void order_clear(PopPair* pair, int32_t queue_id) noexcept nogil
# Whether all of it is acknowledged: it blocks nobody, and an ack of it changes nothing.
cdef bint order_is_over(const OrderBlock* block) noexcept nogil
# Whether the queue is blocked for this attempt, and until when by the wall clock at the earliest.
# `committed`: the group's offset in the queue.
cdef bint order_blocks(const OrderBlock* block, int64_t committed, const uint8_t* attempt,
                       uint32_t attempt_bytes, int64_t now_ms, int64_t* until_ms) noexcept nogil
# A new batch; the times of those that were in the last one are counted on.
cdef void order_given(OrderBlock* block, const int64_t* offsets, int32_t count, int64_t pop_ms,
                      int64_t invisible_ms, const uint8_t* attempt,
                      uint32_t attempt_bytes) noexcept nogil
# The offset to go on at, ORDER_ILLEGAL or ORDER_OTHER_POP.
cdef int64_t order_ack(OrderBlock* block, int64_t committed, int64_t offset,
                       int64_t pop_ms) noexcept nogil
# The message of this pop is visible again at another time.
cdef void order_change(OrderBlock* block, int64_t offset, int64_t pop_ms,
                       int64_t visible_ms) noexcept nogil
