"""Pop calls. See pop_calls.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport NOT_FOUND, OK, POOL_EMPTY, TOO_LARGE, raise_status
from cext.flow.context.call_block cimport Block, block_free, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.flow.pop.pop_order cimport (
    ORDER_MESSAGES_MAX,
    OrderBlock,
    order_clear,
    order_is_over,
    order_obtain,
)
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.pop_table cimport pair_find, pair_obtain
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport NameEntry, name_map_find, name_map_next
from cext.wire.text cimport Text

cdef enum:
    HEAD_BYTES = 12


# ---------------------------------------------------------------- pop_orders

cdef struct CopyOrders:
    bint open_only
    # results
    int status
    Block block                 # per queue in order u32 topic bytes, u32 group bytes, i32 queue id,
    #                             topic, group, OrderBlock (native order)


cdef uint64_t orders_of(const PopPair* pair, bint open_only, uint8_t* out) noexcept nogil:
    """Writes the pair's blocks, or, with `out` NULL, only counts their bytes."""
    cdef uint64_t each = HEAD_BYTES + pair.topic.name_length + pair.group_length \
        + sizeof(OrderBlock)
    cdef uint64_t bytes = 0
    cdef uint8_t* at = out
    cdef int32_t i
    for i in range(pair.order_slots):
        if pair.orders[i] == NULL or (open_only
                                      and order_is_over(<OrderBlock*> pair.orders[i])):
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


cdef void copy_orders(PopService s, CopyOrders* x) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t bytes = 0, cursor
    cdef uint8_t* at
    cursor = name_map_next(&s.pops.pairs, 0, &entry)
    while cursor != 0:
        bytes += orders_of(<PopPair*> entry.value, x.open_only, NULL)
        cursor = name_map_next(&s.pops.pairs, cursor, &entry)
    x.status = block_take(&x.block, bytes)
    if x.status != OK:
        return
    at = x.block.bytes
    cursor = name_map_next(&s.pops.pairs, 0, &entry)
    while cursor != 0:
        at += orders_of(<PopPair*> entry.value, x.open_only, at)
        cursor = name_map_next(&s.pops.pairs, cursor, &entry)


cdef list read_orders(const Block* block):
    cdef const char* data = <const char*> block.bytes
    cdef uint64_t at = 0
    cdef uint32_t topic, group
    cdef int32_t queue_id
    cdef list out = []
    while at < block.length:
        memcpy(&topic, data + at, 4)
        memcpy(&group, data + at + 4, 4)
        memcpy(&queue_id, data + at + 8, 4)
        at += HEAD_BYTES
        out.append((data[at:at + topic], data[at + topic:at + topic + group], queue_id,
                    data[at + topic + group:at + topic + group + sizeof(OrderBlock)]))
        at += topic + group + sizeof(OrderBlock)
    return out


# ---------------------------------------------------------------- put_pop_order

cdef struct PutOrder:
    Text topic
    Text group
    int32_t queue_id
    Text block                  # an OrderBlock; empty: removes the queue's
    # results
    int status                  # OK, NOT_FOUND, TOO_LARGE, POOL_EMPTY


cdef void put_order(PopService s, PutOrder* x) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, x.topic.bytes, x.topic.length)
    cdef PopPair* pair
    cdef OrderBlock given
    cdef OrderBlock* block
    x.status = NOT_FOUND
    if topic == NULL:
        return
    if x.block.length == 0:
        x.status = OK
        pair = pair_find(&s.pops, topic, x.group.bytes, x.group.length)
        if pair != NULL:
            order_clear(pair, x.queue_id)
            s.pops.order_version += 1
        return
    x.status = TOO_LARGE
    if x.block.length != sizeof(OrderBlock):
        return
    memcpy(&given, x.block.bytes, sizeof(OrderBlock))
    if given.count < 0 or given.count > ORDER_MESSAGES_MAX \
            or given.attempt_bytes > sizeof(given.attempt):
        return
    x.status = POOL_EMPTY
    pair = pair_obtain(&s.pops, topic, x.group.bytes, x.group.length)
    block = order_obtain(pair, x.queue_id) if pair != NULL else NULL
    if block != NULL:
        block[0] = given
        s.pops.order_version += 1
        x.status = OK


cdef class PopCalls(OffsetCalls):
    @property
    def pop_orders_version(self):
        return self.pops.pops.order_version

    def pop_orders(self, bint open_only=False):
        cdef CopyOrders x
        x.open_only = open_only
        self._call(<CallFn> copy_orders, <void*> self.pops, &x)
        raise_status(x.status, "copy of the orders")
        out = read_orders(&x.block)
        block_free(&x.block)
        return out

    def put_pop_order(self, bytes topic, bytes group, int32_t queue_id, bytes block):
        cdef PutOrder x
        x.topic = borrowed(topic)
        x.group = borrowed(group)
        x.queue_id = queue_id
        x.block = borrowed(block)
        self._call(<CallFn> put_order, <void*> self.pops, &x)
        raise_status(x.status, f"topic {topic!r}")
