"""Request-reply. See reply_push.pxd."""
from libc.stdint cimport uint16_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strlen

from cext.base.clock cimport monotonic_us
from cext.base.status cimport OK, RING_FULL
from cext.flow.append.ack_queue cimport ANSWER_SEND, AckReply, PendingAck
from cext.flow.append.message_append cimport Appended, Message, append_message, record_bytes_max
from cext.flow.append.promise cimport promise, promise_room
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.outcome cimport DONE, TO_CONTROL, TURN_FULL
from cext.flow.context.property_scratch cimport PROPERTY_SCRATCH_BYTES
from cext.flow.context.reply_space cimport reply_space_commit, reply_space_take
from cext.flow.context.role cimport is_writable
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.small_replies cimport address_text, host_text, reply_error
from cext.flow.context.unsent cimport PUSH_UNSENT_MAX
from cext.flow.request_reply.reply_table cimport (
    CLIENT_SHOWN,
    PushedReply,
    reply_table_check,
    reply_table_find,
    reply_table_free,
    reply_table_next,
    reply_table_take,
)
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.net.connection cimport UNREAD_UNSENT
from cext.store.queues.consume_queue cimport Queue
from cext.wire.codes cimport (
    BORNHOST_V6_FLAG,
    FLAG_ONE_WAY,
    PERM_WRITE,
    SERVICE_NOT_AVAILABLE,
    STOREHOSTADDRESS_V6_FLAG,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    SYS_FLAGS_KNOWN,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX, write_offset_message_id
from cext.wire.properties cimport PROPERTY_SEPARATOR, append_number, find_property
from cext.wire.replies cimport (
    PushedReplyFields,
    SendReply,
    pushed_reply_bytes_max,
    send_reply_bytes_max,
    write_pushed_reply_header,
    write_send_reply,
)
from cext.wire.send_request cimport SendRequest, read_send_request
from cext.wire.system_topics cimport is_closed, is_inner
from cext.wire.text cimport Text, text_copy, text_of

cdef enum:
    PUSH_MS = 10000
    ADDRESS_MAX = 96
    REMARK_MAX = 512
    ADDED_MAX = 64              # PUSH_REPLY_TIME and a separator


# ------------------------------------------------------------------- the answer

cdef bint promise_push(ReplyService s, Connection* c, const PushedReply* p) noexcept nogil:
    """The producer has the reply; the consumer is answered when its record is as safe as that of a
    send. False: that cannot be promised."""
    cdef AckReply to
    cdef PendingAck* ack
    if promise_room(s.append) != OK:
        return False
    to.connection = c
    to.connection_id = p.from_id
    to.opaque = p.opaque
    to.version = 0                          # not used in the answer to a send
    to.request_code = <uint16_t> p.request_code
    to.serialize_type = p.serialize_type
    ack = promise(s.append, &to, ANSWER_SEND)
    ack.physical_offset = p.physical_offset
    ack.queue_offset = p.queue_offset
    ack.queue_id = p.queue_id
    return True


cdef void answer_push(ReplyService s, PushedReply* slot, int32_t code,
                      const char* remark) noexcept nogil:
    """Frees the slot and answers the consumer. If it cannot be answered its connection is closed,
    but later: closing a connection calls this function, and would call it again."""
    cdef PushedReply p = slot[0]
    cdef Connection* c = s.turn.net.find(p.from_id)
    cdef SendReply reply
    cdef uint8_t message_id[MESSAGE_ID_BYTES_MAX]
    cdef uint8_t* at
    reply_table_free(&s.replies, slot)
    s.replies.pushed += code == SUCCESS
    s.replies.failed += code != SUCCESS
    if code == SUCCESS and c != NULL and p.physical_offset >= 0:
        if promise_push(s, c, &p):
            return
        code = SERVICE_NOT_AVAILABLE
        remark = b"the reply was pushed, but the log does not answer for its record now"
    rpc_record(&s.turn.rpc, p.request_code, code, False, monotonic_us() // 1000 - p.arrived_ms, 1)
    if c != NULL:
        reply.code = code
        reply.opaque = p.opaque
        reply.queue_id = p.queue_id
        reply.queue_offset = p.queue_offset
        reply.serialize_type = p.serialize_type
        reply.trace_on = s.turn.options.trace_on
        reply.remark = text_of(<const uint8_t*> remark if remark != NULL else NULL,
                               <uint32_t> strlen(remark) if remark != NULL else 0)
        reply.message_ids = text_of(<const uint8_t*> b"0", 1)
        if p.physical_offset >= 0:
            reply.message_ids = text_of(message_id, write_offset_message_id(
                message_id, s.turn.options.store_host, s.turn.options.store_host_bytes,
                p.physical_offset))
        reply.transaction_id = text_of(NULL, 0)
        reply.region = text_of(s.turn.options.region, s.turn.options.region_bytes)
        reply.recall_handle = text_of(NULL, 0)
        at = s.turn.net.reserve_reply(c, <uint32_t> send_reply_bytes_max(&reply))
        if at == NULL or not s.turn.net.commit_reply(c, write_send_reply(at, &reply)):
            c.closing = True
            s.turn.net.mark_dirty(c)


cdef void fail_push(ReplyService s, PushedReply* p, const char* why) noexcept nogil:
    cdef char remark[REMARK_MAX]
    p.client[p.client_bytes] = 0
    snprintf(remark, sizeof(remark), b"push reply message to %s fail: %.300s", p.client, why)
    answer_push(s, p, SYSTEM_ERROR, remark)


cdef Outcome push_answered(ReplyService s, Connection* c, const Header* h) noexcept nogil:
    cdef PushedReply* p = reply_table_find(&s.replies, h.opaque, c.id)
    cdef char why[REMARK_MAX]
    cdef int32_t length
    if p == NULL:
        return DONE                         # too late: the consumer was answered before
    if h.code == SUCCESS:
        if p.physical_offset >= 0 and promise_room(s.append) == RING_FULL:
            return TURN_FULL
        answer_push(s, p, SUCCESS, NULL)
        return DONE
    length = text_copy(&h.remark, <uint8_t*> why, REMARK_MAX - 1) if h.remark.bytes != NULL else 0
    why[max(length, 0)] = 0
    fail_push(s, p, why)
    return DONE


cdef void push_forget(ReplyService s, Connection* c) noexcept nogil:
    cdef int32_t i
    if s.replies.count == 0:
        return
    for i in range(s.replies.fresh):
        if s.replies.slots[i].from_id == c.id:
            s.replies.slots[i].from_id = 0      # the consumer has left: nobody to be told
        if s.replies.slots[i].to_id == c.id:
            fail_push(s, &s.replies.slots[i], b"its connection is closed")


cdef void push_expire(ReplyService s) noexcept nogil:
    cdef PushedReply* p
    cdef int32_t i
    if s.replies.count == 0:
        return
    reply_table_check(&s.replies)
    for i in range(s.replies.fresh):
        p = &s.replies.slots[i]
        if p.to_id != 0 and s.turn.now_ms - p.arrived_ms > PUSH_MS:
            fail_push(s, p, b"it did not answer within 10 s")


# ------------------------------------------------------------------- the request

cdef void fill_message(ReplyService s, const Frame* f, const SendRequest* r, Connection* c,
                       int32_t property_bytes, Message* m) noexcept nogil:
    """The reply as it will be stored; its properties are in s.turn.scratch.before."""
    m.body = f.body
    m.body_bytes = f.body_bytes
    m.properties = text_of(s.turn.scratch.before, property_bytes)
    m.flag = r.flag
    m.sys_flag = r.sys_flag & ~(BORNHOST_V6_FLAG | STOREHOSTADDRESS_V6_FLAG)
    m.reconsume_times = r.reconsume_times
    m.born_timestamp_ms = r.born_timestamp_ms
    m.prepared_offset = 0
    m.born_host = c.address
    m.born_host_bytes = c.address_bytes
    m.plain_only = False
    m.add_properties = False
    m.own_tags_code = False
    m.tags_code = 0
    m.stored = False
    m.spare = 0


cdef bint send_push(ReplyService s, Connection* to, const PushedReplyFields* fields,
                    const Frame* f) noexcept nogil:
    """Queues the 326 with its body; False: no buffer is free."""
    cdef void* block
    cdef uint8_t* at = reply_space_take(s.turn, to, pushed_reply_bytes_max(fields) + f.body_bytes,
                                        &block)
    cdef uint32_t length
    if at == NULL:
        return False
    length = write_pushed_reply_header(at, fields)
    memcpy(at + length, f.body, f.body_bytes)
    return reply_space_commit(s.turn, to, at, length + f.body_bytes, block)


cdef void fill_fields(ReplyService s, const SendRequest* r, const Connection* c, char* born,
                      char* stored, PushedReplyFields* out) noexcept nogil:
    """Fills in all fields but opaque, properties and body."""
    out.producer_group = r.producer_group
    out.topic = r.topic
    out.default_topic = r.default_topic
    out.default_topic_queue_nums = r.default_topic_queue_nums
    out.queue_id = r.queue_id
    out.sys_flag = r.sys_flag
    out.born_timestamp_ms = r.born_timestamp_ms
    out.flag = r.flag
    out.reconsume_times = r.reconsume_times
    out.unit_mode = r.unit_mode
    out.store_timestamp_ms = s.turn.wall_ms
    out.born_host = text_of(<const uint8_t*> born, address_text(c, born, ADDRESS_MAX))
    out.store_host = text_of(<const uint8_t*> stored, host_text(
        s.turn.options.store_host, s.turn.options.store_host_bytes, stored, ADDRESS_MAX))


cdef bint is_ordinary(ReplyService s, const Header* h, const Frame* f, const SendRequest* r,
                      const Topic* topic) noexcept nogil:
    """Whether nothing about the request needs control, which also knows what to refuse."""
    return not (
        topic == NULL or is_closed(topic.kind) or is_inner(topic.kind)
        or h.flag & FLAG_ONE_WAY or r.batch or not is_writable(&s.turn.role)
        or not s.turn.options.broker_permission & PERM_WRITE
        or s.turn.wall_ms < s.turn.options.sends_from_ms
        or r.queue_id >= max(topic.read_queues, topic.write_queues)
        or f.body_bytes == 0 or f.body_bytes > s.turn.options.message_max_bytes
        or r.sys_flag & ~<int32_t> SYS_FLAGS_KNOWN or r.properties.bytes == NULL
        or r.producer_group.escaped or r.topic.escaped or r.default_topic.escaped)


cdef Outcome accept_reply(ReplyService s, Connection* c, const Header* h, const Frame* f,
                          bint resubmitted) noexcept nogil:
    cdef SendRequest r
    cdef Text client
    cdef PushedReplyFields fields
    cdef char born[ADDRESS_MAX]
    cdef char stored[ADDRESS_MAX]
    cdef uint8_t* properties = s.turn.scratch.before
    cdef Topic* topic
    cdef Queue* queue
    cdef Connection* to
    cdef PushedReply* p
    cdef Message m
    cdef Appended stored_at
    cdef uint64_t to_id
    cdef int32_t length
    cdef int status = OK
    if read_send_request(h, &r) != OK:
        return TO_CONTROL
    topic = <Topic*> name_map_find(&s.tables.topics, r.topic.bytes, r.topic.length)
    if not is_ordinary(s, h, f, &r, topic):
        return TO_CONTROL
    length = text_copy(&r.properties, properties, PROPERTY_SCRATCH_BYTES - ADDED_MAX)
    if length < 0 or length > PROPERTIES_BYTES_MAX or not find_property(
            properties, length, b"REPLY_TO_CLIENT", &client):
        return TO_CONTROL
    to_id = <uint64_t> name_map_find(&s.replies.clients, client.bytes, client.length)
    to = s.turn.net.find(to_id) if to_id != 0 else NULL
    queue = topic_queue(topic, s.append.queues, max(r.queue_id, 0))
    if to == NULL or to.closing or queue == NULL:
        return TO_CONTROL
    p = reply_table_next(&s.replies)
    if p == NULL or (to.unread & UNREAD_UNSENT and to.unsent_bytes > PUSH_UNSENT_MAX):
        return reply_error(s.turn, c, h, SYSTEM_BUSY,
                           b"[OVERLOAD]system busy, start flow control for a "
                           b"while: too many replies wait for their producers")
    if s.turn.options.store_replies:
        fill_message(s, f, &r, c, length, &m)
        status = append_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
        if status == RING_FULL:
            return TURN_FULL
    p.from_id = c.id
    p.arrived_ms = s.turn.now_ms
    p.opaque = h.opaque
    p.request_code = h.code
    p.serialize_type = h.serialize_type
    p.physical_offset = -1
    p.queue_offset = 0
    p.queue_id = queue.queue_id
    p.client_bytes = min(client.length, <uint32_t> CLIENT_SHOWN - 1)
    memcpy(p.client, client.bytes, p.client_bytes)
    fill_fields(s, &r, c, born, stored, &fields)
    fields.opaque = reply_table_take(&s.replies, p, to_id)
    fields.body_bytes = f.body_bytes
    # The reply is pushed whether or not the log takes it.
    if s.turn.options.store_replies and status == OK and append_message(
            s.append, topic, queue, &m, &stored_at) == OK:
        p.physical_offset = stored_at.physical_offset
        p.queue_offset = stored_at.queue_offset
    if length > 0 and properties[length - 1] != PROPERTY_SEPARATOR:
        properties[length] = PROPERTY_SEPARATOR
        length += 1
    length += append_number(properties + length, b"PUSH_REPLY_TIME", s.turn.wall_ms)
    fields.properties = text_of(properties, length)
    if not send_push(s, to, &fields, f):
        fail_push(s, p, b"no buffer is free")
    return DONE
