"""Pop batch. See pop_batch.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from cext.base.byteorder cimport load_i32, load_i64
from cext.base.decimal cimport put_decimal, put_decimal_behind
from cext.base.status cimport OK
from cext.flow.pop.pop_inflight cimport inflight_add
from cext.flow.pop.pop_job cimport POP
from cext.flow.pop.pop_offset cimport pop_move
from cext.flow.pop.pop_order cimport OrderBlock, order_given, order_obtain
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_table cimport pair_obtain
from cext.flow.pop.popped_messages cimport MESSAGES_MAX, note, note_next, note_order
from cext.flow.pop.revive_log cimport append_check_point
from cext.memory.buffer_pool cimport buffer_pool_take
from cext.store.log.record cimport (
    RecordFields,
    RecordView,
    fields_of_record,
    record_finish,
    record_parse,
    record_start,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.properties cimport PROPERTY_SEPARATOR, append_property
from cext.wire.revive_entry cimport ReviveEntry
from cext.wire.text cimport text_of

cdef enum:
    EXTRA_INFO_BYTES_MAX = 512      # seven numbers, and a broker name of TEXT_MAX


cdef int32_t fitting(PopService s, Popped* p, const Found* found) noexcept nogil:
    """How many records of the retry topic still fit into the buffer for copies."""
    cdef uint64_t bytes = p.copied
    cdef int32_t i
    if p.copies == NULL:
        p.copies = <uint8_t*> buffer_pool_take(&s.turn.net.jumbo_pool)
    if p.copies == NULL:
        return 0
    for i in range(found.count):
        bytes += found.sizes[i] + REWRITE_ADDS_MAX
        if bytes > s.turn.net.jumbo_bytes:
            return i
    return found.count


cdef bint remember(PopService s, PopJob* job, Popped* p, Topic* topic, int32_t queue_id,
                   int64_t start, const int64_t* offsets, int32_t count, int64_t following,
                   int32_t flag) noexcept nogil:
    """Notes down who has the messages: in a check point, or in the block of a queue in order."""
    cdef PopPair* pair = job.pair
    cdef OrderBlock* block
    cdef ReviveEntry e
    cdef int32_t i
    cdef int32_t least = 0x7FFFFFFF
    if job.order:
        block = order_obtain(pair, queue_id)
        if block == NULL:
            return False
        order_given(block, offsets, count, p.pop_ms, job.invisible_ms, job.attempt,
                    job.attempt_bytes)
        s.pops.order_version += 1
        for i in range(count):
            if block.times[i] > 0:
                note_order(&p.orders, flag, queue_id, offsets[i], block.times[i])
            if block.times[i] < least:
                least = block.times[i]
        note(&p.orders, flag, queue_id, least)
        return True
    memset(&e, 0, sizeof(e))
    e.topic = text_of(topic.name, topic.name_length)
    e.group = text_of(pair.group, pair.group_length)
    e.broker_name = text_of(s.turn.options.broker_name, s.turn.options.broker_name_bytes)
    e.start_offset = start
    e.pop_ms = p.pop_ms
    e.invisible_ms = job.invisible_ms
    e.queue_id = queue_id
    e.count = e.listed = count
    for i in range(count):
        e.list[i] = offsets[i] - start
    return append_check_point(s, &e, p.revive_queue, following) == OK


cdef uint32_t extra_info_text(PopService s, uint8_t* out, int64_t start_offset, int64_t pop_ms,
                              int64_t invisible_ms, int32_t revive_queue, int32_t flag,
                              const uint8_t* record) noexcept nogil:
    """Writes the extra info of the record at `record`; returns its length, at most
    EXTRA_INFO_BYTES_MAX."""
    cdef uint8_t* at = put_decimal(out, start_offset)
    at = put_decimal_behind(at, c' ', pop_ms)
    at = put_decimal_behind(at, c' ', invisible_ms)
    at = put_decimal_behind(at, c' ', revive_queue)
    at = put_decimal_behind(at, c' ', flag)
    at[0] = c' '
    memcpy(at + 1, s.turn.options.broker_name, s.turn.options.broker_name_bytes)
    at += 1 + s.turn.options.broker_name_bytes
    at = put_decimal_behind(at, c' ', load_i32(record + 12))
    return <uint32_t> (put_decimal_behind(at, c' ', load_i64(record + 20)) - out)


cdef uint32_t rewrite_record(const uint8_t* at, uint32_t size, const Topic* topic,
                             const uint8_t* extra_info, uint32_t info_bytes,
                             uint8_t* out) noexcept nogil:
    """Writes the record anew and returns its size, at most `size` + REWRITE_ADDS_MAX. A record that
    is damaged, or whose properties are full, is copied unchanged."""
    cdef RecordView view
    cdef RecordFields fields
    cdef uint8_t* length_at
    cdef uint8_t* properties
    cdef uint32_t length
    if (record_parse(at, size, -1, False, &view) != OK
            or view.properties_bytes + info_bytes + 16 > PROPERTIES_BYTES_MAX):
        memcpy(out, at, size)
        return size
    fields = fields_of_record(&view)
    fields.topic = topic.name
    fields.topic_bytes = topic.name_length
    length_at = record_start(out, &fields)
    properties = length_at + 2
    memcpy(properties, view.properties, view.properties_bytes)
    length = view.properties_bytes
    if length > 0 and properties[length - 1] != PROPERTY_SEPARATOR:
        properties[length] = PROPERTY_SEPARATOR
        length += 1
    length += append_property(properties + length, b"POP_CK", extra_info, info_bytes)
    return record_finish(out, length_at, length)


cdef void add_copies(PopService s, PopJob* job, Popped* p, const Found* found, int32_t count,
                     int64_t start, int32_t flag) noexcept nogil:
    cdef uint8_t info[EXTRA_INFO_BYTES_MAX]
    cdef uint32_t bytes, info_bytes
    cdef int32_t i
    for i in range(count):
        info_bytes = extra_info_text(s, info, start, p.pop_ms, job.invisible_ms, p.revive_queue,
                                     flag, found.at[i])
        bytes = rewrite_record(found.at[i], found.sizes[i], job.topic, info, info_bytes,
                               p.copies + p.copied)
        p.copied += bytes
        p.bytes += bytes


cdef void give(PopService s, PopJob* job, Popped* p, Topic* topic, Queue* queue, int64_t start,
               Found* found, int32_t flag) noexcept nogil:
    cdef int64_t offsets[MESSAGES_MAX]
    cdef bint copied = flag != 0 and not s.pops.keep_retry_topic
    cdef int32_t count = fitting(s, p, found) if copied else found.count
    cdef int64_t following = found.next_offset
    cdef int32_t i
    for i in range(count):
        offsets[i] = load_i64(found.at[i] + 20)
    if count < found.count:
        following = load_i64(found.at[count] + 20)
    p.rest += queue.max_offset - following
    if count == 0:
        return
    if job.kind == POP:
        if not remember(s, job, p, topic, queue.queue_id, start, offsets, count, following, flag):
            p.failed = True
            return
        pop_move(s, job, topic, queue.queue_id, start if job.order else following)
        if s.pops.inflight_max >= 0 and not job.order:
            inflight_add(&s.pops, pair_obtain(&s.pops, topic, job.pair.group,
                                              job.pair.group_length), queue.queue_id, count)
    note(&p.starts, flag, queue.queue_id, start)
    note(&p.messages, flag, queue.queue_id, offsets[0])
    for i in range(1, count):
        note_next(&p.messages, offsets[i])
    if copied:
        add_copies(s, job, p, found, count, start, flag)
    else:
        for i in range(count):
            p.at[p.borrowed] = found.at[i]
            p.sizes[p.borrowed] = found.sizes[i]
            p.borrowed += 1
            p.bytes += found.sizes[i]
    p.count += count
    topic.messages_out += count
    topic.bytes_out += found.bytes
