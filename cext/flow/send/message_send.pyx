"""Sends. See message_send.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset

from cext.base.check cimport check
from cext.base.prefetch cimport prefetch_to_write
from cext.base.status cimport (
    IO_ERROR, MALFORMED, NOT_READY, NO_SPACE, OK, POISONED, RING_FULL, TOO_LARGE,
)
from cext.flow.append.ack_queue cimport (
    ANSWER_SEND,
    MARK_WRITTEN,
    UNIQ_KEY_MAX,
    AckReply,
    PendingAck,
)
from cext.flow.append.acknowledgement cimport reply_to
from cext.flow.append.append_status cimport (
    DELETES_ELSEWHERE,
    NOT_STARTED,
    NO_TRANSACTION,
    SPECIAL,
    STORE_POOL_FULL,
    TIMER_ILLEGAL,
    TIMER_OFF,
    TOO_MANY_OPEN,
)
from cext.flow.append.appender cimport DISPATCH_MAX
from cext.flow.append.disk_alerts cimport log_disk_alerts, poison_remark
from cext.flow.append.message_append cimport (
    CHECKSUM_BYTES_MAX,
    Appended,
    Message,
    append_message,
    append_scanned,
    record_bytes_max,
    scanned_bytes,
)
from cext.flow.append.promise cimport promise_at, promise_mark, promise_room
from cext.flow.append.recall_handle cimport has_recall_handle
from cext.flow.append.turn_room cimport send_room
from cext.flow.context.client_state cimport UNREAD_BACKPRESSURE
from cext.flow.context.outcome cimport DONE, GO_ON, TO_CONTROL_IN_ORDER, TURN_FULL
from cext.flow.context.refusal cimport OTHERWISE, Refusal, refusal_of
from cext.flow.context.role cimport is_slave, is_writable, refuse_code, refuse_remark, sends_wait
from cext.flow.context.small_replies cimport reply_error
from cext.flow.send.dead_letter cimport find_dead_letters, leave_delay_out
from cext.flow.send.send_service cimport BATCH_IDS_BYTES
from cext.flow.tables.queue_mapping cimport (
    LogicItem,
    is_logical,
    logic_leader,
    logic_offset_sent,
)
from cext.flow.tables.topic_table cimport KINDS, Topic, topic_queue
from cext.flow.transaction.redirect cimport append_redirected
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RECORD_FIXED_BYTES_MAX
from cext.store.queues.consume_queue cimport Queue
from cext.wire.batch cimport BatchMessage, batch_next
from cext.wire.codes cimport (
    FLAG_ONE_WAY,
    INVALID_PARAMETER,
    MESSAGE_ILLEGAL,
    NOT_LEADER_FOR_QUEUE,
    NO_PERMISSION,
    PERM_WRITE,
    SEND_BATCH_MESSAGE,
    SERVICE_NOT_AVAILABLE,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    SYS_FLAGS_KNOWN,
    TRANSACTION_TYPE_MASK,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, TOPIC_CHARACTERS_MAX
from cext.wire.message_id cimport write_offset_message_id
from cext.wire.properties cimport SendProperties, scan_batched, scan_properties, tags_code
from cext.wire.property_edit cimport copy_without_reserved
from cext.wire.replies cimport SendReply, write_send_reply
from cext.wire.send_request cimport SendRequest, read_send_request
from cext.wire.system_topics cimport TOPIC_RETRY, is_closed
from cext.wire.text cimport Text, text_copy, text_of

cdef Refusal[12] refusals = [
    Refusal(NO_SPACE, SERVICE_NOT_AVAILABLE,
            b"service not available now: the broker's disk is full, no space for more of the "
            b"commit log; sends go on by themselves when space is freed"),
    Refusal(IO_ERROR, SERVICE_NOT_AVAILABLE,
            b"service not available now: the consume queue files can not be written"),
    Refusal(STORE_POOL_FULL, SYSTEM_BUSY,
            b"[REJECTREQUEST]system busy, start flow control for a while: the store pool is full"),
    Refusal(NOT_READY, SYSTEM_BUSY,
            b"[PC_SYNCHRONIZED]broker busy, start flow control for a while: the next commit log "
            b"file is not ready yet"),
    Refusal(TOO_MANY_OPEN, SYSTEM_BUSY,
            b"[REJECTREQUEST]system busy, start flow control for a while: too many transactions "
            b"are open"),
    Refusal(NOT_STARTED, SYSTEM_BUSY,
            b"[REJECTREQUEST]system busy, start flow control for a while: the broker is starting"),
    Refusal(TOO_LARGE, MESSAGE_ILLEGAL,
            b"the message is illegal: its properties, with those that the broker adds, are longer "
            b"than 32767 bytes, or the batch does not fit"),
    Refusal(SPECIAL, MESSAGE_ILLEGAL,
            b"the message is illegal: a batch may neither be delayed nor timed nor transactional "
            b"nor go to a retry topic"),
    Refusal(TIMER_OFF, SYSTEM_ERROR,
            b"accurate timer message is not enabled, timerWheelEnable is false"),
    Refusal(DELETES_ELSEWHERE, MESSAGE_ILLEGAL,
            b"the message is illegal: TIMER_DEL_UNIQKEY has to begin with its own topic and a +"),
    Refusal(NO_TRANSACTION, NO_PERMISSION,
            b"the broker takes no such transaction message: it rejects all of them, or TRAN_MSG "
            b"or PGROUP is missing"),
    Refusal(OTHERWISE, MESSAGE_ILLEGAL,     # MALFORMED
            b"the message is illegal: its properties or its batch body are malformed"),
]


cdef Outcome refuse(SendService s, Connection* c, const Header* h, int32_t code,
                    const char* remark) noexcept nogil:
    s.turn.counters.sends_refused += 1
    return reply_error(s.turn, c, h, code, remark)


cdef Outcome refuse_timer(SendService s, Connection* c, const Header* h) noexcept nogil:
    cdef char remark[256]
    snprintf(remark, sizeof(remark), b"timer message illegal, the delay time should not be "
             b"bigger than the max delay %lldms; or if set del msg, the delay time should be "
             b"bigger than the current time", <long long> s.delay.timers.max_delay_ms)
    return refuse(s, c, h, MESSAGE_ILLEGAL, remark)


cdef Outcome refuse_status(SendService s, Connection* c, const Header* h,
                           int status) noexcept nogil:
    """The log did not take the record: says why in RocketMQ's codes (docs/protocol.md, Sending)."""
    cdef const Refusal* refusal
    if status == RING_FULL:
        return TURN_FULL
    if status == POISONED:
        return refuse(s, c, h, SERVICE_NOT_AVAILABLE,
                      poison_remark(&s.append.alerts, s.append.log))
    if status == TIMER_ILLEGAL:
        return refuse_timer(s, c, h)
    if status == NO_SPACE:
        # It may be over before the next look.
        log_disk_alerts(&s.append.alerts, s.turn, s.append.log, s.append.queues)
    if status == NOT_READY and s.append.log.pooled:
        status = STORE_POOL_FULL
    refusal = refusal_of(refusals, status)
    return refuse(s, c, h, refusal.code, refusal.text)


cdef Outcome refuse_promise(SendService s, Connection* c, const Header* h, int status,
                            const char* remark) noexcept nogil:
    if status == NOT_READY:
        return refuse(s, c, h, SYSTEM_BUSY, remark)
    return refuse_status(s, c, h, status)


cdef Outcome refuse_late(SendService s, Connection* c, const Header* h) noexcept nogil:
    """The send came while the last write-out was stuck: its client should try another broker."""
    cdef char remark[160]
    cdef const char* why = b"PCBUSY_CLEAN_QUEUE" \
        if s.turn.stalled_ms >= s.turn.options.page_cache_busy_ms else b"TIMEOUT_CLEAN_QUEUE"
    snprintf(remark, sizeof(remark), b"[%s]broker busy, start flow control for a while, period in "
             b"queue: %lldms, size of queue: %d", why, <long long> s.turn.stalled_ms,
             s.turn.net.event_count)
    return refuse(s, c, h, SYSTEM_BUSY, remark)


cdef Outcome refuse_led_elsewhere(SendService s, Connection* c, const Header* h,
                                  const SendRequest* r, const Topic* topic) noexcept nogil:
    cdef char remark[256]
    snprintf(remark, sizeof(remark), b"queue %d of the static topic %.128s is not led by this "
             b"broker", r.queue_id, topic.name)
    return refuse(s, c, h, NOT_LEADER_FOR_QUEUE, remark)


cdef inline uint32_t next_random(SendService s) noexcept nogil:
    s.turn.random ^= s.turn.random << 13
    s.turn.random ^= s.turn.random >> 17
    s.turn.random ^= s.turn.random << 5
    return s.turn.random


cdef int32_t choose_queue(SendService s, Topic* topic) noexcept nogil:
    return <int32_t> (next_random(s) % <uint32_t> (topic.write_queues if topic.write_queues > 0
                                                   else 1))


cdef PendingAck* promise_send(SendService s, Connection* c, const Header* h, const Appended* a,
                              int32_t queue_id, const LogicItem* item,
                              int32_t mark) noexcept nogil:
    """After promise_room(): the answer says where the message is. `item`: the logical queue's."""
    cdef AckReply to
    cdef PendingAck* ack
    cdef uint32_t n = a.properties.uniq_key.length
    reply_to(&to, c, h)
    ack = promise_at(s.append, &to, ANSWER_SEND, mark)
    ack.physical_offset = a.physical_offset
    ack.queue_offset = a.queue_offset
    ack.queue_id = queue_id
    if item != NULL:
        ack.queue_id = item.logic_id
        ack.queue_offset = logic_offset_sent(item, a.queue_offset)
    ack.has_recall_handle = has_recall_handle(&a.properties)
    if a.properties.uniq_key.bytes != NULL and n <= UNIQ_KEY_MAX:
        memcpy(ack.uniq_key, a.properties.uniq_key.bytes, n)
        ack.uniq_key_bytes = <uint8_t> n
    return ack


cdef Outcome accept_single(SendService s, Connection* c, const Header* h, const Frame* f,
                           const SendRequest* r, Topic* topic, Queue* queue,
                           const LogicItem* item, bint dead) noexcept nogil:
    cdef Message m
    cdef Appended a
    cdef bint one_way = (h.flag & FLAG_ONE_WAY) != 0
    cdef int status
    m.body = f.body
    m.body_bytes = f.body_bytes
    m.properties = r.properties
    m.flag = r.flag
    m.sys_flag = r.sys_flag
    m.reconsume_times = r.reconsume_times
    m.born_timestamp_ms = r.born_timestamp_ms
    m.prepared_offset = 0
    m.born_host = c.address
    m.born_host_bytes = c.address_bytes
    m.plain_only = True
    m.add_properties = True
    m.own_tags_code = False
    m.tags_code = 0
    m.stored = False
    m.spare = 0
    status = send_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
    prefetch_to_write(queue.write_at)
    if status != OK:
        return refuse_status(s, c, h, status)
    # Room for the answer first: what is appended must be answerable.
    if not one_way:
        status = promise_room(s.append)
        if status != OK:
            return refuse_promise(s, c, h, status, b"[OVERLOAD]system busy, start flow control "
                                  b"for a while: too many sends wait for the disk")
    status = append_message(s.append, topic, queue, &m, &a)
    if status == SPECIAL:
        status = append_redirected(s.transaction, topic, queue, &m, False, &a)
    if status != OK:
        return refuse_status(s, c, h, status)
    s.turn.counters.dead_letters += dead
    if not one_way:
        promise_send(s, c, h, &a, queue.queue_id, item,
                     promise_mark(s.append, a.properties.wait_store_ok))
    return DONE


# ------------------------------------------------------------------- batches

cdef int measure_batch(SendService s, const Frame* f, const Topic* topic, int64_t* bytes,
                       int32_t* records, bint* reserved) noexcept nogil:
    """Walks through a batch body without storing anything: finds out its room, its tag codes
    (batch_tags), and whether some properties are reserved for the broker. After OK, the whole batch
    can be appended.

    OK, MALFORMED, SPECIAL or TOO_LARGE."""
    cdef const uint8_t* at = f.body
    cdef const uint8_t* end = f.body + f.body_bytes
    cdef BatchMessage entry
    cdef Text tags
    cdef bint special
    bytes[0] = 0
    records[0] = 0
    reserved[0] = False
    if topic.kind == TOPIC_RETRY or topic.name_length > TOPIC_CHARACTERS_MAX:
        return SPECIAL
    while at < end:
        # An empty body is refused in a single send and stored in a batch, as RocketMQ does.
        if (batch_next(&at, end, &entry) != OK
                or scan_batched(entry.properties, entry.properties_bytes, &tags,
                                &special, reserved) != OK):
            return MALFORMED
        if special:
            return SPECIAL
        if records[0] == DISPATCH_MAX or (
                entry.properties_bytes > PROPERTIES_BYTES_MAX - CHECKSUM_BYTES_MAX
                and scanned_bytes(s.append, entry.properties,
                                  entry.properties_bytes) > PROPERTIES_BYTES_MAX):
            return TOO_LARGE
        s.batch_tags[records[0]] = 0
        if tags.bytes != NULL:
            s.batch_tags[records[0]] = tags_code(tags.bytes, tags.length)
        bytes[0] += (RECORD_FIXED_BYTES_MAX + topic.name_length + entry.body_bytes
                     + entry.properties_bytes + CHECKSUM_BYTES_MAX)
        records[0] += 1
    return OK if records[0] > 0 else MALFORMED


cdef uint32_t write_batch_reply(SendService s, const Header* h, uint8_t* out, int32_t queue_id,
                                int64_t queue_offset, uint32_t ids_bytes) noexcept nogil:
    """The reply of a batch. It is made early because it names every message (s.batch_ids)."""
    cdef SendReply reply
    memset(&reply, 0, sizeof(reply))
    reply.opaque = h.opaque
    reply.serialize_type = h.serialize_type
    reply.code = SUCCESS
    reply.queue_id = queue_id
    reply.queue_offset = queue_offset
    reply.message_ids = text_of(s.batch_ids, ids_bytes)
    reply.region = text_of(s.turn.options.region, s.turn.options.region_bytes)
    reply.trace_on = s.turn.options.trace_on
    return write_send_reply(out, &reply)


cdef bint batch_waits(SendService s, const SendRequest* r) noexcept nogil:
    """Whether the answer waits for more than `written`: the batch's own properties only hold WAIT,
    and are never stored."""
    cdef SendProperties outer
    cdef int32_t length
    if (promise_mark(s.append, True) == MARK_WRITTEN or r.properties.bytes == NULL
            or r.properties.length > BATCH_IDS_BYTES):
        return True
    length = text_copy(&r.properties, s.batch_ids, BATCH_IDS_BYTES)
    return length < 0 or scan_properties(s.batch_ids, length, &outer) != OK or outer.wait_store_ok


cdef void leave_reserved_out(SendService s, Text* properties) noexcept nogil:
    """For a message of a batch, which was measured with them: the rest is not longer."""
    cdef uint32_t length = copy_without_reserved(properties.bytes, properties.length,
                                                 s.turn.scratch.after)
    if length < properties.length:
        properties[0] = text_of(s.turn.scratch.after, length)


cdef void fill_batch(const SendRequest* r, Connection* c, Message* out) noexcept nogil:
    """Fills in what all messages of a batch share."""
    out.sys_flag = r.sys_flag
    out.reconsume_times = r.reconsume_times
    out.born_timestamp_ms = r.born_timestamp_ms
    out.prepared_offset = 0
    out.born_host = c.address
    out.born_host_bytes = c.address_bytes
    out.plain_only = False          # measure_batch() has looked
    out.add_properties = False
    out.own_tags_code = True
    out.stored = False
    out.spare = 0


cdef Outcome accept_batch(SendService s, Connection* c, const Header* h, const Frame* f,
                          const SendRequest* r, Topic* topic, Queue* queue,
                          const LogicItem* item) noexcept nogil:
    cdef const uint8_t* at = f.body
    cdef BatchMessage entry
    cdef Message m
    cdef Appended a, first
    cdef PendingAck* ack
    cdef uint8_t* early = NULL
    cdef int32_t mark
    cdef int64_t bytes = 0
    cdef int32_t records = 0, done = 0
    cdef uint32_t ids = 0
    cdef bint reserved = False
    cdef bint one_way = (h.flag & FLAG_ONE_WAY) != 0
    cdef int status = measure_batch(s, f, topic, &bytes, &records, &reserved)
    if status != OK:
        return refuse_status(s, c, h, status)
    status = TOO_LARGE
    if bytes <= s.append.log.max_record_bytes:
        status = send_room(s.append, queue, <uint32_t> bytes, records)
    if status != OK:
        return refuse_status(s, c, h, status)
    mark = promise_mark(s.append, batch_waits(s, r))
    if not one_way:
        status = promise_room(s.append)
        if status == OK:
            early = <uint8_t*> buffer_pool_take(&s.turn.net.jumbo_pool)
        if early == NULL:
            return refuse_promise(s, c, h, status, b"[OVERLOAD]system busy, start flow control "
                                  b"for a while: too many batches wait for the disk")
    fill_batch(r, c, &m)
    memset(&first, 0, sizeof(first))
    while done < records and batch_next(&at, f.body + f.body_bytes, &entry) == OK:
        m.body = entry.body
        m.body_bytes = entry.body_bytes
        m.flag = entry.flag
        m.properties = text_of(entry.properties, entry.properties_bytes)
        if reserved:
            leave_reserved_out(s, &m.properties)
        m.tags_code = s.batch_tags[done]
        status = append_scanned(s.append, topic, queue, &m, KINDS, &a)
        if status == POISONED:      # a sync has just failed: nothing more reaches the disk
            if early != NULL:
                buffer_pool_release(&s.turn.net.jumbo_pool, early)
            return refuse_status(s, c, h, status)
        check(status == OK, b"a batch: what was measured can be appended", status, done)
        if done == 0:
            first.physical_offset = a.physical_offset
            first.queue_offset = a.queue_offset
        elif not one_way:
            s.batch_ids[ids] = 44   # a comma
            ids += 1
        if not one_way:
            ids += write_offset_message_id(s.batch_ids + ids, s.turn.options.store_host,
                                           s.turn.options.store_host_bytes, a.physical_offset)
        done += 1
    check(done == records, b"a batch: as many records as were measured", done, records)
    if one_way:
        return DONE
    ack = promise_send(s, c, h, &first, queue.queue_id, item, mark)
    ack.early_reply = early
    ack.early_reply_bytes = write_batch_reply(s, h, early, ack.queue_id, ack.queue_offset, ids)
    return DONE


# ------------------------------------------------------------------- any send

cdef Outcome check_send(SendService s, Connection* c, const Header* h, const Frame* f,
                        const SendRequest* r, Topic* topic) noexcept nogil:
    """Makes the checks of a known topic, in RocketMQ's order: GO_ON when all pass."""
    cdef char remark[256]
    if is_closed(topic.kind):
        snprintf(remark, sizeof(remark), b"Sending message to topic[%.128s] is forbidden.",
                 topic.name)
        return refuse(s, c, h, NO_PERMISSION, remark)
    if r.queue_id >= (topic.read_queues if topic.read_queues > topic.write_queues
                      else topic.write_queues):
        snprintf(remark, sizeof(remark), b"request queueId[%d] is illegal, topic:[%.128s] "
                 b"readQueueNums:[%d] writeQueueNums:[%d]", r.queue_id, topic.name,
                 topic.read_queues, topic.write_queues)
        return refuse(s, c, h, INVALID_PARAMETER, remark)
    if not is_writable(&s.turn.role):
        return refuse(s, c, h, refuse_code(&s.turn.role), refuse_remark(&s.turn.role))
    if f.body_bytes == 0:
        return refuse(s, c, h, MESSAGE_ILLEGAL, b"the message is illegal: it has no body")
    if f.body_bytes > s.turn.options.message_max_bytes:
        snprintf(remark, sizeof(remark), b"the message is illegal: its body has %u bytes, "
                 b"maxMessageSize is %lld", f.body_bytes,
                 <long long> s.turn.options.message_max_bytes)
        return refuse(s, c, h, MESSAGE_ILLEGAL, remark)
    if r.sys_flag & ~<int32_t> SYS_FLAGS_KNOWN:
        snprintf(remark, sizeof(remark), b"the message is illegal: unknown system flags 0x%x",
                 <unsigned int> (r.sys_flag & ~<int32_t> SYS_FLAGS_KNOWN))
        return refuse(s, c, h, MESSAGE_ILLEGAL, remark)
    if r.sys_flag & TRANSACTION_TYPE_MASK and (r.batch or h.code == SEND_BATCH_MESSAGE):
        return refuse(s, c, h, NO_PERMISSION, b"a batch may not be transactional")
    return GO_ON


cdef Outcome accept_send(SendService s, Connection* c, const Header* h, const Frame* f,
                         bint resubmitted) noexcept nogil:
    cdef SendRequest r
    cdef Topic* topic
    cdef Topic* dead = NULL             # where a send to a retry topic goes instead
    cdef const LogicItem* item = NULL   # for a logical queue: where it goes
    cdef Queue* queue
    cdef char remark[256]
    cdef bint batch, known
    cdef Outcome checked
    cdef int status
    if read_send_request(h, &r) != OK:
        snprintf(remark, sizeof(remark), b"the send's field %s is missing or not a number",
                 r.bad_field)
        return refuse(s, c, h, SYSTEM_ERROR, remark)
    if is_slave(&s.turn.role):           # before control makes a topic for it
        return refuse(s, c, h, SERVICE_NOT_AVAILABLE, refuse_remark(&s.turn.role))
    topic = <Topic*> name_map_find(&s.tables.topics, r.topic.bytes, r.topic.length)
    batch = r.batch or h.code == SEND_BATCH_MESSAGE
    known = topic != NULL
    if known and topic.kind == TOPIC_RETRY and not batch:
        known = find_dead_letters(s, h, &r, topic, resubmitted, &dead)
    if not known:
        if resubmitted:
            return refuse(s, c, h, SYSTEM_ERROR, b"the topic or its group was deleted or changed "
                          b"while the message was on its way; send again")
        return TO_CONTROL_IN_ORDER
    if not resubmitted and (s.turn.wall_ms < s.turn.options.sends_from_ms
                            or sends_wait(&s.turn.role) or
                            (topic.order and not s.turn.options.broker_permission & PERM_WRITE)):
        return TO_CONTROL_IN_ORDER              # control says why, or gives it back later
    if (s.turn.options.fast_failure and s.turn.stalled_ms >= s.turn.options.send_wait_ms
            and not resubmitted):
        return refuse_late(s, c, h)
    if s.append.backpressure.leaves_unread:
        s.turn.net.stop_reading(c, UNREAD_BACKPRESSURE)      # this send still has room
    if topic.mapping != NULL and is_logical(h):
        item = logic_leader(topic.mapping, r.queue_id, next_random(s))
        if item == NULL:
            return refuse_led_elsewhere(s, c, h, &r, topic)
        r.queue_id = item.queue_id
    # Among tens of thousands of queues this one is seldom in the cache: it is loaded meanwhile.
    if 0 <= r.queue_id < topic.queue_slots:
        prefetch_to_write(topic.queues[r.queue_id])
    checked = check_send(s, c, h, f, &r, topic)
    if checked == GO_ON and dead != NULL:
        topic = dead
        item = NULL
        r.queue_id = 0
        checked = check_send(s, c, h, f, &r, topic)
    if checked != GO_ON:
        return checked
    queue = topic_queue(topic, s.append.queues,
                        r.queue_id if r.queue_id >= 0 else choose_queue(s, topic))
    if queue == NULL:
        return refuse(s, c, h, SYSTEM_ERROR, b"no memory for the topic's queue")
    if batch:
        return accept_batch(s, c, h, f, &r, topic, queue, item)
    if dead != NULL:
        status = leave_delay_out(s, &r.properties)
        if status != OK:
            return refuse_status(s, c, h, status)
    return accept_single(s, c, h, f, &r, topic, queue, item, dead != NULL)
