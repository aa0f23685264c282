"""Recalls. See recall.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memcpy, memset

from cext.base.clock cimport wall_ms
from cext.base.status cimport MALFORMED, OK, RING_FULL
from cext.flow.append.ack_queue cimport ANSWER_RECALL, UNIQ_KEY_MAX, AckReply, PendingAck
from cext.flow.append.acknowledgement cimport reply_to
from cext.flow.append.message_append cimport Appended, Message
from cext.flow.append.promise cimport promise, promise_room
from cext.flow.append.recall_handle cimport RecallHandle, read_recall_handle
from cext.flow.context.client_state cimport UNREAD_BACKPRESSURE
from cext.flow.context.outcome cimport DONE, TO_CONTROL, TURN_FULL
from cext.flow.context.property_scratch cimport PROPERTY_SCRATCH_BYTES
from cext.flow.context.role cimport is_slave, is_writable
from cext.flow.context.small_replies cimport reply_error
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.flow.transaction.redirect cimport append_redirected
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.memory.name_map cimport name_map_find
from cext.store.queues.consume_queue cimport Queue
from cext.wire.codes cimport (
    FLAG_ONE_WAY,
    ILLEGAL_OPERATION,
    PERM_WRITE,
    SLAVE_NOT_AVAILABLE,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.properties cimport append_number, append_property
from cext.wire.recall_request cimport RecallRequest, read_recall_request
from cext.wire.replies cimport write_recall_reply
from cext.wire.text cimport Text, text_copy, text_of

cdef const char* FAILED = b"recall failed, execute error"


cdef inline bint is_text(const Text* text, const uint8_t* bytes, uint32_t length) noexcept nogil:
    return text.length == length and memcmp(text.bytes, bytes, length) == 0


cdef int write_properties(SendService s, const RecallRequest* r, const Topic* topic,
                          const RecallHandle* handle, int64_t born_ms) noexcept nogil:
    """Writes the stored message's properties to s.turn.scratch.after: the length, or
    MALFORMED."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef uint8_t* group = s.turn.scratch.before
    cdef uint32_t bytes = 18
    cdef int32_t group_bytes = 0
    if r.producer_group.bytes != NULL:
        group_bytes = text_copy(&r.producer_group, group, PROPERTY_SCRATCH_BYTES)
    if (not 0 <= group_bytes <= PROPERTIES_BYTES_MAX or memchr(group, 1, group_bytes) != NULL
            or memchr(group, 2, group_bytes) != NULL):
        return MALFORMED
    memcpy(out, b"TIMER_DEL_UNIQKEY\x01", 18)
    memcpy(out + bytes, topic.name, topic.name_length)
    bytes += topic.name_length
    out[bytes] = c"+"
    memcpy(out + bytes + 1, handle.key.bytes, handle.key.length)
    bytes += 1 + handle.key.length
    out[bytes] = 2
    bytes += 1
    bytes += append_property(out + bytes, b"UNIQ_KEY", handle.key.bytes, handle.key.length)
    bytes += append_number(out + bytes, b"TIMER_DELIVER_MS", handle.deliver_ms)
    bytes += append_number(out + bytes, b"BORN_TIMESTAMP", born_ms)
    if group_bytes > 0:
        bytes += append_property(out + bytes, b"PGROUP", group, group_bytes)
    bytes += append_property(out + bytes, b"TAGS", <const uint8_t*> b"_RECALL_TAG_", 12)
    return <int> bytes


cdef void promise_recall(SendService s, const AckReply* to, const Text* key,
                         uint8_t* early) noexcept nogil:
    """`early`: a jumbo buffer for the answer when the key is long."""
    cdef PendingAck* ack = promise(s.append, to, ANSWER_RECALL)
    cdef Text region = text_of(s.turn.options.region, s.turn.options.region_bytes)
    if early != NULL:
        ack.early_reply = early
        ack.early_reply_bytes = write_recall_reply(early, to.opaque, to.serialize_type, key,
                                                   &region)
    else:
        memcpy(ack.uniq_key, key.bytes, key.length)
        ack.uniq_key_bytes = <uint8_t> key.length


cdef Outcome store_recall(SendService s, Connection* c, const Header* h, const RecallRequest* r,
                          Topic* topic, const RecallHandle* handle) noexcept nogil:
    cdef Message m
    cdef Appended appended
    cdef AckReply to
    cdef Queue* queue = topic_queue(topic, s.append.queues, 0)
    cdef uint8_t* early = NULL
    cdef int status
    memset(&m, 0, sizeof(Message))
    m.born_timestamp_ms = wall_ms()
    status = write_properties(s, r, topic, handle, m.born_timestamp_ms)
    if status < 0:
        return reply_error(s.turn, c, h, ILLEGAL_OPERATION, b"recall handle is invalid")
    m.properties = text_of(s.turn.scratch.after, status)
    m.body = <const uint8_t*> b"0"
    m.body_bytes = 1
    m.born_host = c.address
    m.born_host_bytes = c.address_bytes
    if queue == NULL or not is_writable(&s.turn.role):
        return reply_error(s.turn, c, h, SYSTEM_ERROR, FAILED)
    if s.append.backpressure.leaves_unread:
        s.turn.net.stop_reading(c, UNREAD_BACKPRESSURE)      # as for sends
    if not h.flag & FLAG_ONE_WAY:
        reply_to(&to, c, h)
        status = promise_room(s.append)
        if status == RING_FULL:
            return TURN_FULL
        if status != OK:
            return reply_error(s.turn, c, h, SYSTEM_ERROR, FAILED)
        if handle.key.length > UNIQ_KEY_MAX:
            early = <uint8_t*> buffer_pool_take(&s.turn.net.jumbo_pool)
            if early == NULL:
                return reply_error(s.turn, c, h, SYSTEM_ERROR, FAILED)
    status = append_redirected(s.transaction, topic, queue, &m, False, &appended)
    if status != OK:
        if early != NULL:
            buffer_pool_release(&s.turn.net.jumbo_pool, early)
        if status == RING_FULL:
            return TURN_FULL
        return reply_error(s.turn, c, h, SYSTEM_ERROR, FAILED)
    if not h.flag & FLAG_ONE_WAY:
        promise_recall(s, &to, &handle.key, early)
    return DONE


cdef Outcome accept_recall(SendService s, Connection* c, const Header* h, const Frame* f,
                           bint resubmitted) noexcept nogil:
    cdef RecallRequest r
    cdef RecallHandle handle
    cdef Topic* topic
    cdef char remark[160]
    cdef int64_t left_ms
    if read_recall_request(h, &r) != OK:
        snprintf(remark, sizeof(remark), b"the field %s is missing", r.bad_field)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if is_slave(&s.turn.role):
        return reply_error(s.turn, c, h, SLAVE_NOT_AVAILABLE,
                           b"recall failed, broker service not available: it is a slave")
    topic = <Topic*> name_map_find(&s.tables.topics, r.topic.bytes, r.topic.length)
    if not resubmitted and (topic == NULL or not s.turn.options.recalls
                            or not s.turn.options.broker_permission & PERM_WRITE
                            or wall_ms() < s.turn.options.sends_from_ms):
        return TO_CONTROL
    if topic == NULL:
        return reply_error(s.turn, c, h, TOPIC_NOT_EXIST,
                           b"recall failed, the topic was deleted while "
                           b"the request was on its way")
    if read_recall_handle(&r.handle, &handle) != OK:
        return reply_error(s.turn, c, h, ILLEGAL_OPERATION, b"recall handle is invalid")
    if not is_text(&handle.topic, topic.name, topic.name_length):
        return reply_error(s.turn, c, h, ILLEGAL_OPERATION, b"recall failed, topic not match")
    if not is_text(&handle.broker, s.turn.options.broker_name, s.turn.options.broker_name_bytes):
        return reply_error(s.turn, c, h, ILLEGAL_OPERATION,
                           b"recall failed, broker service not available")
    left_ms = handle.deliver_ms - wall_ms()
    if not 0 < left_ms < s.delay.timers.max_delay_ms:
        return reply_error(s.turn, c, h, ILLEGAL_OPERATION, b"recall failed, timestamp invalid")
    return store_recall(s, c, h, &r, topic, &handle)
