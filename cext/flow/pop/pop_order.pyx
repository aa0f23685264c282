"""Pops in order. See pop_order.pxd."""
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

from cext.wire.limits cimport TOPIC_QUEUES_MAX


cdef OrderBlock* order_find(const PopPair* pair, int32_t queue_id) noexcept nogil:
    if queue_id < 0 or queue_id >= pair.order_slots:
        return NULL
    return <OrderBlock*> pair.orders[queue_id]


cdef OrderBlock* order_obtain(PopPair* pair, int32_t queue_id) noexcept nogil:
    cdef int32_t slots = 8
    cdef void** orders
    if queue_id < 0 or queue_id >= TOPIC_QUEUES_MAX:
        return NULL
    if queue_id >= pair.order_slots:
        while slots <= queue_id:
            slots *= 2
        orders = <void**> realloc(pair.orders, slots * sizeof(void*))
        if orders == NULL:
            return NULL
        memset(orders + pair.order_slots, 0, (slots - pair.order_slots) * sizeof(void*))
        pair.orders = orders
        pair.order_slots = slots
    if pair.orders[queue_id] == NULL:
        pair.orders[queue_id] = calloc(1, sizeof(OrderBlock))
    return <OrderBlock*> pair.orders[queue_id]


cdef void order_clear(PopPair* pair, int32_t queue_id) noexcept nogil:
    cdef OrderBlock* block = order_find(pair, queue_id)
    if block != NULL:
        free(block)
        pair.orders[queue_id] = NULL


cdef bint order_is_over(const OrderBlock* block) noexcept nogil:
    return block.acked == (<uint64_t> 1 << block.count) - 1


cdef inline int64_t visible_at(const OrderBlock* block, int32_t i) noexcept nogil:
    return block.visible_ms[i] if block.visible_ms[i] > 0 else block.pop_ms + block.invisible_ms


cdef inline bint same_attempt(const OrderBlock* block, const uint8_t* attempt,
                              uint32_t attempt_bytes) noexcept nogil:
    return (attempt_bytes > 0 and block.attempt_bytes == attempt_bytes
            and memcmp(block.attempt, attempt, attempt_bytes) == 0)


cdef inline bint is_open(const OrderBlock* block, int64_t committed, int32_t i) noexcept nogil:
    return block.offsets[i] >= committed and not block.acked >> i & 1


cdef bint order_blocks(const OrderBlock* block, int64_t committed, const uint8_t* attempt,
                       uint32_t attempt_bytes, int64_t now_ms, int64_t* until_ms) noexcept nogil:
    """Blocked as long as a message is both unacknowledged and invisible."""
    cdef int64_t until = 0
    cdef int32_t i
    if block == NULL or block.count == 0 or same_attempt(block, attempt, attempt_bytes):
        return False
    for i in range(block.count):
        if is_open(block, committed, i) and visible_at(block, i) > until:
            until = visible_at(block, i)
    until_ms[0] = until
    return now_ms < until


cdef int32_t times_before(const OrderBlock* block, int64_t offset) noexcept nogil:
    cdef int32_t i
    for i in range(block.count):
        if block.offsets[i] == offset:
            return block.times[i] + 1
    return 0


cdef void order_given(OrderBlock* block, const int64_t* offsets, int32_t count, int64_t pop_ms,
                      int64_t invisible_ms, const uint8_t* attempt,
                      uint32_t attempt_bytes) noexcept nogil:
    cdef int32_t times[ORDER_MESSAGES_MAX]
    cdef bint again = same_attempt(block, attempt, attempt_bytes)
    cdef int32_t i
    for i in range(count):
        times[i] = times_before(block, offsets[i])
        if again and times[i] > 0:
            times[i] -= 1               # the same delivery, asked for a second time
    block.pop_ms = block.touched_ms = pop_ms
    block.invisible_ms = invisible_ms
    block.count = count
    block.acked = 0
    memset(block.visible_ms, 0, sizeof(block.visible_ms))
    memcpy(block.offsets, offsets, count * sizeof(int64_t))
    memcpy(block.times, times, count * sizeof(int32_t))
    block.attempt_bytes = attempt_bytes
    memcpy(block.attempt, attempt, attempt_bytes)


cdef int64_t order_ack(OrderBlock* block, int64_t committed, int64_t offset,
                       int64_t pop_ms) noexcept nogil:
    cdef int32_t i
    if block.count == 0:
        return ORDER_ILLEGAL
    if block.pop_ms != pop_ms:
        return ORDER_OTHER_POP
    for i in range(block.count):
        if block.offsets[i] == offset:
            break
    else:
        return ORDER_ILLEGAL
    block.acked |= <uint32_t> 1 << i
    for i in range(block.count):
        if is_open(block, committed, i):
            return block.offsets[i]
    return block.offsets[block.count - 1] + 1


cdef void order_change(OrderBlock* block, int64_t offset, int64_t pop_ms,
                       int64_t visible_ms) noexcept nogil:
    cdef int32_t i
    if block.pop_ms != pop_ms:
        return
    for i in range(block.count):
        if block.offsets[i] == offset:
            block.visible_ms[i] = visible_ms
