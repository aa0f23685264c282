"""Requests of consumers that pop. See pop.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from cext.base.status cimport OK
from cext.flow.context.outcome cimport CLOSE_CONNECTION, DONE, GO_ON, TO_CONTROL
from cext.flow.context.small_replies cimport reply_error
from cext.flow.pop.held_pops cimport pop_on_event
from cext.flow.pop.pop_answer cimport answer_pop
from cext.flow.pop.pop_job cimport NOTIFY, PEEK, POP, PopJob
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_table cimport pair_obtain
from cext.flow.pull.held_pulls cimport free_job, make_ready
from cext.flow.pull.pull_job cimport (
    JOB_FREE,
    JOB_NEW,
    JobAnswer,
    OnJobEvent,
    job_move,
    job_use_begin,
)
from cext.flow.tables.delivery_counter_lists cimport delivery_counter_of
from cext.flow.tables.group_table cimport Group, group_find
from cext.flow.tables.sql_filter cimport EXPRESSION_BYTES_MAX, expression_find, sql_filter_share
from cext.flow.tables.tag_filter cimport CODES_MAX
from cext.flow.tables.topic_table cimport Topic
from cext.memory.buffer_pool cimport buffer_pool_take
from cext.memory.chain cimport ChainEntry
from cext.memory.name_map cimport name_map_find
from cext.memory.use_count cimport use_begin
from cext.wire.codes cimport (
    FLAG_ONE_WAY,
    INVALID_PARAMETER,
    NOTIFICATION,
    PEEK_MESSAGE,
    PERM_READ,
    POLLING_FULL,
    POLLING_INFO,
    POLLING_TIMEOUT,
    POP_MESSAGE,
    SYSTEM_ERROR,
)
from cext.wire.pop_request cimport PopRequest, pop_code, read_pop_request
from cext.wire.replies cimport ERROR_REPLY_BYTES_MAX, write_polling_reply
from cext.wire.revive_entry cimport CHECK_POINT_MESSAGES_MAX
from cext.wire.subscription cimport parse_tag_subscription
from cext.wire.text cimport Text, text_copy, text_equals

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    LATE_MS = 500               # a pop that arrives so long after its time is not looked at


cdef Outcome find_filter(PopService s, const PopRequest* r, PopJob* job) noexcept nogil:
    """Fills the job's filter; GO_ON or TO_CONTROL."""
    cdef uint8_t text[EXPRESSION_BYTES_MAX]
    cdef int32_t codes[CODES_MAX]
    cdef const Text* kind = &r.expression_type
    cdef bint all_tags = False
    cdef int32_t i, length
    job.pull.tags.all = True
    job.pull.tags.count = 0
    job.pull.sql = NULL
    if r.expression.bytes == NULL or r.expression.length == 0:
        return GO_ON
    if kind.bytes != NULL and kind.length > 0 and not text_equals(kind, b"TAG", 3):
        if not s.turn.options.property_filter or not text_equals(kind, b"SQL92", 5):
            return TO_CONTROL
        length = text_copy(&r.expression, text, EXPRESSION_BYTES_MAX)
        if length < 0:
            return TO_CONTROL
        job.pull.sql = sql_filter_share(expression_find(&s.tables.expressions, text, length))
        # A function of the broker's owner is asked for pulls only.
        return GO_ON if job.pull.sql != NULL and job.pull.sql.function == 0 else TO_CONTROL
    length = parse_tag_subscription(&r.expression, codes, CODES_MAX, &all_tags)
    if length < 0:
        return GO_ON                # too many tags to filter here: the client filters
    job.pull.tags.all = all_tags
    job.pull.tags.count = length
    for i in range(length):
        job.pull.tags.codes[i] = codes[i]
    return GO_ON


cdef PopJob* make_job(PopService s, Connection* c, const Header* h, const PopRequest* r,
                      int32_t code, PopPair* pair, Group* group) noexcept nogil:
    """A job without its filter; NULL when too many pops wait."""
    cdef PopJob* job = <PopJob*> buffer_pool_take(&s.pull.job_pool)
    cdef int64_t waited, poll_ms = r.poll_ms
    if job == NULL:
        return NULL
    job_move(&job.pull, JOB_NEW, 1 << JOB_FREE)
    job.pull.connection = c
    job.pull.connection_id = c.id
    job.pull.opaque = h.opaque
    job.pull.request_code = code
    job.pull.arrived_ms = s.turn.now_ms
    job.pull.held = False
    job.pull.accounts_version = s.turn.accounts_version
    job.pull.version = h.version
    job.pull.serialize_type = h.serialize_type
    job.pull.topic = job.topic = pair.topic
    job.pull.delivered = delivery_counter_of(group, pair.topic)
    job.pull.logic.mapped = False
    job.pull.max_bytes = -1
    job.pull.answer = <JobAnswer> answer_pop
    job.pull.on_event = <OnJobEvent> pop_on_event
    job.pull.service = <void*> s
    job.pull.fetch = NULL
    job.pull.tags_from_records = False
    job.pull.by_real_topic = False
    job.pull.entry_reads = 0
    job.kind = NOTIFY if code == NOTIFICATION else PEEK if code == PEEK_MESSAGE else POP
    job.pair = pair
    job.queue_id = r.queue_id if r.queue_id >= 0 else -1
    job_use_begin(&job.pull)
    use_begin(&pair.use)
    job.max_messages = r.max_messages if r.max_messages > 0 else 1
    job.init_mode = r.init_mode
    job.order = r.order and job.kind != PEEK
    job.woken = False
    job.invisible_ms = r.invisible_ms
    if r.born_ms > 0:
        waited = s.turn.wall_ms - r.born_ms
        if 0 < waited < poll_ms:
            poll_ms -= waited
        elif waited >= poll_ms:
            poll_ms = 0
    job.pull.may_hold = poll_ms > 0 and job.kind != PEEK
    job.poll_end_ms = s.turn.now_ms + (poll_ms if poll_ms < <int64_t> 1 << 40
                                       else <int64_t> 1 << 40)
    job.attempt_bytes = 0
    if r.attempt_id.bytes != NULL and r.attempt_id.length <= sizeof(job.attempt):
        job.attempt_bytes = r.attempt_id.length
        memcpy(job.attempt, r.attempt_id.bytes, r.attempt_id.length)
    return job


cdef Outcome count_waiting(PopService s, Connection* c, const Header* h, const PopRequest* r,
                           PopPair* pair) noexcept nogil:
    cdef ChainEntry* entry = pair.first
    cdef PopJob* job
    cdef uint8_t* at = s.turn.net.reserve_reply(c, ERROR_REPLY_BYTES_MAX)
    cdef int64_t count = 0
    if at == NULL:
        return CLOSE_CONNECTION
    while entry != NULL:
        job = <PopJob*> entry.owner
        entry = entry.next
        count += job.kind == POP and job.queue_id == (r.queue_id if r.queue_id >= 0 else -1)
    if s.turn.net.commit_reply(c, write_polling_reply(at, h.opaque, h.serialize_type, count)):
        return DONE
    return CLOSE_CONNECTION


cdef Outcome check_pop(PopService s, Connection* c, const Header* h, const PopRequest* r,
                       int32_t code) noexcept nogil:
    """GO_ON: the request itself is all right."""
    cdef char remark[256]
    if code == POP_MESSAGE and r.born_ms > 0 and s.turn.wall_ms - r.born_ms - r.poll_ms > LATE_MS:
        return reply_error(s.turn, c, h, POLLING_TIMEOUT, b"the pop comes later than it would have "
                           b"waited; or the clocks of client and broker differ")
    if r.max_messages > CHECK_POINT_MESSAGES_MAX:
        return reply_error(s.turn, c, h, INVALID_PARAMETER,
                           b"at most 32 messages may be popped at once")
    if code == POP_MESSAGE and not s.delay.timers.enabled:
        return reply_error(s.turn, c, h, SYSTEM_ERROR,
                           b"nothing can be popped: timerWheelEnable=false")
    if code == POP_MESSAGE and (r.invisible_ms < 0 or r.invisible_ms > s.delay.timers.max_delay_ms):
        snprintf(remark, sizeof(remark), b"an invisible time of %lld ms is longer than "
                 b"timerMaxDelaySec", <long long> r.invisible_ms)
        return reply_error(s.turn, c, h, INVALID_PARAMETER, remark)
    return GO_ON


cdef Outcome accept_pop(PopService s, Connection* c, const Header* h, const Frame* f,
                        bint resubmitted) noexcept nogil:
    cdef PopRequest r
    cdef int32_t code = pop_code(h)
    cdef Topic* topic
    cdef Group* group
    cdef PopPair* pair
    cdef PopJob* job
    cdef char remark[256]
    cdef Outcome checked
    if read_pop_request(h, code, &r) != OK:
        snprintf(remark, sizeof(remark), b"the field %s is missing or not a number", r.bad_field)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if h.flag & FLAG_ONE_WAY:
        return DONE
    checked = check_pop(s, c, h, &r, code)
    if checked != GO_ON:
        return checked
    topic = <Topic*> name_map_find(&s.tables.topics, r.topic.bytes, r.topic.length)
    group = group_find(&s.tables.groups, r.consumer_group.bytes, r.consumer_group.length)
    if (topic == NULL or group == NULL or not group.consume_enable or r.topic.escaped
            or r.consumer_group.escaped or not topic.permission & PERM_READ
            or not s.turn.options.broker_permission & PERM_READ):
        if not resubmitted:
            return TO_CONTROL
        return reply_error(s.turn, c, h, SYSTEM_ERROR, b"the topic or the group changed while the "
                           b"request was looked at; ask again")
    if r.queue_id >= topic.read_queues:
        snprintf(remark, sizeof(remark), b"queueId[%d] is illegal, topic:[%.128s] "
                 b"readQueueNums:[%d]", r.queue_id, topic.name, topic.read_queues)
        return reply_error(s.turn, c, h, INVALID_PARAMETER, remark)
    pair = pair_obtain(&s.pops, topic, r.consumer_group.bytes, r.consumer_group.length)
    if pair == NULL:
        return reply_error(s.turn, c, h, POLLING_FULL, b"too many groups pop from too many topics")
    if code == POLLING_INFO:
        return count_waiting(s, c, h, &r, pair)
    job = make_job(s, c, h, &r, code, pair, group)
    if job == NULL:
        s.turn.counters.busy_replies += 1
        return reply_error(s.turn, c, h, POLLING_FULL, b"too many pulls and pops are waiting")
    if find_filter(s, &r, job) != GO_ON:
        free_job(s.pull, &job.pull)
        if not resubmitted:
            return TO_CONTROL
        return reply_error(s.turn, c, h, SYSTEM_ERROR,
                           b"the expression changed while the request was "
                           b"looked at; ask again")
    s.pops.pops += job.kind == POP
    make_ready(s.pull, &job.pull)
    return DONE
