"""Group calls. See group_calls.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport MALFORMED, OK, raise_status
from cext.flow.context.call_block cimport Block, block_free, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.flow.pop.held_pops cimport wake_all_pops
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.pop_table cimport next_pair_of_group, pair_remove
from cext.flow.tables.delivery_counter cimport DeliveryCounter
from cext.flow.tables.delivery_counter_lists cimport delivery_counters_remove_group
from cext.flow.tables.group_table cimport (
    Group,
    group_find,
    group_put,
    group_put_retries,
    group_remove,
)
from cext.flow.tables.sql_filter cimport SqlFilter, expression_put, sql_filter_make
from cext.flow.tables.subscription_table cimport (
    Subscription,
    subscription_put,
    subscriptions_remove,
)
from cext.flow.tables.tables cimport Tables
from cext.flow.tables.tag_filter cimport CODES_MAX
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport NameEntry, name_map_next
from cext.wire.text cimport Text

cdef enum:
    GROUPS_PER_CALL = 64
    PAIR_FIXED_BYTES = 24


# ---------------------------------------------------------------- put_group, remove_group

cdef struct PutGroup:
    Text name
    bint consume_enable
    bint broadcast_enable
    int64_t broker_id
    int64_t slow_broker_id
    # results
    int status


cdef void put_group(Tables s, PutGroup* x) noexcept nogil:
    x.status = group_put(&s.groups, x.name.bytes, x.name.length, x.consume_enable,
                         x.broadcast_enable, x.broker_id, x.slow_broker_id)


cdef void remove_group(PopService s, const Text* name) noexcept nogil:
    cdef Group* group = group_find(&s.tables.groups, name.bytes, name.length)
    cdef uint64_t cursor = 0
    cdef PopPair* pair = next_pair_of_group(&s.pops, &cursor, name.bytes, name.length)
    while pair != NULL:
        wake_all_pops(s.pull, pair)
        pair_remove(&s.pops, &s.tables.topics, &s.tables.removed, pair)
        pair = next_pair_of_group(&s.pops, &cursor, name.bytes, name.length)
    if group != NULL:
        delivery_counters_remove_group(&s.tables.removed, group)
    group_remove(&s.tables.groups, name.bytes, name.length)
    subscriptions_remove(&s.tables.subscriptions, name.bytes, name.length)


# ---------------------------------------------------------------- put_retries

cdef struct PutRetries:
    Text group
    int32_t queues              # of the retry topic
    int32_t times_max
    Text levels                 # a delay level per retry, a byte each
    # results
    int status


cdef void put_retries(Tables s, PutRetries* x) noexcept nogil:
    x.status = group_put_retries(&s.groups, x.group.bytes, x.group.length, x.queues, x.times_max,
                                 x.levels.bytes, <int32_t> x.levels.length)


# ---------------------------------------------------------------- lock_group

cdef struct LockGroup:
    Text group
    int64_t ms


cdef void lock_group(Tables s, LockGroup* x) noexcept nogil:
    cdef Group* group = group_find(&s.groups, x.group.bytes, x.group.length)
    if group != NULL:
        group.locked_until_ms = s.turn.now_ms + x.ms


# ---------------------------------------------------------------- subscriptions, expressions

cdef struct PutSubscription:
    Text group
    Text topic
    Text program                # SQL92; empty: none
    int32_t function
    Subscription subscription   # without its program
    # results
    int status


cdef void put_subscription(Tables s, PutSubscription* x) noexcept nogil:
    x.subscription.sql = NULL
    if x.program.length > 0:
        x.subscription.sql = sql_filter_make(x.program.bytes, x.program.length, x.function)
        if x.subscription.sql == NULL:
            x.status = MALFORMED
            return
    x.status = subscription_put(&s.subscriptions, x.group.bytes, x.group.length, x.topic.bytes,
                                x.topic.length, &x.subscription)


cdef void remove_subscriptions(Tables s, const Text* group) noexcept nogil:
    subscriptions_remove(&s.subscriptions, group.bytes, group.length)


cdef struct PutExpression:
    Text text                   # as pulls bring it along
    Text program
    int32_t function
    # results
    int status


cdef void put_expression(Tables s, PutExpression* x) noexcept nogil:
    cdef SqlFilter* filter = sql_filter_make(x.program.bytes, x.program.length, x.function)
    x.status = MALFORMED
    if filter != NULL:
        x.status = expression_put(&s.expressions, x.text.bytes, x.text.length, filter)


# ---------------------------------------------------------------- delivered

cdef struct CopyDeliveryCounters:
    uint64_t cursor             # 0 at first; result: where to go on, 0 at the end
    # results
    int status
    Block block                 # per pair u32 group bytes, u32 topic bytes, u64 messages, u64
    #                             bytes, group, topic; only pairs that have messages


cdef uint64_t pairs_bytes(const NameEntry* entry) noexcept nogil:
    cdef const DeliveryCounter* at = (<Group*> entry.value).delivered
    cdef uint64_t bytes = 0
    while at != NULL:
        if at.messages > 0:
            bytes += PAIR_FIXED_BYTES + entry.length + (<Topic*> at.topic).name_length
        at = at.next
    return bytes


cdef uint8_t* copy_pairs(uint8_t* out, const NameEntry* entry) noexcept nogil:
    cdef const DeliveryCounter* at = (<Group*> entry.value).delivered
    cdef const Topic* topic
    while at != NULL:
        if at.messages > 0:
            topic = <Topic*> at.topic
            memcpy(out, &entry.length, 4)
            memcpy(out + 4, &topic.name_length, 4)
            memcpy(out + 8, &at.messages, 8)
            memcpy(out + 16, &at.bytes, 8)
            memcpy(out + PAIR_FIXED_BYTES, entry.name, entry.length)
            out += PAIR_FIXED_BYTES + entry.length
            memcpy(out, topic.name, topic.name_length)
            out += topic.name_length
        at = at.next
    return out


cdef void copy_delivery_counters(Tables s, CopyDeliveryCounters* x) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t start = x.cursor, cursor, bytes = 0
    cdef uint8_t* at
    cdef int _i, count = 0
    cursor = name_map_next(&s.groups.names, start, &entry)
    while cursor != 0 and count < GROUPS_PER_CALL:
        bytes += pairs_bytes(entry)
        count += 1
        cursor = name_map_next(&s.groups.names, cursor, &entry)
    x.status = block_take(&x.block, bytes)
    if x.status != OK:
        return
    at = x.block.bytes
    x.cursor = 0
    cursor = start
    for _i in range(count):
        cursor = name_map_next(&s.groups.names, cursor, &entry)
        at = copy_pairs(at, entry)
        x.cursor = cursor


cdef int read_delivery_counters(const Block* block, dict out) except -1:
    """Adds what the block holds to delivered()'s result."""
    cdef const uint8_t* at = block.bytes
    cdef const uint8_t* end = at + block.length
    cdef uint32_t group_bytes, topic_bytes
    cdef uint64_t counts[2]
    while at < end:
        memcpy(&group_bytes, at, 4)
        memcpy(&topic_bytes, at + 4, 4)
        memcpy(counts, at + 8, 16)
        names = (<const char*> at)[PAIR_FIXED_BYTES:PAIR_FIXED_BYTES + group_bytes + topic_bytes]
        out[names[:group_bytes], names[group_bytes:]] = (counts[0], counts[1])
        at += PAIR_FIXED_BYTES + group_bytes + topic_bytes
    return 0


cdef class GroupCalls(QueueCalls):
    def put_group(self, bytes name, int32_t consume_enable, int32_t broadcast_enable,
                  int64_t broker_id=0, int64_t slow_broker_id=1):
        cdef PutGroup x
        x.name = borrowed(name)
        x.consume_enable = consume_enable != 0
        x.broadcast_enable = broadcast_enable != 0
        x.broker_id = broker_id
        x.slow_broker_id = slow_broker_id
        self._call(<CallFn> put_group, <void*> self.tables, &x)
        raise_status(x.status, f"group {name!r}")

    def put_retries(self, bytes group, int32_t queues, int32_t times_max, bytes levels):
        cdef PutRetries x
        x.group = borrowed(group)
        x.queues = queues
        x.times_max = times_max
        x.levels = borrowed(levels)
        self._call(<CallFn> put_retries, <void*> self.tables, &x)
        raise_status(x.status, f"group {group!r}")

    def lock_group(self, bytes group, int64_t ms):
        cdef LockGroup x
        x.group = borrowed(group)
        x.ms = ms
        self._call(<CallFn> lock_group, <void*> self.tables, &x)

    def remove_group(self, bytes name):
        cdef Text x = borrowed(name)
        self._call(<CallFn> remove_group, <void*> self.pops, &x)

    def put_subscription(self, bytes group, bytes topic, int64_t sub_version, codes,
                         int32_t broadcasting, bytes program=b"", int32_t function=0):
        cdef PutSubscription x
        cdef Subscription* subscription = &x.subscription
        cdef int i
        x.group = borrowed(group)
        x.topic = borrowed(topic)
        x.program = borrowed(program)
        x.function = function
        subscription.version = sub_version
        subscription.broadcasting = broadcasting != 0
        subscription.filter.all = codes is None or len(codes) > CODES_MAX
        subscription.filter.count = 0
        if not subscription.filter.all:
            subscription.filter.count = len(codes)
            for i, code in enumerate(codes):
                subscription.filter.codes[i] = code
        self._call(<CallFn> put_subscription, <void*> self.tables, &x)
        raise_status(x.status, f"group {group!r}")

    def put_expression(self, bytes text, bytes program, int32_t function=0):
        cdef PutExpression x
        x.text = borrowed(text)
        x.program = borrowed(program)
        x.function = function
        self._call(<CallFn> put_expression, <void*> self.tables, &x)
        raise_status(x.status, "SQL92 program")

    def remove_subscriptions(self, bytes group):
        cdef Text x = borrowed(group)
        self._call(<CallFn> remove_subscriptions, <void*> self.tables, &x)

    def deliveries(self):
        cdef CopyDeliveryCounters x
        cdef dict out = {}
        x.cursor = 0
        while True:
            self._call(<CallFn> copy_delivery_counters, <void*> self.tables, &x)
            raise_status(x.status, "copy of the counters")
            read_delivery_counters(&x.block, out)
            block_free(&x.block)
            if x.cursor == 0:
                return out
