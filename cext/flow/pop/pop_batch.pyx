"""Pop batch. See pop_batch.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cext.base.byteorder cimport load_i64
from cext.base.status cimport OK
from cext.flow.pop.pop_inflight cimport inflight_add
from cext.flow.pop.pop_job cimport POP
from cext.flow.pop.pop_offset cimport pop_move
from cext.flow.pop.pop_order cimport OrderBlock, order_given, order_obtain
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_rewrite cimport extra_info_text, rewrite_record
from cext.flow.pop.pop_table cimport pair_obtain
from cext.flow.pop.popped cimport MESSAGES_MAX, note, note_next, note_order
from cext.flow.pop.revive_log cimport append_check_point
from cext.memory.buffer_pool cimport buffer_pool_take
from cext.wire.revive_entry cimport ReviveEntry
from cext.wire.text cimport text_of


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


cdef void add_copies(PopService s, PopJob* job, Popped* p, const Found* found, int32_t count,
                     int64_t start, int32_t flag) noexcept nogil:
    cdef char info[512]
    cdef uint32_t bytes
    cdef int32_t i
    for i in range(count):
        extra_info_text(s, info, sizeof(info), start, p.pop_ms, job.invisible_ms,
                        p.revive_queue, flag, found.at[i])
        bytes = rewrite_record(found.at[i], found.sizes[i], job.topic, info,
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
