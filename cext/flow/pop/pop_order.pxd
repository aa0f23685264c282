"""Pop order: pops in order: of each queue a group has at most one batch in the hands of a consumer.

    pop     gives a batch and remembers it (OrderBlock); the offset stays where the batch begins
    ack     marks its message; the offset moves behind the acknowledged messages at the beginning
    block   lasts until all messages are acknowledged, or the invisible time of the others is over;
            then the next pop begins at the offset: unacknowledged messages come again, and each
            time is counted

What is below the group's offset was acknowledged, whatever the block says: a master that has its
block from before a failover, or from a file written before a kill, may not know of each ack.

A pop with the attempt id of the pop that got the batch is not blocked: its client lost the reply
and asks again. Control keeps the blocks in consumerOrderInfo.json, in Apache's form.

Example: offsets 5 6 7 were given, 5 and 7 acknowledged: the offset is 6, the queue blocked; later 6
and 7 come again, each counted once.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.pop.pop_pair cimport PopPair

cdef enum:
    ORDER_MESSAGES_MAX = 32
    ORDER_ILLEGAL = -1          # from order_ack(): the message is not of the batch
    ORDER_OTHER_POP = -2        # the batch is of another pop: nothing changes

cdef struct OrderBlock:
    int64_t pop_ms
    int64_t invisible_ms
    int64_t touched_ms          # when it was popped
    int32_t count
    uint32_t acked              # a bit for each acknowledged message
    int64_t offsets[ORDER_MESSAGES_MAX]
    int64_t visible_ms[ORDER_MESSAGES_MAX]      # 0: pop_ms + invisible_ms
    int32_t times[ORDER_MESSAGES_MAX]           # how often it came before
    uint32_t attempt_bytes
    uint8_t attempt[64]

# The queue's block, or NULL.
cdef OrderBlock* order_find(const PopPair* pair, int32_t queue_id) noexcept nogil
# The same, but made when it does not exist; NULL when memory is out.
cdef OrderBlock* order_obtain(PopPair* pair, int32_t queue_id) noexcept nogil
cdef void order_clear(PopPair* pair, int32_t queue_id) noexcept nogil
# Whether all messages are acknowledged: then it blocks nobody, and an ack changes nothing.
cdef bint order_is_over(const OrderBlock* block) noexcept nogil
# Whether the queue is blocked for this attempt; *until_ms: until when at least, by the wall clock.
# `committed`: the group's offset in the queue.
cdef bint order_blocks(const OrderBlock* block, int64_t committed, const uint8_t* attempt,
                       uint32_t attempt_bytes, int64_t now_ms, int64_t* until_ms) noexcept nogil
# Remembers a new batch; the times of messages that were in the last one are counted on.
cdef void order_given(OrderBlock* block, const int64_t* offsets, int32_t count, int64_t pop_ms,
                      int64_t invisible_ms, const uint8_t* attempt,
                      uint32_t attempt_bytes) noexcept nogil
# Acknowledges a message. The offset to go on at, ORDER_ILLEGAL or ORDER_OTHER_POP.
cdef int64_t order_ack(OrderBlock* block, int64_t committed, int64_t offset,
                       int64_t pop_ms) noexcept nogil
# Changes when the message of this pop is visible again.
cdef void order_change(OrderBlock* block, int64_t offset, int64_t pop_ms,
                       int64_t visible_ms) noexcept nogil
