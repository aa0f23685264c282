"""Acknowledgement. See acknowledgement.pxd."""
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memset, strlen

from cext.base.clock cimport boot_ms, monotonic_us
from cext.flow.append.ack_queue cimport (
    ANSWER_CHANGE,
    ANSWER_CODE,
    ANSWER_RECALL,
    ANSWER_SEND,
    MARKS,
    MARK_DURABLE,
    MARK_REPLICATED,
    AckQueue,
    ack_queue_first,
    ack_queue_is_empty,
    ack_queue_pop,
    acks_wait,
)
from cext.flow.append.recall_handle cimport HANDLE_BYTES_MAX, write_recall_handle
from cext.flow.context.reply_space cimport reply_space_commit
from cext.flow.context.role cimport slaves_missing
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.small_replies cimport reply_error_to
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep, StepDrained
from cext.memory.buffer_pool cimport buffer_pool_release
from cext.net.connection cimport Connection
from cext.wire.codes cimport (
    FLUSH_DISK_TIMEOUT,
    FLUSH_SLAVE_TIMEOUT,
    SERVICE_NOT_AVAILABLE,
    SLAVE_NOT_AVAILABLE,
    SUCCESS,
)
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX, write_offset_message_id
from cext.wire.replies cimport (
    POP_REPLY_BYTES_MAX,
    PopReply,
    SendReply,
    recall_reply_bytes_max,
    send_reply_bytes_max,
    write_pop_reply_header,
    write_recall_reply,
    write_send_reply,
)
from cext.wire.text cimport Text, text_of

cdef enum:
    EXPIRY_MS = 50              # how late a timeout may be noticed


cdef void drop_early_reply(Appender s, PendingAck* ack) noexcept nogil:
    if ack.early_reply != NULL:
        buffer_pool_release(&s.turn.net.jumbo_pool, ack.early_reply)
        ack.early_reply = NULL


cdef void answer_recall(Appender s, PendingAck* ack) noexcept nogil:
    cdef Text key = text_of(ack.uniq_key, ack.uniq_key_bytes)
    cdef Text region = text_of(s.turn.options.region, s.turn.options.region_bytes)
    cdef uint8_t* at = s.turn.net.reserve_reply(ack.to.connection,
                                                recall_reply_bytes_max(&key, &region))
    if at == NULL or not s.turn.net.commit_reply(ack.to.connection, write_recall_reply(
            at, ack.to.opaque, ack.to.serialize_type, &key, &region)):
        s.turn.net.close_connection(ack.to.connection)


cdef void answer_change(Appender s, PendingAck* ack) noexcept nogil:
    cdef PopReply reply
    cdef uint8_t* at = s.turn.net.reserve_reply(ack.to.connection, POP_REPLY_BYTES_MAX)
    memset(&reply, 0, sizeof(reply))
    reply.opaque = ack.to.opaque
    reply.serialize_type = ack.to.serialize_type
    reply.pop_ms = ack.changed.pop_ms
    reply.invisible_ms = ack.changed.invisible_ms
    reply.revive_queue = ack.changed.revive_queue
    reply.rest = -1
    if at == NULL or not s.turn.net.commit_reply(ack.to.connection,
                                                 write_pop_reply_header(at, &reply)):
        s.turn.net.close_connection(ack.to.connection)


cdef void answer_ack(Appender s, PendingAck* ack, int32_t code,
                     const char* remark) noexcept nogil:
    """Writes the reply, in the client's own serialisation; nothing if the client has left."""
    cdef Connection* c = ack.to.connection
    cdef SendReply reply
    cdef uint8_t message_id[MESSAGE_ID_BYTES_MAX]
    cdef uint8_t handle[HANDLE_BYTES_MAX]
    cdef uint32_t handle_bytes = 0
    cdef uint8_t* at
    if c.id != ack.to.connection_id:
        drop_early_reply(s, ack)
        return
    if ack.early_reply != NULL and code == SUCCESS:
        if not reply_space_commit(s.turn, c, ack.early_reply, ack.early_reply_bytes,
                                  ack.early_reply):
            s.turn.net.close_connection(c)
        ack.early_reply = NULL
        return
    drop_early_reply(s, ack)
    if ack.answer == ANSWER_CODE or (code != SUCCESS and ack.answer != ANSWER_SEND):
        if remark == NULL:
            remark = b""
        if not reply_error_to(s.turn, c, ack.to.opaque, ack.to.serialize_type, code, remark):
            s.turn.net.close_connection(c)
        return
    if ack.answer == ANSWER_RECALL:
        answer_recall(s, ack)
        return
    if ack.answer == ANSWER_CHANGE:
        answer_change(s, ack)
        return
    reply.opaque = ack.to.opaque
    reply.serialize_type = ack.to.serialize_type
    reply.code = code
    reply.remark = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark)) \
        if remark != NULL else text_of(NULL, 0)
    reply.queue_id = ack.queue_id
    reply.queue_offset = ack.queue_offset
    reply.message_ids = text_of(message_id, write_offset_message_id(
        message_id, s.turn.options.store_host, s.turn.options.store_host_bytes,
        ack.physical_offset))
    reply.transaction_id = text_of(ack.uniq_key if ack.uniq_key_bytes > 0 else NULL,
                                   ack.uniq_key_bytes)
    reply.region = text_of(s.turn.options.region, s.turn.options.region_bytes)
    if ack.has_recall_handle:
        handle_bytes = write_recall_handle(s, ack.physical_offset, handle)
    reply.recall_handle = text_of(handle if handle_bytes > 0 else NULL, handle_bytes)
    reply.trace_on = s.turn.options.trace_on
    at = s.turn.net.reserve_reply(c, <uint32_t> send_reply_bytes_max(&reply))
    if at == NULL:
        s.turn.net.close_connection(c)
        return
    if not s.turn.net.commit_reply(c, write_send_reply(at, &reply)):
        s.turn.net.close_connection(c)


cdef inline int64_t reached(Appender s, int32_t mark) noexcept nogil:
    cdef int64_t offset = s.log.marks.appended if s.log.pooled else s.log.marks.written
    if mark & MARK_DURABLE:
        offset = min(offset, s.acks.durable_seen)
    if mark & MARK_REPLICATED:
        offset = min(offset, s.log.marks.replicated)
    return offset


cdef inline PendingAck* next_ack(Appender s, AckQueue* queue, PendingAck* ack) noexcept nogil:
    """The entry after `ack`, whose answer is queued. When that is for another connection, a buffer
    of this one may be given back."""
    cdef Connection* c = ack.to.connection
    cdef uint64_t id = ack.to.connection_id
    ack_queue_pop(queue)
    ack = ack_queue_first(queue)
    if ack == NULL or ack.to.connection != c:
        s.turn.net.spare_buffer(c, id)
    return ack


cdef void settle(Appender s, int32_t mark) noexcept nogil:
    cdef AckQueue* queue = &s.acks.waiting[mark]
    cdef PendingAck* ack = ack_queue_first(queue)
    cdef int64_t end = reached(s, mark)
    cdef int64_t now_ms, arrived = 0
    cdef int32_t code = 0
    cdef uint64_t alike = 0                 # answers since the last one that differed
    if ack == NULL or ack.end > end:
        return
    if s.turn.role.lease_end_ms != INT64_MAX and boot_ms() >= s.turn.role.lease_end_ms:
        return                              # by a fresh clock: the process may have stood still
    now_ms = monotonic_us() // 1000
    while ack != NULL and ack.end <= end:
        if ack.to.request_code != code or ack.arrived_ms != arrived:
            if alike > 0:
                rpc_record(&s.turn.rpc, code, SUCCESS, False, now_ms - arrived, alike)
            code = ack.to.request_code
            arrived = ack.arrived_ms
            alike = 0
        alike += 1
        answer_ack(s, ack, SUCCESS, NULL)
        ack = next_ack(s, queue, ack)
    rpc_record(&s.turn.rpc, code, SUCCESS, False, now_ms - arrived, alike)


cdef void refuse_all(Appender s, const char* remark) noexcept nogil:
    cdef AckQueue* queue
    cdef PendingAck* ack
    cdef int32_t mark
    for mark in range(MARKS):
        queue = &s.acks.waiting[mark]
        ack = ack_queue_first(queue)
        while ack != NULL:
            refuse(s, ack, remark)
            ack = next_ack(s, queue, ack)


cdef void refuse(Appender s, PendingAck* ack, const char* remark) noexcept nogil:
    rpc_record(&s.turn.rpc, ack.to.request_code, SERVICE_NOT_AVAILABLE, False,
               s.turn.now_ms - ack.arrived_ms, 1)
    drop_early_reply(s, ack)
    if ack.to.connection.id == ack.to.connection_id and not reply_error_to(
            s.turn, ack.to.connection, ack.to.opaque, ack.to.serialize_type, SERVICE_NOT_AVAILABLE,
            remark):
        s.turn.net.close_connection(ack.to.connection)


cdef int32_t overdue(Appender s, int32_t mark, const PendingAck* ack) noexcept nogil:
    """The code for an answer that has waited too long; SUCCESS: it has not."""
    if (mark & MARK_REPLICATED and slaves_missing(&s.turn.role)
            and ack.end > s.log.marks.replicated):
        return SLAVE_NOT_AVAILABLE
    if (mark & MARK_REPLICATED and ack.end > s.log.marks.replicated
            and ack.arrived_ms + s.turn.options.slave_timeout_ms <= s.turn.now_ms):
        return FLUSH_SLAVE_TIMEOUT
    if (mark & MARK_DURABLE and ack.end > s.acks.durable_seen
            and ack.arrived_ms + s.turn.options.sync_flush_timeout_ms <= s.turn.now_ms):
        return FLUSH_DISK_TIMEOUT
    return SUCCESS


cdef const char* remark_of(int32_t code) noexcept nogil:
    if code == SLAVE_NOT_AVAILABLE:
        return b"stored, but fewer slaves follow than are to have it"
    if code == FLUSH_SLAVE_TIMEOUT:
        return b"stored, but not replicated within slaveTimeout"
    return b"stored, but not synced to disk within syncFlushTimeout"


cdef void expire(Appender s, int32_t mark) noexcept nogil:
    cdef AckQueue* queue = &s.acks.waiting[mark]
    cdef PendingAck* ack = ack_queue_first(queue)
    cdef int32_t code
    while ack != NULL:
        code = overdue(s, mark, ack)
        if code == SUCCESS:
            return
        rpc_record(&s.turn.rpc, ack.to.request_code, code, False, s.turn.now_ms - ack.arrived_ms, 1)
        answer_ack(s, ack, code, remark_of(code))
        ack = next_ack(s, queue, ack)


cdef void settle_turn(Appender s) noexcept nogil:
    cdef int32_t mark
    # Read once for all marks, so that a move between two reads is not missed before the next sleep.
    s.acks.durable_seen = s.log.durable()
    for mark in range(1, MARKS):
        if not ack_queue_is_empty(&s.acks.waiting[mark]):
            settle(s, mark)
            expire(s, mark)


cdef int32_t settle_wait(Appender s) noexcept nogil:
    return NO_WAIT if is_settled(s) else EXPIRY_MS


cdef bint is_settled(Appender s) noexcept nogil:
    return not acks_wait(&s.acks, MARK_DURABLE | MARK_REPLICATED)


cdef Step settle_step(Appender s) noexcept:
    return Step(b"settle", <void*> s, <RunStep> settle_turn, <NextWait> settle_wait,
                <StepDrained> is_settled)
