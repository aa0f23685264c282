"""What the control thread asks about pops. See pop_calls.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from cext.base.status cimport NOT_FOUND, OK, POOL_EMPTY, TOO_LARGE
from cext.flow.pop.pop_order cimport ORDER_MESSAGES_MAX, OrderBlock, order_obtain
from cext.flow.pop.pop_table cimport pair_obtain
from cext.flow.pull.pull_job cimport PopPair
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport NameEntry, name_map_find, name_map_next

cdef enum:
    HEAD_BYTES = 12


cdef uint64_t orders_of(const PopPair* pair, uint8_t* out) noexcept nogil:
    """Writes the pair's blocks, or with NULL counts their bytes only."""
    cdef uint64_t each = HEAD_BYTES + pair.topic.name_length + pair.group_length \
        + sizeof(OrderBlock)
    cdef uint64_t bytes = 0
    cdef uint8_t* at = out
    cdef int32_t i
    for i in range(pair.order_slots):
        if pair.orders[i] == NULL or pair.topic.removed:
            continue
        bytes += each
        if out == NULL:
            continue
        memcpy(at, &pair.topic.name_length, 4)
        memcpy(at + 4, &pair.group_length, 4)
        memcpy(at + 8, &i, 4)
        at += HEAD_BYTES
        memcpy(at, pair.topic.name, pair.topic.name_length)
        at += pair.topic.name_length
        memcpy(at, pair.group, pair.group_length)
        at += pair.group_length
        memcpy(at, pair.orders[i], sizeof(OrderBlock))
        at += sizeof(OrderBlock)
    return bytes


cdef void call_copy_orders(ShardState s, Arguments* x) noexcept nogil:
    """block: of each queue in order u32 topic bytes, u32 group bytes, i32 queue id, topic, group,
    OrderBlock (native order)."""
    cdef NameEntry* entry
    cdef uint64_t bytes = 0, cursor
    cdef uint8_t* at
    cursor = name_map_next(&s.pops.pairs, 0, &entry)
    while cursor != 0:
        bytes += orders_of(<PopPair*> entry.value, NULL)
        cursor = name_map_next(&s.pops.pairs, cursor, &entry)
    x.block = <uint8_t*> malloc(bytes + 1)
    if x.block == NULL:
        x.status = POOL_EMPTY
        return
    at = x.block
    cursor = name_map_next(&s.pops.pairs, 0, &entry)
    while cursor != 0:
        at += orders_of(<PopPair*> entry.value, at)
        cursor = name_map_next(&s.pops.pairs, cursor, &entry)
    x.block_bytes = bytes
    x.status = OK


cdef void call_put_order(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; b: group; c: an OrderBlock; numbers: queue id."""
    cdef Topic* topic = <Topic*> name_map_find(&s.topics, x.a, x.a_bytes)
    cdef PopPair* pair
    cdef OrderBlock given
    cdef OrderBlock* block
    x.status = NOT_FOUND
    if topic == NULL:
        return
    x.status = TOO_LARGE
    if x.c_bytes != sizeof(OrderBlock):
        return
    memcpy(&given, x.c, sizeof(OrderBlock))
    if given.count < 0 or given.count > ORDER_MESSAGES_MAX \
            or given.attempt_bytes > sizeof(given.attempt):
        return
    x.status = POOL_EMPTY
    pair = pair_obtain(&s.pops, topic, x.b, x.b_bytes)
    block = order_obtain(pair, <int32_t> x.numbers[0]) if pair != NULL else NULL
    if block != NULL:
        block[0] = given
        x.status = OK
