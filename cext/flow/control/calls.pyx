"""What the control thread may have the reactor do. See calls.pxd."""
from libc.stdlib cimport calloc, malloc
from libc.string cimport memchr, memcpy, memset

from cext.base.status cimport MALFORMED, NOT_FOUND, OK, POOL_EMPTY
from cext.flow.log.append cimport Appended, Message, append_message, make_room, record_bytes_max
from cext.flow.log.dispatch cimport write_and_dispatch
from cext.flow.control.handed cimport handed_find, handed_pull
from cext.flow.tables.group_table cimport (
    Handed,
    Group,
    group_find,
    group_put,
    group_put_retries,
    group_remove,
    subscription_put,
    subscriptions_remove,
)
from cext.flow.pull.held_pulls cimport wake_all, wake_all_pops
from cext.flow.tables.offset_table cimport (
    GroupOffsets,
    offset_commit,
    offset_query,
    offset_reset,
    offsets_remove,
)
from cext.flow.send.open_halves cimport half_end, half_is_ended
from cext.flow.delay.schedule cimport schedule_open
from cext.flow.shard_state cimport TEXT_MAX
from cext.flow.tables.sql_filter cimport SqlFilter, expression_put, sql_filter_make
from cext.flow.tables.topic_table cimport Topic, topic_put, topic_queue, topic_remove
from cext.flow.send.transaction cimport end_half
from cext.memory.name_map cimport NameEntry, name_map_find, name_map_next
from cext.store.consume_queue cimport (
    UNIT_BYTES,
    Queue,
    queue_copy_units,
    queue_memory_offset,
)
from cext.wire.system_topics cimport HALF_TOPIC, HALF_TOPIC_BYTES
from cext.wire.text cimport text_of

cdef enum:
    QUEUE_ID_MAX = 0x7fffffff
    LOOKS_MAX = 65536               # half messages looked at in one call


cdef Queue* find_queue(ShardState s, Arguments* x) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.topics, x.a, x.a_bytes)
    if topic == NULL:
        return NULL
    return topic_queue(topic, s.queues, <int32_t> x.numbers[0])


cdef void call_put_topic(ShardState s, Arguments* x) noexcept nogil:
    """a: name; numbers: read queues, write queues, permission, order."""
    cdef Topic* topic = topic_put(&s.topics, x.a, x.a_bytes, <int32_t> x.numbers[0],
                                  <int32_t> x.numbers[1], <int32_t> x.numbers[2],
                                  x.numbers[3] != 0)
    x.status = OK if topic != NULL else POOL_EMPTY


cdef void forget_topic(ShardState s, const Topic* topic) noexcept nogil:
    """What is in the store pool of a topic that goes is not dispatched any more."""
    cdef int32_t i
    for i in range(s.dispatch_first, s.dispatch_count):
        if s.dispatches[i].topic == topic:
            s.dispatches[i].queue = NULL


cdef void call_remove_topic(ShardState s, Arguments* x) noexcept nogil:
    """a: name; results[0]: end of the log that holds all its messages. Held pulls are answered
    TOPIC_NOT_EXIST; queue files go, the log stays."""
    cdef Topic* topic
    cdef int32_t i
    write_and_dispatch(s)               # no dispatch entry may point to a queue that goes away
    x.results[0] = s.log.marks.appended
    forget_topic(s, <Topic*> name_map_find(&s.topics, x.a, x.a_bytes))
    topic = topic_remove(&s.topics, x.a, x.a_bytes)
    x.status = OK if topic != NULL else NOT_FOUND
    if topic == NULL:
        return
    wake_all_pops(s, topic)
    for i in range(topic.queue_slots):
        if topic.queues[i] != NULL:
            wake_all(s, topic.queues[i])
            topic.queues[i] = NULL
    s.queues.delete_topic(<const char*> topic.name, topic.name_length)


cdef void call_put_group(ShardState s, Arguments* x) noexcept nogil:
    """a: name; numbers: consume enable, broadcast enable."""
    x.status = group_put(&s.groups, x.a, x.a_bytes, x.numbers[0] != 0, x.numbers[1] != 0)


cdef void call_put_retries(ShardState s, Arguments* x) noexcept nogil:
    """a: group; numbers: retry queues, most retries; b: a delay level per retry, a byte each."""
    x.status = group_put_retries(&s.groups, x.a, x.a_bytes, <int32_t> x.numbers[0],
                                 <int32_t> x.numbers[1], x.b, <int32_t> x.b_bytes)


cdef void call_lock_group(ShardState s, Arguments* x) noexcept nogil:
    """a: group; numbers: for how many ms its clients hold locks of queues."""
    cdef Group* group = group_find(&s.groups, x.a, x.a_bytes)
    x.status = OK if group != NULL else NOT_FOUND
    if group != NULL:
        group.locked_until_ms = s.now_ms + x.numbers[0]


cdef void call_remove_group(ShardState s, Arguments* x) noexcept nogil:
    group_remove(&s.groups, x.a, x.a_bytes)
    subscriptions_remove(&s.groups, x.a, x.a_bytes)
    x.status = OK


cdef void call_put_subscription(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; b: group; subscription; c: SQL92 program or nothing; numbers: its function."""
    x.subscription.sql = NULL
    if x.c_bytes > 0:
        x.subscription.sql = sql_filter_make(x.c, x.c_bytes, <int32_t> x.numbers[0])
        if x.subscription.sql == NULL:
            x.status = MALFORMED
            return
    x.status = subscription_put(&s.groups, x.b, x.b_bytes, x.a, x.a_bytes, x.subscription)


cdef void call_put_expression(ShardState s, Arguments* x) noexcept nogil:
    """a: expression as pulls bring it; c: SQL92 program; numbers: its function."""
    cdef SqlFilter* filter = sql_filter_make(x.c, x.c_bytes, <int32_t> x.numbers[0])
    x.status = MALFORMED
    if filter != NULL:
        x.status = expression_put(&s.expressions, x.a, x.a_bytes, filter)


cdef void call_remove_subscriptions(ShardState s, Arguments* x) noexcept nogil:
    """b: group."""
    subscriptions_remove(&s.groups, x.b, x.b_bytes)
    x.status = OK


cdef void call_commit_offset(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; b: group; numbers: queue id, offset."""
    x.status = offset_commit(&s.offsets, x.a, x.a_bytes, x.b, x.b_bytes, <int32_t> x.numbers[0],
                             x.numbers[1])


cdef void call_reset_offset(ShardState s, Arguments* x) noexcept nogil:
    """As call_commit_offset; pulls that are held go back, so that the group's next one, which is
    told to go there, comes at once."""
    cdef Queue* queue
    x.status = offset_reset(&s.offsets, x.a, x.a_bytes, x.b, x.b_bytes, <int32_t> x.numbers[0],
                            x.numbers[1])
    queue = find_queue(s, x)
    if x.status == OK and queue != NULL:
        wake_all(s, queue)
    handed_pull(handed_find(s, x.a, x.a_bytes, x.b, x.b_bytes), <int32_t> x.numbers[0], -1)


cdef void call_query_offset(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; b: group; numbers: queue id. results: offset or -1."""
    x.results[0] = offset_query(&s.offsets, x.a, x.a_bytes, x.b, x.b_bytes,
                                <int32_t> x.numbers[0])
    x.status = OK


cdef void copy_pulled(ShardState s, const NameEntry* pair, int32_t slots,
                      uint8_t* out) noexcept nogil:
    """What topic@group has pulled, as many queues as it has committed."""
    cdef const uint8_t* at = <const uint8_t*> memchr(pair.name, c'@', pair.length)
    cdef uint32_t before = <uint32_t> (at - pair.name)
    cdef const Handed* handed = handed_find(s, pair.name, before, at + 1,
                                            pair.length - before - 1)
    memset(out, 0xFF, 8 * <uint64_t> slots)
    if handed != NULL and handed.slots > 0:
        memcpy(out, handed.pulled, 8 * <uint64_t> min(slots, handed.slots))


cdef void call_copy_offsets(ShardState s, Arguments* x) noexcept nogil:
    """block: per entry u32 name bytes, u32 slots, name, slots * i64 (native order). numbers[0]:
    0 what is committed, 1 up to where was pulled, 2 resets that no pull has been told of."""
    cdef NameEntry* entry
    cdef GroupOffsets* offsets
    cdef uint64_t bytes = 0, cursor
    cdef int64_t none = -1
    cdef int32_t i
    cdef uint8_t* at
    cursor = name_map_next(&s.offsets.names, 0, &entry)
    while cursor != 0:
        offsets = <GroupOffsets*> entry.value
        bytes += 8 + entry.length + 8 * <uint64_t> offsets.slots
        cursor = name_map_next(&s.offsets.names, cursor, &entry)
    x.block = <uint8_t*> malloc(bytes + 1)
    if x.block == NULL:
        x.status = POOL_EMPTY
        return
    at = x.block
    cursor = name_map_next(&s.offsets.names, 0, &entry)
    while cursor != 0:
        offsets = <GroupOffsets*> entry.value
        memcpy(at, &entry.length, 4)
        memcpy(at + 4, &offsets.slots, 4)
        memcpy(at + 8, entry.name, entry.length)
        memcpy(at + 8 + entry.length, offsets.offsets, 8 * <uint64_t> offsets.slots)
        if x.numbers[0] == 1:
            copy_pulled(s, entry, offsets.slots, at + 8 + entry.length)
        for i in range(offsets.slots if x.numbers[0] == 2 else 0):
            if not offsets.resets[i]:
                memcpy(at + 8 + entry.length + 8 * <uint64_t> i, &none, 8)
        at += 8 + entry.length + 8 * <uint64_t> offsets.slots
        cursor = name_map_next(&s.offsets.names, cursor, &entry)
    x.block_bytes = bytes
    x.results[0] = <int64_t> s.offsets.version
    x.status = OK


cdef void call_remove_offsets(ShardState s, Arguments* x) noexcept nogil:
    """a: topic or empty; b: group or empty."""
    offsets_remove(&s.offsets, x.a, x.a_bytes, x.b, x.b_bytes)
    x.status = OK


cdef void call_queue_range(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; numbers: queue id. results: min offset, max offset."""
    cdef Queue* queue = find_queue(s, x)
    x.status = OK if queue != NULL else NOT_FOUND
    if queue != NULL:
        x.results[0] = queue.min_offset
        x.results[1] = queue.max_offset


cdef void call_queue_ranges(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; numbers: first queue id, count. block: min and max offset of each as i64, two zeros
    of one that holds nothing yet, which is not made for that."""
    cdef Topic* topic = <Topic*> name_map_find(&s.topics, x.a, x.a_bytes)
    cdef int64_t first = x.numbers[0], count = x.numbers[1], i
    cdef Queue* queue
    if topic == NULL or count < 0 or count > RANGES_MAX:
        x.status = NOT_FOUND
        return
    if first < 0 or first > QUEUE_ID_MAX - count:
        x.status = NOT_FOUND
        return
    x.block = <uint8_t*> calloc(count + 1, 16)
    if x.block == NULL:
        x.status = POOL_EMPTY
        return
    for i in range(first, first + count):
        queue = topic.queues[i] if i < topic.queue_slots else NULL
        if queue == NULL:
            queue = s.queues.find_queue(<const char*> topic.name, topic.name_length, <int32_t> i)
        if queue != NULL:
            memcpy(x.block + 16 * (i - first), &queue.min_offset, 8)
            memcpy(x.block + 16 * (i - first) + 8, &queue.max_offset, 8)
    x.block_bytes = 16 * count
    x.status = OK


cdef void call_queue_snapshot(ShardState s, Arguments* x) noexcept nogil:
    """As queue_range; results[2]: first offset in memory; block: the units from there on."""
    cdef Queue* queue = find_queue(s, x)
    cdef int64_t first, count
    if queue == NULL:
        x.status = NOT_FOUND
        return
    first = queue_memory_offset(queue)
    if first < queue.min_offset:
        first = queue.min_offset
    count = queue.max_offset - first
    x.block = <uint8_t*> malloc(count * UNIT_BYTES + 1)
    if x.block == NULL:
        x.status = POOL_EMPTY
        return
    if count > 0:
        queue_copy_units(queue, first, count, x.block)
    x.block_bytes = count * UNIT_BYTES
    x.results[0] = queue.min_offset
    x.results[1] = queue.max_offset
    x.results[2] = first
    x.status = OK


cdef void call_topic_stats(ShardState s, Arguments* x) noexcept nogil:
    """a: topic. results: messages in, bytes in, messages out, bytes out."""
    cdef Topic* topic = <Topic*> name_map_find(&s.topics, x.a, x.a_bytes)
    x.status = OK if topic != NULL else NOT_FOUND
    if topic != NULL:
        x.results[0] = <int64_t> topic.messages_in
        x.results[1] = <int64_t> topic.bytes_in
        x.results[2] = <int64_t> topic.messages_out
        x.results[3] = <int64_t> topic.bytes_out


cdef void call_append(ShardState s, Arguments* x) noexcept nogil:
    """a: topic; b: born host; c: body; d: properties (plain form).

    numbers: queue id, flag, sys flag, born ms, reconsume times, prepared offset, tags code,
    whether that tags code is to be used. results: physical offset, queue offset. The record is
    written (not synced) when the call returns.
    """
    cdef Topic* topic = <Topic*> name_map_find(&s.topics, x.a, x.a_bytes)
    cdef Queue* queue = find_queue(s, x)
    cdef Message m
    cdef Appended appended
    x.status = NOT_FOUND
    if topic == NULL or queue == NULL:
        return
    if x.b_bytes != 8 and x.b_bytes != 20:
        x.status = MALFORMED
        return
    m.body = x.c
    m.body_bytes = x.c_bytes
    m.properties = text_of(x.d, x.d_bytes)
    m.flag = <int32_t> x.numbers[1]
    m.sys_flag = <int32_t> x.numbers[2]
    m.born_timestamp_ms = x.numbers[3]
    m.reconsume_times = <int32_t> x.numbers[4]
    m.prepared_offset = x.numbers[5]
    m.tags_code = x.numbers[6]
    m.own_tags_code = x.numbers[7] != 0
    m.born_host = x.b
    m.born_host_bytes = x.b_bytes
    m.plain_only = False
    m.add_properties = False
    m.stored = True
    m.spare = 0
    x.status = make_room(s, queue, record_bytes_max(&m, topic.name_length), 1)
    if x.status == OK:
        x.status = append_message(s, topic, queue, &m, &appended)
    if x.status == OK:
        x.status = write_and_dispatch(s)
        x.results[0] = appended.physical_offset
        x.results[1] = appended.queue_offset


cdef void call_is_in_memory(ShardState s, Arguments* x) noexcept nogil:
    """numbers: physical offset, size. results[0]: 1 when it can be read without the disk."""
    cdef const uint8_t* at
    x.results[0] = s.log.view(x.numbers[0], <uint32_t> x.numbers[1], &at) == OK
    x.status = OK


cdef void call_set_writable(ShardState s, Arguments* x) noexcept nogil:
    """numbers: flag; a: the reason that refused sends get."""
    cdef uint32_t length = x.a_bytes if x.a_bytes < TEXT_MAX - 1 else TEXT_MAX - 1
    s.writable = x.numbers[0] != 0
    memcpy(s.refuse_reason, x.a, length)
    s.refuse_reason_bytes = length
    x.status = OK


cdef void call_set_delay_levels(ShardState s, Arguments* x) noexcept nogil:
    """numbers: count; a: that many i64 delays in ms (native order); b: offsets to go on from."""
    x.status = schedule_open(s, <const int64_t*> x.a, <const int64_t*> x.b,
                             <int32_t> x.numbers[0])


cdef void call_delay_offsets(ShardState s, Arguments* x) noexcept nogil:
    """block: per level the i64 offset of the first message not delivered; results[0]: end of the
    log that holds all that was delivered. numbers: whether delivery ends here."""
    cdef int32_t i
    x.block = <uint8_t*> malloc(8 * s.schedule.count + 1)
    if x.block == NULL:
        x.status = POOL_EMPTY
        return
    for i in range(s.schedule.count):
        memcpy(x.block + 8 * i, &s.schedule.levels[i].next_offset, 8)
    x.block_bytes = 8 * s.schedule.count
    x.results[0] = s.log.marks.appended
    if x.numbers[0] != 0:
        s.schedule.count = 0
    x.status = OK


cdef void call_start_transactions(ShardState s, Arguments* x) noexcept nogil:
    """numbers: offset of the half queue that everything open is at or above; whether transactions
    are served from now on (control has marked what was ended)."""
    if x.numbers[1] == 0:
        s.halves.first = x.numbers[0]
    s.halves.started = x.numbers[1] != 0
    x.status = OK


cdef void call_end_halves(ShardState s, Arguments* x) noexcept nogil:
    """a: that many (numbers[0]) i64 offsets of the half queue (native order); numbers[1]: whether
    an op message is to say so. results[0]: how many of them were open and are ended now."""
    cdef const int64_t* offsets = <const int64_t*> x.a
    cdef int64_t i
    x.status = OK
    for i in range(x.numbers[0]):
        if half_is_ended(&s.halves, offsets[i]):
            continue
        if x.numbers[1] == 0:
            half_end(&s.halves, offsets[i])
        elif end_half(s, offsets[i]) != OK:
            break
        x.results[0] += 1


cdef void call_open_halves(ShardState s, Arguments* x) noexcept nogil:
    """numbers: offset to begin at, most offsets wanted. block: offsets of open halves; results:
    everything below is ended; where to go on."""
    cdef Topic* topic = <Topic*> name_map_find(&s.topics, <const uint8_t*> HALF_TOPIC,
                                               HALF_TOPIC_BYTES)
    cdef Queue* queue = topic_queue(topic, s.queues, 0) if topic != NULL else NULL
    cdef int64_t offset = x.numbers[0]
    cdef int64_t count = 0, looks = 0
    x.status = NOT_FOUND
    if queue == NULL or x.numbers[1] <= 0 or x.numbers[1] > 65536:
        return
    x.block = <uint8_t*> malloc(8 * x.numbers[1])
    x.status = OK if x.block != NULL else POOL_EMPTY
    if x.block == NULL:
        return
    if offset < s.halves.first:
        offset = s.halves.first
    while offset < queue.max_offset and count < x.numbers[1] and looks < LOOKS_MAX:
        if not half_is_ended(&s.halves, offset):
            memcpy(x.block + 8 * count, &offset, 8)
            count += 1
        offset += 1
        looks += 1
    x.block_bytes = 8 * count
    x.results[0] = s.halves.first
    x.results[1] = offset


cdef void call_drop_segment(ShardState s, Arguments* x) noexcept nogil:
    """Drops the oldest segment, never the last one; results[0]: the log's new first offset."""
    x.status = s.log.drop_first_segment()
    if x.status == OK:
        s.queues.drop_below(s.log.min_offset())
    x.results[0] = s.log.min_offset()
