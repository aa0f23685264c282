"""What consumers say of popped messages. See pop_ack.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from cext.base.status cimport MALFORMED, NOT_FOUND, NOT_READY, OK, RING_FULL, TOO_LARGE
from cext.flow.append.ack_queue cimport ANSWER_CHANGE, ANSWER_CODE, AckReply, PendingAck
from cext.flow.append.acknowledgement cimport reply_to
from cext.flow.append.append_status cimport TIMER_ILLEGAL
from cext.flow.append.promise cimport promise, promise_room_to
from cext.flow.append.turn_room cimport turn_room
from cext.flow.context.outcome cimport CLOSE_CONNECTION, DONE, GO_ON, TURN_FULL
from cext.flow.context.role cimport is_slave, is_writable
from cext.flow.context.small_replies cimport reply_error
from cext.flow.pop.held_pops cimport wake_pops
from cext.flow.pop.pop_inflight cimport inflight_remove
from cext.flow.pop.pop_merge cimport merge_ack, refuse_record
from cext.flow.pop.pop_order cimport (
    ORDER_ILLEGAL,
    ORDER_OTHER_POP,
    OrderBlock,
    order_ack,
    order_blocks,
    order_change,
    order_find,
)
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_table cimport pair_find, pop_retry_name
from cext.flow.pop.revive_log cimport REVIVE_RECORD_BYTES, append_ack, append_check_point
from cext.flow.tables.offset_table cimport offset_commit, offset_query
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.queues.consume_queue cimport Queue
from cext.wire.codes cimport (
    FLAG_ONE_WAY,
    MESSAGE_ILLEGAL,
    NO_MESSAGE,
    SUCCESS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from cext.wire.limits cimport GROUP_BYTES_MAX, TOPIC_BYTES_MAX
from cext.wire.pop_request cimport (
    REVIVE_IN_ORDER,
    ExtraInfo,
    PopRequest,
    pop_code,
    read_extra_info,
    read_pop_request,
)
from cext.wire.replies cimport POP_REPLY_BYTES_MAX, PopReply, write_pop_reply_header
from cext.wire.revive_entry cimport LISTED_MAX, ReviveEntry, next_batch_ack, read_bits
from cext.wire.text cimport text_equals, text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    NAME_MAX = 768
    AHEAD_MAX_MS = 60000        # a pop time further ahead was not made by a change
    # Room in the log for an ack of a batch, without its names. These are in the request as well;
    # in the log they take at most BATCH_NAMES times the request's bytes.
    BATCH_RECORD_BYTES = 2560
    BATCH_NAMES = 8


# ------------------------------------------------------------------- the request

cdef Outcome look_up(PopService s, Connection* c, const Header* h, PopRequest* r, ExtraInfo* info,
                     Topic** topic) noexcept nogil:
    """Reads the request. GO_ON: it is all right."""
    cdef char remark[256]
    cdef Queue* queue
    if read_pop_request(h, pop_code(h), r) != OK:
        snprintf(remark, sizeof(remark), b"the field %s is missing or not a number", r.bad_field)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if is_slave(&s.turn.role):
        return refuse(s, c, h, NOT_READY)
    topic[0] = <Topic*> name_map_find(&s.tables.topics, r.topic.bytes, r.topic.length)
    if topic[0] == NULL or r.topic.escaped or r.consumer_group.escaped:
        snprintf(remark, sizeof(remark), b"topic[%.*s] not exist, apply first please!",
                 <int> (r.topic.length if r.topic.length < 200 else 200), r.topic.bytes)
        return reply_error(s.turn, c, h, TOPIC_NOT_EXIST, remark)
    if r.consumer_group.length > GROUP_BYTES_MAX:
        return reply_error(s.turn, c, h, MESSAGE_ILLEGAL,
                           b"the consumer group's name is longer than "
                           b"255 bytes")
    if r.queue_id < 0 or r.queue_id >= topic[0].read_queues:
        snprintf(remark, sizeof(remark), b"queueId[%d] is illegal, topic:[%.128s] "
                 b"readQueueNums:[%d]", r.queue_id, topic[0].name, topic[0].read_queues)
        return reply_error(s.turn, c, h, MESSAGE_ILLEGAL, remark)
    queue = topic_queue(topic[0], s.append.queues, r.queue_id)
    if queue == NULL or r.offset < queue.min_offset or r.offset > queue.max_offset:
        return reply_error(s.turn, c, h, NO_MESSAGE, b"the offset is outside the queue")
    if read_extra_info(&r.extra_info, info) != OK or info.start_offset > r.offset:
        return reply_error(s.turn, c, h, SYSTEM_ERROR,
                           b"extraInfo is not what a popped message has")
    return GO_ON


cdef void fill_entry(ReviveEntry* e, const PopRequest* r, const ExtraInfo* info) noexcept nogil:
    memset(e, 0, sizeof(ReviveEntry))
    e.topic = r.topic
    e.group = r.consumer_group
    e.broker_name = info.broker_name
    e.start_offset = info.start_offset
    e.ack_offset = r.offset
    e.pop_ms = info.pop_ms
    e.queue_id = r.queue_id


cdef Outcome refuse(PopService s, Connection* c, const Header* h, int status) noexcept nogil:
    cdef AckReply r
    if status == RING_FULL:
        return TURN_FULL
    reply_to(&r, c, h)
    refuse_record(s, &r, status)
    return DONE


# ------------------------------------------------------------------- in order

cdef bint ack_in_order(PopService s, Topic* topic, const uint8_t* group, uint32_t group_length,
                       int32_t queue_id, int64_t offset, int64_t pop_ms) noexcept nogil:
    """False: the message is not of the batch that a consumer holds."""
    cdef PopPair* pair = pair_find(&s.pops, topic, group, group_length)
    cdef OrderBlock* block
    cdef int64_t following, until = 0
    cdef int64_t committed = offset_query(&s.tables.offsets, topic.name, topic.name_length, group,
                                          group_length, queue_id)
    if offset < committed:
        return True                             # acknowledged before
    block = order_find(pair, queue_id) if pair != NULL else NULL
    if block != NULL:
        following = order_ack(block, committed, offset, pop_ms)
    elif offset == committed:
        following = offset + 1
    else:       # The batch was lost with its process: what lies before the message comes again.
        following = ORDER_OTHER_POP
    if following == ORDER_ILLEGAL:
        return False
    s.pops.acks += 1
    if following < 0:
        return True
    s.pops.order_version += 1
    offset_commit(&s.tables.offsets, topic.name, topic.name_length, group, group_length, queue_id,
                  following)
    if pair != NULL and not order_blocks(block, following, NULL, 0, s.turn.wall_ms, &until):
        wake_pops(s.pull, pair, queue_id)
    return True


cdef Outcome answer_in_order(PopService s, Connection* c, const Header* h, int64_t pop_ms,
                             int64_t invisible_ms, int32_t revive_queue) noexcept nogil:
    """Answers at once, because there is no record to wait for."""
    cdef PopReply reply
    cdef uint8_t* at
    if h.flag & FLAG_ONE_WAY:
        return DONE
    at = s.turn.net.reserve_reply(c, POP_REPLY_BYTES_MAX)
    if at == NULL:
        return CLOSE_CONNECTION
    memset(&reply, 0, sizeof(reply))
    reply.opaque = h.opaque
    reply.serialize_type = h.serialize_type
    reply.pop_ms = pop_ms
    reply.invisible_ms = invisible_ms
    reply.revive_queue = revive_queue
    reply.rest = -1
    if s.turn.net.commit_reply(c, write_pop_reply_header(at, &reply)):
        return DONE
    return CLOSE_CONNECTION


cdef Outcome change_in_order(PopService s, Connection* c, const Header* h, Topic* topic,
                             const PopRequest* r, const ExtraInfo* info) noexcept nogil:
    cdef PopPair* pair = pair_find(&s.pops, topic, r.consumer_group.bytes, r.consumer_group.length)
    cdef OrderBlock* block = order_find(pair, r.queue_id) if pair != NULL else NULL
    cdef int64_t visible_ms = s.turn.wall_ms + r.invisible_ms
    if block == NULL or r.offset < offset_query(&s.tables.offsets, topic.name, topic.name_length,
                                                r.consumer_group.bytes, r.consumer_group.length,
                                                r.queue_id):
        return answer_in_order(s, c, h, 0, 0, 0)
    order_change(block, r.offset, info.pop_ms, visible_ms)
    s.pops.order_version += 1
    if pair.first != NULL:
        wake_pops(s.pull, pair, r.queue_id)          # it may now wait for another time
    s.pops.changes += 1
    return answer_in_order(s, c, h, info.pop_ms, visible_ms - info.pop_ms, info.revive_queue)


# ------------------------------------------------------------------- acks

cdef Outcome refuse_in_order(PopService s, Connection* c, const Header* h) noexcept nogil:
    return reply_error(s.turn, c, h, MESSAGE_ILLEGAL, b"the offset is not of the batch that is out")


cdef Outcome accept_ack(PopService s, Connection* c, const Header* h, const Frame* f,
                        bint resubmitted) noexcept nogil:
    cdef PopRequest r
    cdef ExtraInfo info
    cdef ReviveEntry e
    cdef AckReply to
    cdef Topic* topic = NULL
    cdef Outcome checked = look_up(s, c, h, &r, &info, &topic)
    if checked != GO_ON:
        return checked
    if info.revive_queue == REVIVE_IN_ORDER:
        if ack_in_order(s, topic, r.consumer_group.bytes, r.consumer_group.length, r.queue_id,
                        r.offset, info.pop_ms):
            return reply_error(s.turn, c, h, SUCCESS, b"")
        return refuse_in_order(s, c, h)
    fill_entry(&e, &r, &info)
    e.invisible_ms = info.invisible_ms
    e.revive_queue = info.revive_queue
    reply_to(&to, c, h)
    return DONE if merge_ack(s, &e, &to) == OK else TURN_FULL


cdef Topic* batch_topic(PopService s, const ReviveEntry* e, uint8_t* name,
                        uint32_t* length) noexcept nogil:
    """The topic that an ack of a batch means: the named one, or the group's retry topic for it."""
    if e.topic.bytes == NULL or e.group.bytes == NULL or e.topic.escaped or e.group.escaped \
            or e.topic.length > TOPIC_BYTES_MAX \
            or e.group.length > GROUP_BYTES_MAX:
        return NULL
    length[0] = e.topic.length
    memcpy(name, e.topic.bytes, e.topic.length)
    if text_equals(&e.retry, b"1", 1) or text_equals(&e.retry, b"2", 1):
        length[0] = pop_retry_name(e.group.bytes, e.group.length, e.topic.bytes, e.topic.length,
                                   e.retry.bytes[0] == c'2', name)
    return <Topic*> name_map_find(&s.tables.topics, name, length[0])


cdef int append_batch(PopService s, const ReviveEntry* given, bint* illegal) noexcept nogil:
    """Appends all acks of one check point. OK also when none of its offsets is in the queue, or
    when some of messages popped in order are not of the batch that a consumer holds; then `illegal`
    is set."""
    cdef ReviveEntry e = given[0]
    cdef uint8_t name[NAME_MAX]
    cdef uint32_t name_length = 0
    cdef int32_t bits[LISTED_MAX]
    cdef int32_t i, count = read_bits(&given.bits, bits, LISTED_MAX)
    cdef Topic* topic = batch_topic(s, given, name, &name_length)
    cdef Queue* queue
    if count < 0:
        return MALFORMED
    queue = topic_queue(topic, s.append.queues, given.queue_id) if topic != NULL else NULL
    if queue == NULL:
        return OK                               # topic or queue is gone
    e.topic = text_of(name, name_length)
    e.ack_offset = -1
    e.listed = 0
    for i in range(count):
        if not queue.min_offset <= e.start_offset + bits[i] <= queue.max_offset:
            continue
        if e.revive_queue == REVIVE_IN_ORDER:
            if not ack_in_order(s, topic, e.group.bytes, e.group.length, e.queue_id,
                                e.start_offset + bits[i], e.pop_ms):
                illegal[0] = True
        else:
            e.list[e.listed] = e.start_offset + bits[i]
            e.listed += 1
    if e.listed == 0:
        return OK
    s.pops.acks += e.listed
    inflight_remove(s, topic, e.group.bytes, e.group.length, e.queue_id, e.pop_ms, e.listed)
    return append_ack(s, &e, e.revive_queue, e.pop_ms + e.invisible_ms)


cdef int batch_room(PopService s, const Frame* f, const AckReply* to) noexcept nogil:
    """Whether there is room for a record for each check point that the body may name, and for the
    answer. TOO_LARGE: no turn has so much room. Else what turn_room() and promise_room_to() say."""
    cdef const uint8_t* end = f.body + f.body_bytes
    cdef const uint8_t* at = <const uint8_t*> memchr(f.body, c'{', f.body_bytes)
    cdef uint64_t bytes = BATCH_NAMES * <uint64_t> f.body_bytes
    cdef int32_t records = 0
    cdef int status
    while at != NULL and at + 1 < end:          # the first one found is that of the whole body
        at = <const uint8_t*> memchr(at + 1, c'{', end - at - 1)
        records += at != NULL
    bytes += <uint64_t> records * BATCH_RECORD_BYTES
    if bytes > <uint64_t> s.append.log.max_record_bytes:
        return TOO_LARGE
    status = turn_room(s.append, <uint32_t> bytes, records)
    return status if status != OK else promise_room_to(s.append, to)


cdef Outcome accept_batch_ack(PopService s, Connection* c, const Header* h, const Frame* f,
                              bint resubmitted) noexcept nogil:
    cdef ReviveEntry e
    cdef AckReply to
    cdef uint32_t at = 0
    cdef bint any_ack = False, illegal = False
    cdef int status
    reply_to(&to, c, h)
    status = batch_room(s, f, &to) if is_writable(&s.turn.role) else NOT_READY
    if status == TOO_LARGE:
        return reply_error(s.turn, c, h, SYSTEM_ERROR, b"more acks than one request may bring: "
                           b"send them in several")
    if status != OK:
        return refuse(s, c, h, status)
    while True:
        status = next_batch_ack(f.body, f.body_bytes, &at, &e)
        if status == NOT_FOUND:
            break
        if status != OK:
            return reply_error(s.turn, c, h, SYSTEM_ERROR, b"the body is no list of acks")
        any_ack = True
        e.broker_name = text_of(s.turn.options.broker_name, s.turn.options.broker_name_bytes)
        status = append_batch(s, &e, &illegal)
        if status == MALFORMED:
            return reply_error(s.turn, c, h, SYSTEM_ERROR,
                               b"the body has an ack that cannot be read")
        if status != OK:
            return refuse(s, c, h, status)
    if not any_ack:
        return reply_error(s.turn, c, h, NO_MESSAGE, b"")
    if illegal:
        return refuse_in_order(s, c, h)         # all others count, whatever the answer
    promise(s.append, &to, ANSWER_CODE)
    return DONE


# ------------------------------------------------------------------- invisible times

cdef inline int64_t changed_pop_ms(int64_t before_ms, int64_t now_ms) noexcept nogil:
    """A pop time different from that of the replaced check point, even within one millisecond: acks
    and the revive log know check points by their start offset and pop time."""
    if now_ms <= before_ms < now_ms + AHEAD_MAX_MS:
        return before_ms + 1
    return now_ms


cdef Outcome accept_change(PopService s, Connection* c, const Header* h, const Frame* f,
                           bint resubmitted) noexcept nogil:
    cdef PopRequest r
    cdef ExtraInfo info
    cdef ReviveEntry e
    cdef AckReply to
    cdef PendingAck* ack
    cdef Topic* topic = NULL
    cdef int64_t pop_ms
    cdef int status
    cdef Outcome checked = look_up(s, c, h, &r, &info, &topic)
    if checked != GO_ON:
        return checked
    if r.offset >= topic_queue(topic, s.append.queues, r.queue_id).max_offset:
        return reply_error(s.turn, c, h, NO_MESSAGE, b"there is no message at this offset")
    if r.invisible_ms < 0 or r.invisible_ms > s.delay.timers.max_delay_ms:
        return refuse(s, c, h, TIMER_ILLEGAL)
    if info.revive_queue == REVIVE_IN_ORDER:
        return change_in_order(s, c, h, topic, &r, &info)
    reply_to(&to, c, h)
    # Both records are appended, or none.
    status = NOT_READY
    if is_writable(&s.turn.role):
        status = turn_room(s.append, 2 * REVIVE_RECORD_BYTES, 2)
    if status == OK:
        status = promise_room_to(s.append, &to)
    if status != OK:
        return refuse(s, c, h, status)
    fill_entry(&e, &r, &info)
    e.start_offset = r.offset
    e.pop_ms = pop_ms = changed_pop_ms(info.pop_ms, s.turn.wall_ms)
    e.invisible_ms = r.invisible_ms
    e.count = e.listed = 1
    status = append_check_point(s, &e, info.revive_queue, -1)
    if status == OK:
        fill_entry(&e, &r, &info)
        status = append_ack(s, &e, info.revive_queue, info.pop_ms + info.invisible_ms)
    if status != OK:
        return refuse(s, c, h, status)
    s.pops.changes += 1
    ack = promise(s.append, &to, ANSWER_CHANGE)
    if ack != NULL:
        ack.changed.pop_ms = pop_ms         # the same as in the record
        ack.changed.invisible_ms = r.invisible_ms
        ack.changed.revive_queue = info.revive_queue
    return DONE
