"""Messages that come again. See send_back.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from cext.base.status cimport ABSENT, CORRUPT, NOT_READY, NO_SPACE, OK, POISONED, RING_FULL
from cext.flow.append.ack_queue cimport ANSWER_CODE, AckReply
from cext.flow.append.acknowledgement cimport reply_to
from cext.flow.append.message_append cimport (
    Appended,
    Message,
    append_message,
    message_of_record,
    record_bytes_max,
)
from cext.flow.append.promise cimport promise, promise_room_to
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.outcome cimport DONE, NEEDS_RECORD, TO_CONTROL, TURN_FULL
from cext.flow.context.refusal cimport OTHERWISE, Refusal, refusal_of
from cext.flow.context.role cimport is_slave, is_writable, refuse_remark
from cext.flow.context.small_replies cimport reply_error
from cext.flow.fetch.log_view cimport view_record
from cext.flow.send.dead_letter cimport retries_max, topic_of_group
from cext.flow.tables.group_table cimport Group, group_find
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RecordView
from cext.store.log.record_crc cimport record_crc_strip
from cext.store.queues.consume_queue cimport Queue
from cext.wire.codes cimport (
    NO_PERMISSION,
    PERM_WRITE,
    SERVICE_NOT_AVAILABLE,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
)
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX, write_offset_message_id
from cext.wire.properties cimport SendProperties, append_number, append_property, scan_properties
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.send_back cimport SendBack, read_send_back
from cext.wire.system_topics cimport (
    DLQ_PREFIX,
    DLQ_PREFIX_BYTES,
    RETRY_PREFIX,
    RETRY_PREFIX_BYTES,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
)
from cext.wire.text cimport text_equals, text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    FIRST_LEVEL = 3

cdef const char* BUSY = b"[PC_SYNCHRONIZED]broker busy, start flow control for a while: the " \
                        b"message did not go back"
cdef const char* NO_LOG = b"service not available now: the log takes no message"

cdef Refusal[4] refusals = [
    Refusal(NOT_READY, SYSTEM_BUSY, BUSY),
    Refusal(POISONED, SERVICE_NOT_AVAILABLE, NO_LOG),
    Refusal(NO_SPACE, SERVICE_NOT_AVAILABLE, NO_LOG),
    Refusal(OTHERWISE, SYSTEM_ERROR,
            b"the message cannot be copied: its properties are malformed or too long"),
]

# Properties of its source that a copy drops; a dead letter drops those from the sixth on only.
cdef const char* LEFT_OUT[7]
LEFT_OUT[0] = "TIMER_DELAY_SEC"
LEFT_OUT[1] = "TIMER_DELAY_MS"
LEFT_OUT[2] = "TIMER_DELIVER_MS"
LEFT_OUT[3] = "REAL_TOPIC"
LEFT_OUT[4] = "REAL_QID"
LEFT_OUT[5] = "DELAY"
LEFT_OUT[6] = "WAIT"


cdef int32_t level_of(SendService s, const Group* group, int32_t asked,
                      int32_t times) noexcept nogil:
    """The delay level of a message that has come back `times` times before."""
    cdef int64_t level = asked
    if level == 0 and group.retry_level_count > 0:
        if times < 0:
            times = 0
        level = group.retry_levels[times if times < group.retry_level_count
                                   else group.retry_level_count - 1]
    elif level == 0:
        level = FIRST_LEVEL + <int64_t> times
    if level > s.delay.schedule.count:
        level = s.delay.schedule.count
    return <int32_t> level if level > 0 else 1


cdef int write_properties(SendService s, const RecordView* view, const Topic* retry,
                          int32_t queue_id, int32_t level) noexcept nogil:
    """Writes the copy's properties to s.turn.scratch.after: their length, or a Status. Level 0: a
    dead letter."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef uint8_t id[MESSAGE_ID_BYTES_MAX]
    cdef SendProperties found
    cdef uint32_t bytes
    if scan_properties(view.properties, view.properties_bytes, &found) != OK:
        return CORRUPT
    bytes = record_crc_strip(view.properties, view.properties_bytes)
    if level == 0:
        bytes = copy_properties_without(view.properties, bytes, LEFT_OUT + 5, 2, out)
    else:
        bytes = copy_properties_without(view.properties, bytes, LEFT_OUT, 7, out)
    if found.retry_topic.bytes == NULL:
        bytes += append_property(out + bytes, b"RETRY_TOPIC", view.topic, view.topic_bytes)
    if found.origin_message_id.bytes == NULL:
        bytes += append_property(out + bytes, b"ORIGIN_MESSAGE_ID", id, write_offset_message_id(
            id, view.store_host, view.store_host_bytes, view.physical_offset))
    bytes += append_property(out + bytes, b"WAIT", <const uint8_t*> b"false", 5)
    bytes += append_number(out + bytes, b"DELAY", level)
    if level > 0:
        bytes += append_property(out + bytes, b"REAL_TOPIC", retry.name, retry.name_length)
        bytes += append_number(out + bytes, b"REAL_QID", queue_id)
    return <int> bytes


cdef int append_copy(SendService s, const RecordView* view, Topic* topic, int32_t queue_id,
                     uint32_t property_bytes, int32_t level) noexcept nogil:
    cdef Queue* queue = topic_queue(topic, s.append.queues, queue_id)
    cdef Message m
    cdef Appended appended
    cdef int status
    if queue == NULL:
        return NOT_READY
    message_of_record(&m, view)
    m.properties = text_of(s.turn.scratch.after, property_bytes)
    m.reconsume_times += 1
    m.prepared_offset = 0
    m.own_tags_code = level > 0
    if level > 0:
        m.tags_code = s.delay.schedule.clock_ms + s.delay.schedule.levels[level - 1].delay_ms
    status = append_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
    if status == OK:
        status = append_message(s.append, topic, queue, &m, &appended)
    return status


cdef Outcome refuse_back(SendService s, Connection* c, const Header* h, int status) noexcept nogil:
    cdef const Refusal* refusal
    if status == RING_FULL:
        return TURN_FULL
    refusal = refusal_of(refusals, status)
    return reply_error(s.turn, c, h, refusal.code, refusal.text)


cdef bint is_named_topic(const RecordView* view, const SendBack* r,
                         const Topic* retry) noexcept nogil:
    """Whether the message is of the topic that the request names, or of its group's retry topic."""
    if (view.topic_bytes == retry.name_length
            and memcmp(view.topic, retry.name, retry.name_length) == 0):
        return True
    return text_equals(&r.origin_topic, <const char*> view.topic, view.topic_bytes)


cdef Outcome copy_back(SendService s, Connection* c, const Header* h, const SendBack* r,
                       const Group* group, Topic* retry, bint resubmitted) noexcept nogil:
    cdef RecordView view
    cdef AckReply to
    cdef char remark[128]
    cdef Topic* target
    cdef int32_t queue_id = 0, level = 0
    cdef int bytes, status = view_record(s.append.log, &s.fetch.parked, r.log_offset, &view)
    if status == ABSENT:
        return NEEDS_RECORD
    if status == NOT_READY:
        return refuse_back(s, c, h, NOT_READY)
    if status != OK:
        snprintf(remark, sizeof(remark), b"no message starts at offset %lld of the commit log",
                 <long long> r.log_offset)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if s.turn.is_bound and not is_named_topic(&view, r, retry):
        return reply_error(s.turn, c, h, NO_PERMISSION,
                           b"the message at this offset is of another topic than the request names")
    if (r.delay_level < 0
            or view.reconsume_times >= retries_max(group, h, r.has_max_times, r.max_times)):
        target = topic_of_group(s, DLQ_PREFIX, DLQ_PREFIX_BYTES, r.group.bytes, r.group.length)
        if target == NULL:
            return refuse_back(s, c, h, NOT_READY) if resubmitted else TO_CONTROL
    else:
        target = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> SCHEDULE_TOPIC,
                                        SCHEDULE_TOPIC_BYTES)
        if target == NULL or s.delay.schedule.count == 0:
            return refuse_back(s, c, h, NOT_READY)      # the broker is starting
        level = level_of(s, group, r.delay_level, view.reconsume_times)
        s.turn.random ^= s.turn.random << 13
        s.turn.random ^= s.turn.random >> 17
        s.turn.random ^= s.turn.random << 5
        queue_id = <int32_t> (s.turn.random % <uint32_t> group.retry_queues)
        if queue_id >= retry.write_queues:
            queue_id = 0
    reply_to(&to, c, h)
    status = promise_room_to(s.append, &to)
    if status != OK:
        return refuse_back(s, c, h, status)
    bytes = write_properties(s, &view, retry, queue_id, level)
    if bytes < 0:
        return refuse_back(s, c, h, bytes)
    status = append_copy(s, &view, target, level - 1 if level > 0 else 0, bytes, level)
    if status != OK:
        return refuse_back(s, c, h, status)
    if level > 0:
        s.turn.counters.sent_back += 1
    else:
        s.turn.counters.dead_letters += 1
    promise(s.append, &to, ANSWER_CODE)
    return DONE


cdef Outcome accept_send_back(SendService s, Connection* c, const Header* h, const Frame* f,
                              bint resubmitted) noexcept nogil:
    cdef SendBack r
    cdef Group* group
    cdef Topic* retry
    cdef char remark[256]
    cdef int64_t pinned = s.append.log.pinned_low
    cdef Outcome outcome
    if read_send_back(h, &r) != OK:
        snprintf(remark, sizeof(remark), b"the field %s is missing or not a number", r.bad_field)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if is_slave(&s.turn.role):
        return reply_error(s.turn, c, h, SERVICE_NOT_AVAILABLE, refuse_remark(&s.turn.role))
    group = group_find(&s.tables.groups, r.group.bytes, r.group.length)
    retry = topic_of_group(s, RETRY_PREFIX, RETRY_PREFIX_BYTES, r.group.bytes, r.group.length)
    if (group == NULL or not group.retries_known or r.group.escaped
            or not s.turn.options.broker_permission & PERM_WRITE
            or (retry == NULL and group.retry_queues > 0)):
        if not resubmitted:
            return TO_CONTROL
        return reply_error(s.turn, c, h, SYSTEM_ERROR,
                           b"the group or its retry topic changed while the "
                           b"request was looked at; send back again")
    if group.retry_queues <= 0:
        return reply_error(s.turn, c, h, SUCCESS, b"")
    if not retry.permission & PERM_WRITE:
        snprintf(remark, sizeof(remark), b"the topic[%.128s] sending message is forbidden",
                 retry.name)
        return reply_error(s.turn, c, h, NO_PERMISSION, remark)
    if not is_writable(&s.turn.role):
        return reply_error(s.turn, c, h, SERVICE_NOT_AVAILABLE, refuse_remark(&s.turn.role))
    outcome = copy_back(s, c, h, &r, group, retry, resubmitted)
    s.append.log.unpin(pinned)          # the source record must not keep the ring from going on
    return outcome
