"""Transaction end. See transaction_end.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memmove

from cext.base.histogram_buckets cimport histogram_record
from cext.base.status cimport ABSENT, CORRUPT, NOT_READY, OK, RING_FULL
from cext.flow.append.ack_queue cimport ANSWER_CODE, AckReply
from cext.flow.append.acknowledgement cimport reply_to
from cext.flow.append.append_status cimport NOT_MASTER
from cext.flow.append.message_append cimport (
    Appended,
    Message,
    append_message,
    message_of_record,
    record_bytes_max,
)
from cext.flow.append.promise cimport promise, promise_room_to
from cext.flow.append.turn_room cimport append_room, turn_room
from cext.flow.context.outcome cimport DONE, NEEDS_RECORD, NOT_NOW, TO_CONTROL, TURN_FULL
from cext.flow.context.refusal cimport OTHERWISE, Refusal, refusal_of
from cext.flow.context.role cimport is_slave, is_writable
from cext.flow.context.small_replies cimport reply_error
from cext.flow.context.step cimport RunStep
from cext.flow.fetch.log_view cimport view_record
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.flow.transaction.open_halves cimport (
    OP_BODY_BYTES,
    OP_BYTES_MAX,
    half_end,
    half_follow,
    half_is_ended,
    half_note_move,
)
from cext.flow.transaction.redirect cimport append_redirected
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue
from cext.wire.codes cimport (
    FLAG_ONE_WAY,
    ILLEGAL_OPERATION,
    SERVICE_NOT_AVAILABLE,
    SLAVE_NOT_AVAILABLE,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
    TRANSACTION_TYPE_MASK,
)
from cext.wire.end_transaction cimport EndTransaction, read_end_transaction
from cext.wire.properties cimport SendProperties, find_property, scan_properties
from cext.wire.system_topics cimport (
    HALF_TOPIC,
    HALF_TOPIC_BYTES,
    OP_HALF_TOPIC,
    OP_HALF_TOPIC_BYTES,
    is_named,
)
from cext.wire.text cimport Text, escaped_text_equals, text_i32, text_i64, text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    OP_ENTRY_BYTES = 21             # 20 characters of an i64 and the comma
    OP_PROPERTIES_BYTES = 17
    SECONDS_MAX = 1000000000        # of an immunity time
    FINISH_BOUNDS = 6
    # How much larger than the half message and the op entries a commit and an op message may be.
    COMMIT_ADDED_BYTES = 1024
    OP_RECORD_BYTES = 1024

cdef const char* BUSY = b"[PC_SYNCHRONIZED]broker busy, start flow control for a while: end the " \
                        b"transaction again"

cdef Refusal[4] refusals = [
    Refusal(NOT_MASTER, SLAVE_NOT_AVAILABLE,
            b"this broker is a slave and ends no transactions; ask the master of its name"),
    Refusal(NOT_READY, SYSTEM_BUSY, BUSY),
    Refusal(CORRUPT, SYSTEM_ERROR, b"the half message names no place to go"),
    Refusal(OTHERWISE, SERVICE_NOT_AVAILABLE,
            b"service not available now: the log takes no message; the transaction is still open"),
]

cdef int64_t[FINISH_BOUNDS] FINISH_BOUNDS_S = [5, 60, 600, 3600, 43200, 86400]


# ------------------------------------------------------------------- the half record

cdef bint same(const Text* sent, const Text* stored) noexcept nogil:
    if sent.bytes == NULL or stored.bytes == NULL:
        return False
    if sent.escaped:
        return escaped_text_equals(sent, stored.bytes, stored.length)
    return sent.length == stored.length and memcmp(sent.bytes, stored.bytes, sent.length) == 0


cdef const char* fault_of(TransactionService s, const EndTransaction* e, const RecordView* view,
                          SendProperties* found) noexcept nogil:
    """Why this record is not the half message that the request means, or NULL."""
    if (not is_named(view.topic, view.topic_bytes, HALF_TOPIC, HALF_TOPIC_BYTES)
            or scan_properties(view.properties, view.properties_bytes, found) != OK):
        return b"Find prepared transaction message failed"
    if not same(&e.producer_group, &found.producer_group):
        return b"The producer group wrong"
    if view.queue_offset != e.queue_offset:
        return b"The transaction state table offset wrong"
    if s.turn.is_bound and not same(&e.topic, &found.real_topic):
        return b"The topic wrong"
    return NULL


cdef bint came_too_late(TransactionService s, const EndTransaction* e,
                        const RecordView* view) noexcept nogil:
    """Whether the sender's own time limit for ending it without being asked has passed (5.x)."""
    cdef Text text
    cdef int64_t seconds = 0
    if e.from_check or not find_property(view.properties, view.properties_bytes,
                                         b"CHECK_IMMUNITY_TIME_IN_SECONDS", &text):
        return False
    if text_i64(&text, &seconds) != OK or seconds < 0 or seconds > SECONDS_MAX:
        return False
    return s.turn.wall_ms - view.born_timestamp_ms > seconds * 1000


# ------------------------------------------------------------------- op messages

cdef int end_room(TransactionService s, uint32_t bytes, bint at_once) noexcept nogil:
    """Whether there is room for a commit of `bytes` (0: none), and with `at_once` also for one op
    message with its entry and all earlier ones. Returns what append_room() says."""
    cdef int32_t records = (bytes > 0) + at_once
    cdef int status
    if at_once:
        if s.halves.op_bytes + OP_ENTRY_BYTES > OP_BODY_BYTES:
            status = write_ops(s)
            if status != OK:
                return status
        bytes += <uint32_t> s.halves.op_bytes + OP_ENTRY_BYTES + OP_RECORD_BYTES
    if records == 0:
        return OK
    # The largest half message still fits, because room is kept free beside the largest record.
    return turn_room(s.append, min(bytes, <uint32_t> s.append.log.max_record_bytes), records)


cdef int note_op(TransactionService s, int64_t offset) noexcept nogil:
    """OK, or NOT_READY when too many op entries wait for the log."""
    cdef char entry[24]
    cdef int length
    if s.halves.op_bytes + OP_ENTRY_BYTES > OP_BYTES_MAX:
        write_ops(s)
    if s.halves.op_bytes + OP_ENTRY_BYTES > OP_BYTES_MAX:
        return NOT_READY
    length = snprintf(entry, sizeof(entry), b"%lld,", <long long> offset)
    memcpy(s.halves.ops + s.halves.op_bytes, entry, length)
    s.halves.op_bytes += length
    return OK


cdef uint32_t op_body_bytes(TransactionService s) noexcept nogil:
    """The size of the whole entries within OP_BODY_BYTES."""
    cdef uint32_t bytes
    if s.halves.op_bytes <= OP_BODY_BYTES:
        return <uint32_t> s.halves.op_bytes
    bytes = OP_BODY_BYTES
    while s.halves.ops[bytes - 1] != 44:        # a comma
        bytes -= 1
    return bytes


cdef int write_ops(TransactionService s) noexcept nogil:
    cdef Topic* topic
    cdef Queue* queue
    cdef Message m
    cdef Appended appended
    cdef int status
    if s.halves.op_bytes == 0:
        return OK
    topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> OP_HALF_TOPIC,
                                   OP_HALF_TOPIC_BYTES)
    queue = topic_queue(topic, s.append.queues, 0) if topic != NULL else NULL
    if queue == NULL:
        return NOT_READY
    m.properties = text_of(<const uint8_t*> b"TAGS\x01d\x02WAIT\x01true\x02", OP_PROPERTIES_BYTES)
    m.flag = 0
    m.sys_flag = 0
    m.reconsume_times = 0
    m.born_timestamp_ms = s.turn.wall_ms
    m.prepared_offset = 0
    m.born_host = s.turn.options.store_host
    m.born_host_bytes = s.turn.options.store_host_bytes
    m.plain_only = False
    m.add_properties = False
    m.own_tags_code = False
    m.tags_code = 0
    m.stored = True
    m.spare = 0
    while s.halves.op_bytes > 0:
        m.body = s.halves.ops
        m.body_bytes = op_body_bytes(s)
        status = append_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
        if status == OK:
            status = append_message(s.append, topic, queue, &m, &appended)
        if status != OK:
            return status                   # the entries stay for the next turn
        s.halves.op_bytes -= m.body_bytes
        memmove(s.halves.ops, s.halves.ops + m.body_bytes, s.halves.op_bytes)
    return OK


cdef int store_op(TransactionService s, int64_t offset) noexcept nogil:
    """Puts the op entry into the log at once. NOT_READY: the log does not take it; not noted."""
    if note_op(s, offset) != OK:
        return NOT_READY
    write_ops(s)
    if s.halves.op_bytes == 0:
        return OK
    s.halves.op_bytes -= 1                      # it is the last entry; its comma goes first
    while s.halves.op_bytes > 0 and s.halves.ops[s.halves.op_bytes - 1] != 44:
        s.halves.op_bytes -= 1
    return NOT_READY


cdef int end_half(TransactionService s, int64_t offset) noexcept nogil:
    if half_is_ended(&s.halves, offset):
        return OK
    if note_op(s, offset) != OK:
        return NOT_READY
    half_end(&s.halves, offset)
    return OK


cdef void move_half(TransactionService s, const HalfMove* move) noexcept nogil:
    half_note_move(&s.halves, move)
    note_op(s, move.offset)                 # without room for it, a crash means one more check
    half_end(&s.halves, move.offset)


# ------------------------------------------------------------------- the request

cdef int commit(TransactionService s, const EndTransaction* e, const RecordView* view,
                const SendProperties* found, Topic* topic) noexcept nogil:
    """Appends the half message to its topic; returns what append_message() says."""
    cdef Message m
    cdef Appended appended
    cdef Queue* queue
    cdef int32_t queue_id = 0, queues
    cdef int status
    if text_i32(&found.real_queue_id, &queue_id) != OK or queue_id < 0:
        return CORRUPT
    queues = topic.write_queues if topic.write_queues > topic.read_queues else topic.read_queues
    queue = topic_queue(topic, s.append.queues, queue_id if queue_id < queues else queues - 1)
    if queue == NULL:
        return CORRUPT
    message_of_record(&m, view)
    m.sys_flag = m.sys_flag & ~TRANSACTION_TYPE_MASK | TRANSACTION_COMMIT_TYPE
    m.prepared_offset = e.log_offset
    if found.has_delay or found.has_timer:
        return append_redirected(s, topic, queue, &m, True, &appended)
    status = append_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
    if status == OK:
        status = append_message(s.append, topic, queue, &m, &appended)
    return status


cdef Outcome refuse_end(TransactionService s, Connection* c, const Header* h,
                        int status) noexcept nogil:
    cdef const Refusal* refusal
    if status == RING_FULL:
        return TURN_FULL
    refusal = refusal_of(refusals, status)
    if h.flag & FLAG_ONE_WAY and refusal.code == SYSTEM_BUSY:
        return NOT_NOW
    return reply_error(s.turn, c, h, refusal.code, refusal.text)


cdef Outcome promise_end(TransactionService s, Connection* c, const Header* h,
                         const AckReply* to) noexcept nogil:
    """What was ended, now or before, is in the log with its op entry: answers when that is safe."""
    if to.connection == NULL:
        return DONE
    write_ops(s)
    if s.halves.op_bytes > 0:
        return refuse_end(s, c, h, NOT_READY)
    promise(s.append, to, ANSWER_CODE)
    return DONE


cdef Outcome accept_transaction_end(TransactionService s, Connection* c, const Header* h,
                                    const Frame* f, bint resubmitted) noexcept nogil:
    cdef EndTransaction e
    cdef char remark[128]
    cdef int64_t pinned = s.append.log.pinned_low
    cdef bint moved
    cdef Outcome outcome
    if read_end_transaction(h, &e) != OK:
        snprintf(remark, sizeof(remark), b"the field %s is missing or not a number", e.bad_field)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if e.decision != TRANSACTION_COMMIT_TYPE and e.decision != TRANSACTION_ROLLBACK_TYPE:
        return DONE
    if not s.halves.started:
        return refuse_end(s, c, h, NOT_READY)
    if not is_writable(&s.turn.role):
        # That lasts: a one-way end is dropped, its transaction stays open.
        if h.flag & FLAG_ONE_WAY:
            return DONE
        return refuse_end(s, c, h, <int> NOT_MASTER if is_slave(&s.turn.role)
                          else <int> NOT_READY)
    moved = half_follow(&s.halves, &e.queue_offset, &e.log_offset)
    outcome = end_half_message(s, c, h, &e, resubmitted)
    s.halves.moved += moved and outcome != TURN_FULL
    # However many ends a turn brings, their half records must not keep the ring from going on.
    s.append.log.unpin(pinned)
    return outcome


cdef Outcome end_half_message(TransactionService s, Connection* c, const Header* h,
                              const EndTransaction* e, bint resubmitted) noexcept nogil:
    cdef RecordView view
    cdef SendProperties found
    cdef AckReply to
    cdef Topic* topic = NULL
    cdef const char* fault
    cdef bint ended
    cdef int status
    reply_to(&to, c, h)
    status = promise_room_to(s.append, &to)
    if status != OK:
        return refuse_end(s, c, h, status)
    status = view_record(s.append.log, &s.fetch.parked, e.log_offset, &view)
    if status == ABSENT:
        return NEEDS_RECORD
    if status == NOT_READY:
        return refuse_end(s, c, h, NOT_READY)
    fault = b"Find prepared transaction message failed"
    if status == OK:
        fault = fault_of(s, e, &view, &found)
    if fault != NULL:
        return reply_error(s.turn, c, h, SYSTEM_ERROR, fault)
    if came_too_late(s, e, &view):
        return reply_error(s.turn, c, h, ILLEGAL_OPERATION,
                           b"CHECK_IMMUNITY_TIME_IN_SECONDS has passed: wait for the check")
    ended = half_is_ended(&s.halves, e.queue_offset)
    status = end_room(s, view.total_bytes + COMMIT_ADDED_BYTES
                      if e.decision == TRANSACTION_COMMIT_TYPE and not ended else 0,
                      to.connection != NULL)
    if status != OK:
        return refuse_end(s, c, h, status)
    if ended:
        if not resubmitted and (e.queue_offset < s.halves.doubted_below or (
                s.halves.set_aside > 0 and e.decision == TRANSACTION_COMMIT_TYPE)):
            return TO_CONTROL               # control finds moved halves and knows those given up
        s.halves.repeated += 1
        return promise_end(s, c, h, &to)
    if e.decision == TRANSACTION_COMMIT_TYPE:
        if found.real_topic.bytes == NULL or found.real_queue_id.bytes == NULL:
            return refuse_end(s, c, h, CORRUPT)
        topic = <Topic*> name_map_find(&s.tables.topics, found.real_topic.bytes,
                                       found.real_topic.length)
        if topic == NULL:
            return refuse_end(s, c, h, NOT_READY) if resubmitted else TO_CONTROL
        status = commit(s, e, &view, &found, topic)
        if status != OK:
            return refuse_end(s, c, h, status)
        s.halves.committed += 1
        topic.numbers.committed += 1
    else:
        # A rollback is nothing but its op entry: a client that is told of it may rely on it.
        if to.connection != NULL and store_op(s, e.queue_offset) != OK:
            return refuse_end(s, c, h, NOT_READY)
        s.halves.rolled_back += 1
        if found.real_topic.bytes != NULL:
            topic = <Topic*> name_map_find(&s.tables.topics, found.real_topic.bytes,
                                           found.real_topic.length)
        if topic != NULL:
            topic.numbers.rolled_back += 1
    histogram_record(&s.halves.finish, FINISH_BOUNDS_S, FINISH_BOUNDS,
                     (s.turn.wall_ms - view.born_timestamp_ms) // 1000, 1)
    if to.connection == NULL or e.decision == TRANSACTION_COMMIT_TYPE:
        note_op(s, e.queue_offset)          # without room for it, a crash means one check back
    half_end(&s.halves, e.queue_offset)
    return promise_end(s, c, h, &to)


cdef void ops_turn(TransactionService s) noexcept nogil:
    write_ops(s)


cdef Step ops_step(TransactionService s) noexcept:
    return Step(b"ops", <void*> s, <RunStep> ops_turn, NULL, NULL)
