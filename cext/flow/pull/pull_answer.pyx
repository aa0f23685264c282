"""Answers to pulls. See pull_answer.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport strlen

from cext.base.clock cimport monotonic_us
from cext.base.status cimport ABSENT, CORRUPT, NOT_READY, OK
from cext.flow.context.options cimport SLAVE_READ_OFF, SLAVE_READ_UNSET
from cext.flow.context.role cimport has_master, is_slave
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.small_replies cimport log_event, reply_error_to
from cext.flow.fetch.disk_fetch cimport DiskFetch
from cext.flow.pull.function_pull cimport hand_to_function
from cext.flow.pull.held_pulls cimport drop_fetch, free_job, hold
from cext.flow.tables.delivery_counter cimport delivery_counter_add, delivery_counter_pulled
from cext.flow.tables.queue_mapping cimport LogicPlace, logic_offset_of
from cext.flow.tables.topic_table cimport topic_queue
from cext.net.connection cimport IN_JUMBO, IN_LARGE
from cext.store.log.disk_reader cimport READ_RECORDS_MAX
from cext.wire.codes cimport (
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
)
from cext.wire.replies cimport PULL_REPLY_BYTES_MAX, PullReply, write_pull_reply_header
from cext.wire.text cimport text_of

cdef enum:
    MASTER_ID = 0
    REPAIR_POLL_MS = 1000           # how often a pull looks whether its queue is repaired
    REPAIR_WAIT_MS = 5000           # longest wait for that: clients wait for 10 s and more
    AWAY_HOLD_MS = 1000             # at a slave whose master lives: the client must go back there

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef inline void time_answer(PullService s, const PullJob* job, int32_t code) noexcept nogil:
    rpc_record(&s.turn.rpc, job.request_code, code, job.held,
               monotonic_us() // 1000 - job.arrived_ms, 1)


cdef bint refuse_job(PullService s, PullJob* job, int32_t code, const char* remark) noexcept nogil:
    time_answer(s, job, code)
    return reply_error_to(s.turn, job.connection, job.opaque, job.serialize_type, code, remark)


cdef int64_t suggested_broker(PullService s, const PullJob* job) noexcept nogil:
    """Where the client should pull next, as RocketMQ's brokers suggest it."""
    cdef int32_t slave_read = s.turn.options.slave_read
    cdef bint slow = job.last_physical >= 0 and (
        s.append.log.marks.appended - job.last_physical > s.turn.options.slow_bytes)
    if slave_read == SLAVE_READ_OFF or (slave_read == SLAVE_READ_UNSET
                                        and not is_slave(&s.turn.role)):
        return MASTER_ID
    if slow:
        return job.slow_broker_id
    if has_master(&s.turn.role):
        return MASTER_ID
    return job.broker_id


cdef void set_logical(PullReply* reply, const LogicPlace* place) noexcept nogil:
    """Turns offsets of a physical queue into those of the logical queue it is part of."""
    cdef int64_t next_offset = reply.next_begin_offset
    if place.start < place.end < next_offset:
        next_offset = place.end
    reply.next_begin_offset = logic_offset_of(place, next_offset)
    reply.min_offset = logic_offset_of(place, reply.min_offset)
    reply.max_offset = logic_offset_of(place, reply.max_offset)
    if reply.max_offset < place.known_end:
        reply.max_offset = place.known_end
    reply.has_offset_delta = True
    reply.offset_delta = place.base - place.start


cdef bint write_header(PullService s, PullJob* job, int32_t code, const char* remark,
                       int64_t next_offset, uint64_t body_bytes) noexcept nogil:
    """False as refuse_job()."""
    cdef PullReply reply
    cdef Queue* queue = topic_queue(job.topic, s.append.queues, job.queue_id)
    cdef uint8_t* at = s.turn.net.reserve_reply(job.connection, PULL_REPLY_BYTES_MAX)
    if at == NULL:
        return False
    reply.opaque = job.opaque
    reply.serialize_type = job.serialize_type
    reply.code = code
    reply.remark = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark))
    reply.suggested_broker_id = suggested_broker(s, job)
    reply.next_begin_offset = next_offset
    reply.min_offset = queue.min_offset if queue != NULL else 0
    reply.max_offset = queue.max_offset if queue != NULL else 0
    reply.has_offset_delta = False
    if job.logic.mapped:
        set_logical(&reply, &job.logic)
    reply.body_bytes = <uint32_t> body_bytes
    time_answer(s, job, code)
    delivery_counter_pulled(job.delivered, job.queue_id, next_offset)
    return s.turn.net.commit_reply(job.connection, write_pull_reply_header(at, &reply))


cdef void answer_nothing(PullService s, PullJob* job, int32_t code, const char* remark,
                         int64_t next_offset) noexcept nogil:
    s.turn.counters.pulls_empty += 1
    if not write_header(s, job, code, remark, next_offset, 0):
        s.turn.net.close_connection(job.connection)
    free_job(s, job)


cdef bint answer_reset(PullService s, PullJob* job) noexcept nogil:
    cdef bint told
    s.turn.counters.pulls_empty += 1
    told = write_header(s, job, PULL_OFFSET_MOVED, b"OFFSET_RESET", job.offset, 0)
    free_job(s, job)
    return told


cdef void answer_following(PullService s, PullJob* job) noexcept nogil:
    cdef LogicPlace* place = &job.logic
    s.turn.counters.pulls_empty += 1
    # An answer with a place in the next item: the client goes on there at once.
    place.base = place.following
    place.start = place.end = 0
    if not write_header(s, job, PULL_RETRY_IMMEDIATELY, b"OFFSET_OF_NEXT_ITEM", 0, 0):
        s.turn.net.close_connection(job.connection)
    free_job(s, job)


cdef void ask_function(PullService s, PullJob* job, int64_t next_offset, const uint8_t** records,
                       const uint32_t* sizes, int32_t count) noexcept nogil:
    """The owner's function decides which records are given; control answers the pull."""
    if hand_to_function(s, job, next_offset, records, sizes, count):
        delivery_counter_pulled(job.delivered, job.queue_id, next_offset)
        free_job(s, job)
    else:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: more pulls "
                    b"wait for message filters than may")


cdef void refuse_busy(PullService s, PullJob* job, const char* remark) noexcept nogil:
    s.turn.counters.busy_replies += 1
    if not refuse_job(s, job, SYSTEM_BUSY, remark):
        s.turn.net.close_connection(job.connection)
    free_job(s, job)


cdef void answer_found(PullService s, PullJob* job, Found* found) noexcept nogil:
    cdef int32_t i
    cdef bint good
    if job.sql != NULL and job.sql.function != 0:
        ask_function(s, job, found.next_offset, found.at, found.sizes, found.count)
        return
    good = write_header(s, job, SUCCESS, b"FOUND", found.next_offset, found.bytes)
    for i in range(found.count):
        good = good and s.turn.net.add_borrowed(job.connection, found.at[i], found.sizes[i])
    if not good:
        s.turn.net.close_connection(job.connection)
    s.turn.counters.pulls_found += 1
    s.turn.counters.messages_out += found.count
    s.turn.counters.bytes_out += found.bytes
    job.topic.messages_out += found.count
    job.topic.bytes_out += found.bytes
    delivery_counter_add(job.delivered, found.count, found.bytes)
    free_job(s, job)


cdef bint is_repaired(PullService s, PullJob* job, int64_t offset) noexcept nogil:
    """Whether the queue's repair from the log is over; while it runs the pull is held, but not for
    ever. When the repair failed for now, the log may still have the message: the client is told
    to come again."""
    cdef Queue* queue = topic_queue(job.topic, s.append.queues, job.queue_id)
    cdef int status = <int> CORRUPT if queue == NULL else s.append.queues.request_repair(queue,
                                                                                         offset)
    cdef char remark[256]
    if status == NOT_READY or status == OK:
        snprintf(remark, sizeof(remark), b"[OVERLOAD]topic %.100s queue %d: offset %lld could not "
                 b"be made anew from the commit log, and is tried again in a minute",
                 job.topic.name, job.queue_id, <long long> offset)
        refuse_busy(s, job, remark)
        return True
    if status != ABSENT:
        return False
    drop_fetch(s, job)
    if s.turn.stopping or s.turn.now_ms - job.arrived_ms >= REPAIR_WAIT_MS:
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"QUEUE_IS_MENDED", job.offset)
        return True
    job.deadline_ms = min(s.turn.now_ms + REPAIR_POLL_MS, job.arrived_ms + REPAIR_WAIT_MS)
    hold(s, job, queue)
    return True


cdef void answer_damage(PullService s, PullJob* job, Found* found) noexcept nogil:
    cdef char remark[256]
    if is_repaired(s, job, found.corrupt_offset):
        return
    s.turn.counters.corrupt_records += 1
    if found.corrupt_physical < 0:
        snprintf(remark, sizeof(remark), b"the consume queue of topic %.100s queue %d cannot be "
                 b"read at offset %lld", job.topic.name, job.queue_id,
                 <long long> found.corrupt_offset)
    else:
        snprintf(remark, sizeof(remark), b"the record at commit log offset %lld (topic %.100s "
                 b"queue %d offset %lld) is damaged on disk and is not served",
                 <long long> found.corrupt_physical, job.topic.name, job.queue_id,
                 <long long> found.corrupt_offset)
    log_event(s.turn, job.connection, remark)
    if not refuse_job(s, job, SYSTEM_ERROR, remark):
        s.turn.net.close_connection(job.connection)
    free_job(s, job)


cdef void answer_unreadable(PullService s, PullJob* job) noexcept nogil:
    """The queue's entries at job.offset cannot be read, or are no entries."""
    cdef Found found
    found.corrupt_offset = job.offset
    found.corrupt_physical = -1
    answer_damage(s, job, &found)


cdef void answer_too_large(PullService s, PullJob* job, const QueueEntry* entry) noexcept nogil:
    cdef Queue* queue = topic_queue(job.topic, s.append.queues, job.queue_id)
    cdef char remark[384]
    if queue == NULL or s.append.queues.request_repair(queue, job.offset) != OK:
        answer_unreadable(s, job)           # the entry itself may be damaged
        return
    snprintf(remark, sizeof(remark), b"the message at offset %lld of topic %.100s queue %d has %d "
             b"bytes, and this broker reads %llu at once (an eighth of the memory, at most 256 "
             b"MiB): rmq group reset GROUP TOPIC --queue %d --to %lld goes on behind it",
             <long long> job.offset, job.topic.name, job.queue_id, entry.size,
             <unsigned long long> s.turn.net.large.bytes_max, job.queue_id,
             <long long> job.offset + 1)
    log_event(s.turn, job.connection, remark)
    if not refuse_job(s, job, SYSTEM_ERROR, remark):
        s.turn.net.close_connection(job.connection)
    free_job(s, job)


cdef void nothing_new(PullService s, PullJob* job, Queue* queue) noexcept nogil:
    """The queue has no message from job.offset on: holds the pull, or answers so."""
    if job.may_hold and not s.turn.stopping:
        if has_master(&s.turn.role) and job.hold_ms > AWAY_HOLD_MS:
            job.hold_ms = AWAY_HOLD_MS
        job.deadline_ms = s.turn.now_ms + job.hold_ms
        hold(s, job, queue)
    else:
        answer_nothing(s, job, PULL_NOT_FOUND, b"NO_NEW_MESSAGE", job.offset)


cdef bint hand_over(PullService s, PullJob* job, uint64_t bytes) noexcept nogil:
    """Gives what the fetch has read to an output piece, which owns it then."""
    cdef DiskFetch* fetch = job.fetch
    if fetch.large != NULL:
        if not s.turn.net.add_owned(job.connection, fetch.read.buffer, bytes, fetch.large,
                                    IN_LARGE):
            return False
        fetch.large = NULL
        return True
    if not s.turn.net.add_owned(job.connection, fetch.buffer, bytes, fetch.buffer, IN_JUMBO):
        return False
    fetch.buffer = NULL
    return True


cdef void answer_fetched(PullService s, PullJob* job, uint64_t bytes) noexcept nogil:
    cdef DiskFetch* fetch = job.fetch
    cdef const uint8_t* records[READ_RECORDS_MAX]
    cdef uint64_t at = 0
    cdef int32_t i
    if job.sql != NULL and job.sql.function != 0:
        for i in range(fetch.read.done_count):
            records[i] = fetch.read.buffer + at
            at += fetch.read.sizes[i]
        ask_function(s, job, job.next_offset, records, fetch.read.sizes, fetch.read.done_count)
        return
    if not (write_header(s, job, SUCCESS, b"FOUND", job.next_offset, bytes)
            and hand_over(s, job, bytes)):
        s.turn.net.close_connection(job.connection)
    s.turn.counters.pulls_found += 1
    s.turn.counters.messages_out += fetch.read.done_count
    s.turn.counters.bytes_out += bytes
    job.topic.messages_out += fetch.read.done_count
    job.topic.bytes_out += bytes
    delivery_counter_add(job.delivered, fetch.read.done_count, bytes)
    free_job(s, job)
