"""From a pull request to a job. See pull_admission.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.base.status cimport OK
from cext.flow.context.outcome cimport CLOSE_CONNECTION, DONE, GO_ON, TO_CONTROL
from cext.flow.context.role cimport read_refusal
from cext.flow.context.small_replies cimport reply_error
from cext.flow.pull.held_pulls cimport free_job, make_ready
from cext.flow.pull.pull_answer cimport answer_reset
from cext.flow.pull.pull_batch cimport answer_pull
from cext.flow.pull.pull_job cimport (
    JOB_FREE,
    JOB_NEW,
    JobAnswer,
    PullJob,
    job_move,
    job_use_begin,
)
from cext.flow.tables.delivery_counter cimport delivery_counter_grow, delivery_counter_pulled
from cext.flow.tables.delivery_counter_lists cimport delivery_counter_of
from cext.flow.tables.group_table cimport Group, group_find
from cext.flow.tables.offset_table cimport offset_commit, offset_marked, offset_take_reset
from cext.flow.tables.queue_mapping cimport (
    KEPT_ELSEWHERE,
    LED_HERE,
    NOT_PLACED,
    Finding,
    LogicPlace,
    QueueMapping,
    is_logical,
    logic_find,
)
from cext.flow.tables.sql_filter cimport EXPRESSION_BYTES_MAX, expression_find, sql_filter_share
from cext.flow.tables.subscription_table cimport Subscription, subscription_find
from cext.flow.tables.tag_filter cimport CODES_MAX
from cext.flow.tables.topic_table cimport Topic
from cext.memory.buffer_pool cimport buffer_pool_take
from cext.memory.name_map cimport name_map_find
from cext.wire.codes cimport (
    FLAG_CLASS_FILTER,
    FLAG_COMMIT_OFFSET,
    FLAG_ONE_WAY,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    INVALID_PARAMETER,
    NOT_LEADER_FOR_QUEUE,
    PERM_READ,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
)
from cext.wire.pull_request cimport PullRequest, read_pull_request
from cext.wire.subscription cimport parse_tag_subscription
from cext.wire.system_topics cimport TOPIC_RETRY
from cext.wire.text cimport Text, text_copy, text_equals

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef Outcome brought_filter(PullService s, const PullRequest* r, PullJob* job) noexcept nogil:
    """The filter of a pull that brings its subscription along; GO_ON or TO_CONTROL."""
    cdef uint8_t text[EXPRESSION_BYTES_MAX]
    cdef const Text* kind = &r.expression_type
    cdef int32_t length
    cdef bint all_tags = False
    cdef int32_t codes[CODES_MAX]
    cdef int32_t i
    if kind.bytes != NULL and kind.length > 0 and not text_equals(kind, b"TAG", 3):
        if not s.turn.options.property_filter or not text_equals(kind, b"SQL92", 5):
            return TO_CONTROL
        if r.subscription.bytes == NULL:
            return TO_CONTROL
        length = text_copy(&r.subscription, text, EXPRESSION_BYTES_MAX)
        if length < 0:
            return TO_CONTROL
        job.sql = sql_filter_share(expression_find(&s.tables.expressions, text, length))
        return GO_ON if job.sql != NULL else TO_CONTROL
    length = parse_tag_subscription(&r.subscription, codes, CODES_MAX, &all_tags)
    if length < 0:
        return GO_ON                # too many tags to filter here: the client filters
    job.tags.all = all_tags
    job.tags.count = length
    for i in range(length):
        job.tags.codes[i] = codes[i]
    return GO_ON


cdef Outcome find_filter(PullService s, const PullRequest* r, Group* group,
                         PullJob* job) noexcept nogil:
    """Fills the job's filter; GO_ON or TO_CONTROL."""
    cdef Subscription* known
    job.tags.all = True
    job.tags.count = 0
    job.sql = NULL
    if r.sys_flag & FLAG_CLASS_FILTER:
        return TO_CONTROL           # control refuses it
    if r.sys_flag & FLAG_SUBSCRIPTION:
        return brought_filter(s, r, job)
    known = subscription_find(&s.tables.subscriptions, r.consumer_group.bytes,
                              r.consumer_group.length, r.topic.bytes, r.topic.length)
    if known == NULL or known.version < r.sub_version or (
            known.broadcasting and not group.broadcast_enable):
        return TO_CONTROL
    if known.sql == NULL:
        job.tags = known.filter
    elif not s.turn.options.property_filter:
        return TO_CONTROL
    job.sql = sql_filter_share(known.sql)
    return GO_ON


cdef PullJob* make_job(PullService s, Connection* c, const Header* h, const PullRequest* r,
                       Topic* topic, Group* group) noexcept nogil:
    """A job without its filter; NULL when too many pulls wait."""
    cdef PullJob* job = <PullJob*> buffer_pool_take(&s.job_pool)
    if job == NULL:
        return NULL
    job_move(job, JOB_NEW, 1 << JOB_FREE)
    job.connection = c
    job.connection_id = c.id
    job.opaque = h.opaque
    job.request_code = h.code
    job.arrived_ms = s.turn.now_ms
    job.held = False
    job.accounts_version = s.turn.accounts_version
    job.version = h.version
    job.serialize_type = h.serialize_type
    job.topic = topic
    job.delivered = delivery_counter_of(group, topic)
    job.queue_id = r.queue_id
    job.on_event = NULL
    job.offset = r.queue_offset
    job.logic.mapped = False
    job.last_physical = -1
    job.broker_id = group.broker_id
    job.slow_broker_id = group.slow_broker_id
    job.max_messages = r.max_messages
    job.max_bytes = r.max_message_bytes
    job.may_hold = (r.sys_flag & FLAG_SUSPEND) != 0
    job.hold_ms = r.suspend_timeout_ms if s.turn.options.long_polling else \
        s.turn.options.short_polling_ms
    if job.hold_ms > s.turn.options.suspend_max_ms and s.turn.options.long_polling:
        job.hold_ms = s.turn.options.suspend_max_ms
    job.answer = <JobAnswer> answer_pull
    job.service = <void*> s
    job.fetch = NULL
    job.scanned = 0
    job.tags_from_records = False
    job.by_real_topic = s.turn.options.filter_retries and topic.kind == TOPIC_RETRY
    job_use_begin(job)
    return job


# ------------------------------------------------------------------- static topics

cdef void set_commit(const QueueMapping* mapping, PullRequest* r, int32_t logic_id) noexcept nogil:
    """Turns the offset that the pull commits into one of the physical queue, if it lies in the
    queue that is pulled. Otherwise it counts only when the client commits it by a request."""
    cdef LogicPlace place
    if (logic_find(mapping, logic_id, r.commit_offset, &place) == LED_HERE
            and place.queue_id == r.queue_id and place.offset >= 0):
        r.commit_offset = place.offset
    else:
        r.sys_flag &= ~<int32_t> FLAG_COMMIT_OFFSET


cdef Outcome find_place(PullService s, Connection* c, const Header* h, const Topic* topic,
                        PullRequest* r, LogicPlace* place) noexcept nogil:
    """Turns the pull of a logical queue into a pull of the physical queue that has the offset:
    GO_ON. TO_CONTROL when another broker has it: control asks that broker."""
    cdef char remark[256]
    cdef int32_t logic_id = r.queue_id
    cdef int64_t left
    cdef Finding found = logic_find(topic.mapping, logic_id, r.queue_offset, place)
    if found == KEPT_ELSEWHERE:
        return TO_CONTROL
    if found != LED_HERE:
        snprintf(remark, sizeof(remark), b"queue %d of the static topic %.128s %s", logic_id,
                 topic.name, <const char*> b"has no offsets yet, it is being mapped"
                 if found == NOT_PLACED else <const char*> b"is not led by this broker")
        return reply_error(s.turn, c, h, NOT_LEADER_FOR_QUEUE, remark)
    r.queue_id = place.queue_id
    r.queue_offset = place.offset
    left = place.end - place.offset
    if place.end > place.start and 0 < left < r.max_messages:
        r.max_messages = <int32_t> left
    if r.sys_flag & FLAG_COMMIT_OFFSET:
        set_commit(topic.mapping, r, logic_id)
    return GO_ON


# ------------------------------------------------------------------- any pull

cdef Outcome check_queue(PullService s, Connection* c, const Header* h, const Topic* topic,
                         PullRequest* r, LogicPlace* place) noexcept nogil:
    """GO_ON with the physical queue in the request, TO_CONTROL, or refused."""
    cdef char remark[256]
    cdef Outcome found
    place.mapped = False
    if topic.mapping != NULL and is_logical(h):
        found = find_place(s, c, h, topic, r, place)
        if found != GO_ON:
            return found
    if r.queue_id < 0 or r.queue_id >= topic.read_queues:
        snprintf(remark, sizeof(remark), b"queueId[%d] is illegal, topic:[%s] readQueueNums:[%d]",
                 r.queue_id, topic.name, topic.read_queues)
        return reply_error(s.turn, c, h, INVALID_PARAMETER, remark)
    return GO_ON


cdef Outcome accept_pull(PullService s, Connection* c, const Header* h, const Frame* f,
                         bint resubmitted) noexcept nogil:
    cdef PullRequest r
    cdef Topic* topic
    cdef Group* group
    cdef PullJob* job = NULL
    cdef int64_t moved_to = -1
    cdef LogicPlace place
    cdef Outcome known = TO_CONTROL
    cdef const char* refusal
    cdef char remark[256]
    if read_pull_request(h, &r) != OK:
        snprintf(remark, sizeof(remark), b"the pull's field %s is missing or not a number",
                 r.bad_field)
        return reply_error(s.turn, c, h, SYSTEM_ERROR, remark)
    if h.flag & FLAG_ONE_WAY:
        return DONE
    refusal = read_refusal(&s.turn.role, s.turn.options.slave_read)
    if refusal != NULL:
        s.turn.counters.busy_replies += 1
        return reply_error(s.turn, c, h, SYSTEM_BUSY, refusal)
    topic = <Topic*> name_map_find(&s.tables.topics, r.topic.bytes, r.topic.length)
    group = group_find(&s.tables.groups, r.consumer_group.bytes, r.consumer_group.length)
    if (topic != NULL and group != NULL and group.consume_enable
            and not r.topic.escaped and not r.consumer_group.escaped
            and topic.permission & PERM_READ):
        known = check_queue(s, c, h, topic, &r, &place)
        if known != GO_ON and known != TO_CONTROL:
            return known
    if known == GO_ON:
        job = make_job(s, c, h, &r, topic, group)
        if job == NULL:
            return reply_error(s.turn, c, h, SYSTEM_BUSY,
                               b"[OVERLOAD]system busy, start flow control "
                               b"for a while: too many pulls are waiting")
        if place.mapped:
            job.logic = place
        known = find_filter(s, &r, group, job)
    if known == TO_CONTROL:
        if job != NULL:
            free_job(s, job)
        if resubmitted:
            return reply_error(s.turn, c, h, SYSTEM_ERROR,
                               b"the pull's topic, group or subscription "
                               b"changed while the request was looked at; pull again")
        return TO_CONTROL
    s.turn.counters.pulls += 1
    if s.tables.offsets.reset_count > 0:
        moved_to = offset_marked(&s.tables.offsets, r.topic.bytes, r.topic.length,
                                 r.consumer_group.bytes, r.consumer_group.length, r.queue_id)
    if r.sys_flag & FLAG_COMMIT_OFFSET and moved_to < 0:
        offset_commit(&s.tables.offsets, r.topic.bytes, r.topic.length, r.consumer_group.bytes,
                      r.consumer_group.length, r.queue_id, r.commit_offset)
    delivery_counter_grow(job.delivered, r.queue_id)
    delivery_counter_pulled(job.delivered, r.queue_id, r.queue_offset if moved_to < 0 else moved_to)
    if moved_to >= 0:
        # At once: a job could still be refused, and the consumer would go on at its old place.
        job.offset = moved_to
        if not answer_reset(s, job):
            return CLOSE_CONNECTION
        offset_take_reset(&s.tables.offsets, r.topic.bytes, r.topic.length,
                          r.consumer_group.bytes, r.consumer_group.length, r.queue_id)
        return DONE
    make_ready(s, job)
    return DONE
