"""Pulls. See pull.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memmove, strlen

from cext.base.clock cimport monotonic_us
from cext.base.status cimport ABSENT, OK
from cext.flow.pull.function_pull cimport hand_to_function
from cext.flow.tables.group_table cimport (
    CODES_MAX,
    Group,
    Subscription,
    group_find,
    subscription_find,
    tag_filter_passes,
)
from cext.flow.control.handed cimport handed_add, handed_grow, handed_of, handed_pull
from cext.flow.pull.held_pulls cimport defer, free_job, hold, make_ready
from cext.flow.pull.queue_entry_scan cimport (
    SCAN_COST_OF_TURN,
    SCAN_ENTRIES_MAX,
    RECORD_COST,
    Found,
    is_of_queue,
    scan_entries,
    record_passes,
)
from cext.flow.tables.offset_table cimport offset_commit, offset_take_reset
from cext.flow.pop.pop_answer cimport answer_pop, pop_read_done
from cext.flow.outcome cimport DONE, GO_ON, TO_CONTROL, Outcome
from cext.flow.pull.pull_job cimport JOB_READING, NO_POP, PATH_BYTES
from cext.flow.replying cimport (
    FLAG_ONE_WAY,
    INVALID_PARAMETER,
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
    reply_error,
    reply_error_to,
    tell_event,
)
from cext.flow.fetch.parked_requests cimport parked_read
from cext.flow.fetch.record_fetch cimport record_fetch_done
from cext.flow.pop.revive cimport revive_read_done
from cext.flow.control.rpc_times cimport rpc_record
from cext.flow.delay.schedule cimport schedule_read_done
from cext.flow.tables.sql_filter cimport EXPRESSION_BYTES_MAX, expression_find, sql_filter_share
from cext.flow.tables.topic_table cimport PERM_READ, Topic, topic_queue
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.memory.chain cimport ChainEntry
from cext.memory.name_map cimport name_map_find
from cext.net.connection cimport IN_JUMBO, UNREAD_UNSENT
from cext.store.consume_queue cimport UNIT_BYTES, Queue, QueueEntry
from cext.store.disk_reader cimport READ_FILE, READ_LOG, READ_RECORD, READ_RECORDS_MAX, ReadJob
from cext.store.outside_address cimport is_outside_address
from cext.store.record cimport RecordView, record_parse
from cext.wire.pull_request cimport PullRequest, read_pull_request
from cext.wire.replies cimport PULL_REPLY_BYTES_MAX, PullReply, write_pull_reply_header
from cext.wire.subscription cimport parse_tag_subscription
from cext.wire.text cimport Text, text_copy, text_equals, text_of

cdef enum:
    SYS_COMMIT_OFFSET = 1
    SYS_SUSPEND = 2
    SYS_SUBSCRIPTION = 4
    SYS_CLASS_FILTER = 8
    ENTRIES_AT_ONCE = 64
    ENTRY_READS_MAX = 8             # fetches of queue entries before a pull is given up
    UNSENT_MAX = 1048576            # queued bytes of one connection before its pulls wait
    MEND_LOOK_MS = 1000             # how often a pull looks whether its queue is mended
    MEND_WAIT_MS = 5000             # so long at most: clients wait for 10 s and more
    TURN_BYTES = 8388608            # of answers in one turn; other clients wait for its end

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

# ------------------------------------------------------------------- the request

cdef Outcome brought_filter(ShardState s, const PullRequest* r, PullJob* job) noexcept nogil:
    """The filter of a pull that brings its subscription along; GO_ON or TO_CONTROL."""
    cdef uint8_t text[EXPRESSION_BYTES_MAX]
    cdef const Text* kind = &r.expression_type
    cdef int32_t length
    cdef bint all_tags = False
    cdef int32_t codes[CODES_MAX]
    cdef int32_t i
    if kind.bytes != NULL and kind.length > 0 and not text_equals(kind, b"TAG", 3):
        if not s.options.property_filter or not text_equals(kind, b"SQL92", 5):
            return TO_CONTROL
        if r.subscription.bytes == NULL:
            return TO_CONTROL
        length = text_copy(&r.subscription, text, EXPRESSION_BYTES_MAX)
        if length < 0:
            return TO_CONTROL
        job.sql = sql_filter_share(expression_find(&s.expressions, text, length))
        return GO_ON if job.sql != NULL else TO_CONTROL
    length = parse_tag_subscription(&r.subscription, codes, CODES_MAX, &all_tags)
    if length < 0:
        return GO_ON                # more tags than are filtered here: the client filters
    job.tags.all = all_tags
    job.tags.count = length
    for i in range(length):
        job.tags.codes[i] = codes[i]
    return GO_ON


cdef Outcome find_filter(ShardState s, const PullRequest* r, Group* group,
                         PullJob* job) noexcept nogil:
    """Fills the job's filter; GO_ON or TO_CONTROL."""
    cdef Subscription* known
    job.tags.all = True
    job.tags.count = 0
    job.sql = NULL
    if r.sys_flag & SYS_CLASS_FILTER:
        return TO_CONTROL           # which refuses it
    if r.sys_flag & SYS_SUBSCRIPTION:
        return brought_filter(s, r, job)
    known = subscription_find(&s.groups, r.consumer_group.bytes, r.consumer_group.length,
                              r.topic.bytes, r.topic.length)
    if known == NULL or known.version < r.sub_version or (
            known.broadcasting and not group.broadcast_enable):
        return TO_CONTROL
    if known.sql == NULL:
        job.tags = known.filter
    elif not s.options.property_filter:
        return TO_CONTROL
    job.sql = sql_filter_share(known.sql)
    return GO_ON


cdef PullJob* make_job(ShardState s, Connection* c, const Header* h, const PullRequest* r,
                       Topic* topic, Group* group) noexcept nogil:
    """A job without its filter; NULL when too many pulls wait."""
    cdef PullJob* job = <PullJob*> buffer_pool_take(&s.job_pool)
    if job == NULL:
        return NULL
    job.connection = c
    job.connection_id = c.id
    job.opaque = h.opaque
    job.request_code = h.code
    job.arrived_ms = s.now_ms
    job.held = False
    job.version = h.version
    job.serialize_type = h.serialize_type
    job.topic = topic
    job.handed = handed_of(group, topic)
    job.queue_id = r.queue_id
    job.pop.kind = NO_POP
    job.offset = r.queue_offset
    job.moved = False
    job.max_messages = r.max_messages
    job.max_bytes = r.max_message_bytes
    job.may_hold = (r.sys_flag & SYS_SUSPEND) != 0
    job.hold_ms = r.suspend_timeout_ms if s.options.long_polling else \
        s.options.short_polling_ms
    if job.hold_ms > s.options.suspend_max_ms and s.options.long_polling:
        job.hold_ms = s.options.suspend_max_ms
    job.read_buffer = NULL
    job.scanned = 0
    job.tags_from_records = False
    job.by_real_topic = s.options.filter_retries and topic.name_length > 7 and memcmp(
        topic.name, b"%RETRY%", 7) == 0
    return job


cdef Outcome accept_pull(ShardState s, Connection* c, const Header* h, const Frame* f,
                         bint resubmitted) noexcept nogil:
    cdef PullRequest r
    cdef Topic* topic
    cdef Group* group
    cdef PullJob* job = NULL
    cdef int64_t moved_to = -1
    cdef Outcome known = TO_CONTROL
    cdef char remark[256]
    if read_pull_request(h, &r) != OK:
        snprintf(remark, sizeof(remark), b"the pull's field %s is missing or not a number",
                 r.bad_field)
        return reply_error(s, c, h, SYSTEM_ERROR, remark)
    if h.flag & FLAG_ONE_WAY:
        return DONE
    topic = <Topic*> name_map_find(&s.topics, r.topic.bytes, r.topic.length)
    group = group_find(&s.groups, r.consumer_group.bytes, r.consumer_group.length)
    if (topic != NULL and group != NULL and group.consume_enable
            and not r.topic.escaped and not r.consumer_group.escaped
            and topic.permission & PERM_READ):
        if r.queue_id < 0 or r.queue_id >= topic.read_queues:
            snprintf(remark, sizeof(remark), b"queueId[%d] is illegal, topic:[%s] "
                     b"readQueueNums:[%d]", r.queue_id, topic.name, topic.read_queues)
            return reply_error(s, c, h, INVALID_PARAMETER, remark)
        job = make_job(s, c, h, &r, topic, group)
        if job == NULL:
            return reply_error(s, c, h, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control "
                               b"for a while: too many pulls are waiting")
        known = find_filter(s, &r, group, job)
    if known == TO_CONTROL:
        if job != NULL:
            free_job(s, job)
        if resubmitted:
            return reply_error(s, c, h, SYSTEM_ERROR, b"the pull's topic, group or subscription "
                               b"changed while the request was looked at; pull again")
        return TO_CONTROL
    s.counters.pulls += 1
    if s.offsets.reset_count > 0:
        moved_to = offset_take_reset(&s.offsets, r.topic.bytes, r.topic.length,
                                     r.consumer_group.bytes, r.consumer_group.length, r.queue_id)
    if r.sys_flag & SYS_COMMIT_OFFSET and moved_to < 0:
        offset_commit(&s.offsets, r.topic.bytes, r.topic.length, r.consumer_group.bytes,
                      r.consumer_group.length, r.queue_id, r.commit_offset)
    handed_grow(job.handed, r.queue_id)
    handed_pull(job.handed, r.queue_id, r.queue_offset if moved_to < 0 else moved_to)
    if moved_to >= 0:
        job.offset = moved_to
        job.moved = True
    make_ready(s, job)
    return DONE


# ------------------------------------------------------------------- the answer

cdef inline void time_answer(ShardState s, const PullJob* job, int32_t code) noexcept nogil:
    rpc_record(&s.rpc, job.request_code, code, job.held,
               monotonic_us() // 1000 - job.arrived_ms, 1)


cdef bint refuse_job(ShardState s, PullJob* job, int32_t code, const char* remark) noexcept nogil:
    """False: no buffer is left, the connection has to be closed. write_header() likewise."""
    time_answer(s, job, code)
    return reply_error_to(s, job.connection, job.opaque, job.serialize_type, code, remark)


cdef bint write_header(ShardState s, PullJob* job, int32_t code, const char* remark,
                       int64_t next_offset, uint64_t body_bytes) noexcept nogil:
    cdef PullReply reply
    cdef Queue* queue = NULL if job.topic.removed else topic_queue(job.topic, s.queues,
                                                                   job.queue_id)
    cdef uint8_t* at = s.net.reserve_reply(job.connection, PULL_REPLY_BYTES_MAX)
    if at == NULL:
        return False
    reply.opaque = job.opaque
    reply.serialize_type = job.serialize_type
    reply.code = code
    reply.remark = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark))
    reply.suggested_broker_id = 0
    reply.next_begin_offset = next_offset
    reply.min_offset = queue.min_offset if queue != NULL else 0
    reply.max_offset = queue.max_offset if queue != NULL else 0
    reply.body_bytes = <uint32_t> body_bytes
    time_answer(s, job, code)
    handed_pull(job.handed, job.queue_id, next_offset)
    return s.net.commit_reply(job.connection, write_pull_reply_header(at, &reply))


cdef void answer_nothing(ShardState s, PullJob* job, int32_t code, const char* remark,
                         int64_t next_offset) noexcept nogil:
    s.counters.pulls_empty += 1
    if not write_header(s, job, code, remark, next_offset, 0):
        s.net.close_connection(job.connection)
    free_job(s, job)


cdef void ask_function(ShardState s, PullJob* job, int64_t next_offset, const uint8_t** records,
                       const uint32_t* sizes, int32_t count) noexcept nogil:
    """The owner's function decides which of them are given; control answers the pull."""
    if hand_to_function(s, job, next_offset, records, sizes, count):
        handed_pull(job.handed, job.queue_id, next_offset)
        free_job(s, job)
    else:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: more pulls "
                    b"wait for message filters than may")


cdef void refuse_busy(ShardState s, PullJob* job, const char* remark) noexcept nogil:
    s.counters.busy_replies += 1
    if not refuse_job(s, job, SYSTEM_BUSY, remark):
        s.net.close_connection(job.connection)
    free_job(s, job)


cdef void answer_found(ShardState s, PullJob* job, Found* found) noexcept nogil:
    cdef int32_t i
    cdef bint good
    if job.sql != NULL and job.sql.function != 0:
        ask_function(s, job, found.next_offset, found.at, found.sizes, found.count)
        return
    good = write_header(s, job, SUCCESS, b"FOUND", found.next_offset, found.bytes)
    for i in range(found.count):
        good = good and s.net.add_borrowed(job.connection, found.at[i], found.sizes[i])
    if not good:
        s.net.close_connection(job.connection)
    s.counters.pulls_found += 1
    s.counters.messages_out += found.count
    s.counters.bytes_out += found.bytes
    job.topic.messages_out += found.count
    job.topic.bytes_out += found.bytes
    handed_add(job.handed, found.count, found.bytes)
    free_job(s, job)


cdef bint is_mended(ShardState s, PullJob* job, int64_t offset) noexcept nogil:
    """What is damaged is made anew from the log: the pull is held meanwhile, but not for ever."""
    cdef Queue* queue = NULL if job.topic.removed else topic_queue(job.topic, s.queues,
                                                                   job.queue_id)
    if queue == NULL or s.queues.mend(queue, offset) != ABSENT:
        return False
    if job.read_buffer != NULL:
        buffer_pool_release(&s.net.jumbo_pool, job.read_buffer)
        job.read_buffer = NULL
    if s.stopping or s.now_ms - job.arrived_ms >= MEND_WAIT_MS:
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"QUEUE_IS_MENDED", job.offset)
        return True
    job.deadline_ms = min(s.now_ms + MEND_LOOK_MS, job.arrived_ms + MEND_WAIT_MS)
    hold(s, job, queue)
    return True


cdef void answer_damage(ShardState s, PullJob* job, Found* found) noexcept nogil:
    cdef char remark[256]
    if is_mended(s, job, found.corrupt_offset):
        return
    s.counters.corrupt_records += 1
    if found.corrupt_physical < 0:
        snprintf(remark, sizeof(remark), b"the consume queue of topic %.100s queue %d cannot be "
                 b"read at offset %lld", job.topic.name, job.queue_id,
                 <long long> found.corrupt_offset)
    else:
        snprintf(remark, sizeof(remark), b"the record at commit log offset %lld (topic %.100s "
                 b"queue %d offset %lld) is damaged on disk and is not served",
                 <long long> found.corrupt_physical, job.topic.name, job.queue_id,
                 <long long> found.corrupt_offset)
    tell_event(s, job.connection, remark)
    if not refuse_job(s, job, SYSTEM_ERROR, remark):
        s.net.close_connection(job.connection)
    free_job(s, job)


cdef void answer_unreadable(ShardState s, PullJob* job) noexcept nogil:
    """The queue's entries at job.offset cannot be read or are no entries."""
    cdef Found found
    found.corrupt_offset = job.offset
    found.corrupt_physical = -1
    answer_damage(s, job, &found)


cdef void nothing_new(ShardState s, PullJob* job, Queue* queue) noexcept nogil:
    """The queue has no message beyond job.offset: hold the pull, or say so."""
    if job.may_hold and not s.stopping:
        job.deadline_ms = s.now_ms + job.hold_ms
        hold(s, job, queue)
    else:
        answer_nothing(s, job, PULL_NOT_FOUND, b"NO_NEW_MESSAGE", job.offset)


cdef void submit_read(ShardState s, PullJob* job, int32_t kind) noexcept nogil:
    job.read.kind = kind
    job.read.check = True
    job.read.owner = job
    job.read.buffer = job.read_buffer
    job.read.capacity = <uint32_t> s.net.jumbo_bytes
    job.state = JOB_READING
    if s.readers.submit(&job.read) != OK:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: the disk "
                    b"readers are behind")
        return
    s.reading_count += 1
    s.counters.pulls_from_disk += 1


cdef void fetch_entries(ShardState s, PullJob* job, Queue* queue) noexcept nogil:
    """Has a disk reader bring a page of the queue's file into the page cache, then goes on."""
    cdef int64_t per_file = s.queues.entries_per_file
    cdef int64_t file = job.offset // per_file
    cdef const char* directory = s.queues.reader_files.directory
    job.entry_reads += 1
    snprintf(job.path, PATH_BYTES, b"%s/%s/%d/%020lld", directory, queue.topic, queue.queue_id,
             <long long> (file * per_file * UNIT_BYTES))
    job.read.path = job.path
    job.read.count = 1
    job.read.offsets[0] = (job.offset - file * per_file) * UNIT_BYTES
    job.read.sizes[0] = ENTRIES_AT_ONCE * UNIT_BYTES
    submit_read(s, job, READ_FILE)


cdef bint may_pass(PullJob* job, int64_t tags_code) noexcept nogil:
    """By what stands in the queue entry."""
    if not job.tags.all and is_outside_address(tags_code):
        job.tags_from_records = True
        return True
    return tag_filter_passes(&job.tags, tags_code)


cdef void start_read(ShardState s, PullJob* job, Queue* queue) noexcept nogil:
    """Records (or queue entries) are not in memory: a disk reader fetches the next few."""
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef int64_t offset = job.offset
    cdef uint64_t bytes = 0
    cdef int32_t limit = job.max_messages if job.max_messages > 0 else 1
    cdef int count, i
    if limit > s.options.disk_max_messages:
        limit = s.options.disk_max_messages
    if job.sql != NULL:
        limit = READ_RECORDS_MAX            # most of them will not pass
    if job.read_buffer == NULL:
        job.read_buffer = <uint8_t*> buffer_pool_take(&s.net.jumbo_pool)
        job.entry_reads = 0
    if job.read_buffer == NULL:
        refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: too many "
                    b"pulls read from disk")
        return
    count = s.queues.read(queue, offset, ENTRIES_AT_ONCE, entries)
    if count == ABSENT and job.entry_reads < ENTRY_READS_MAX:
        fetch_entries(s, job, queue)
        return
    job.read.count = 0
    for i in range(count):
        if job.read.count >= limit:
            break
        if entries[i].size > 0 and may_pass(job, entries[i].tags_code) \
                and entries[i].physical_offset >= s.log.min_offset():
            if job.read.count > 0 and (bytes + entries[i].size
                                       > <uint64_t> s.options.disk_max_bytes):
                break
            if bytes + entries[i].size > s.net.jumbo_bytes:
                if job.read.count == 0:
                    job.offset = offset
                    count = 0               # no record is that long: the entry is damaged
                break
            job.read.offsets[job.read.count] = entries[i].physical_offset
            job.read.sizes[job.read.count] = entries[i].size
            job.read_queue_offsets[job.read.count] = offset
            job.read.count += 1
            bytes += entries[i].size
        offset += 1
    job.next_offset = offset
    if job.read.count > 0:
        submit_read(s, job, READ_LOG)
    elif count > 0:
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"NO_MATCHED_MESSAGE", offset)
    else:
        answer_unreadable(s, job)


cdef void answer(ShardState s, PullJob* job) noexcept nogil:
    cdef Found found
    cdef Queue* queue
    cdef int status
    if job.pop.kind != NO_POP:
        answer_pop(s, job)
        return
    if job.topic.removed:
        if not refuse_job(s, job, TOPIC_NOT_EXIST, b"the topic was deleted"):
            s.net.close_connection(job.connection)
        free_job(s, job)
        return
    if job.moved:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"OFFSET_RESET", job.offset)
        return
    queue = topic_queue(job.topic, s.queues, job.queue_id)
    if queue == NULL:
        answer_nothing(s, job, PULL_NOT_FOUND, b"NO_MATCHED_LOGIC_QUEUE", job.offset)
    elif job.offset == queue.max_offset:
        nothing_new(s, job, queue)
    elif queue.max_offset == 0:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"NO_MESSAGE_IN_QUEUE", 0)
    elif job.offset > queue.max_offset:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"OFFSET_OVERFLOW_BADLY", queue.max_offset)
    elif job.offset < queue.min_offset:
        answer_nothing(s, job, PULL_OFFSET_MOVED, b"OFFSET_TOO_SMALL", queue.min_offset)
    else:
        status = scan_entries(s, job, queue, &found)
        if found.count > 0:
            answer_found(s, job, &found)
        elif found.unfinished:
            job.offset = found.next_offset
            make_ready(s, job)              # goes on in the next turn
        elif status == ABSENT or found.absent_offset >= 0:
            if found.absent_offset > job.offset:
                job.offset = found.absent_offset    # what lies before did not pass the filter
            start_read(s, job, queue)
        elif found.corrupt_offset >= 0:
            answer_damage(s, job, &found)
        elif status < 0:
            job.offset = found.next_offset      # what lies before did not pass the filter
            answer_unreadable(s, job)
        else:
            answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"NO_MATCHED_MESSAGE",
                           found.next_offset)


cdef void put_in_front(ChainEntry** chain, ChainEntry* first, ChainEntry* last) noexcept nogil:
    """The rest of a list, from `first` to `last`, comes before what is in the chain already."""
    cdef ChainEntry* behind = chain[0]
    first.previous = last
    if behind != NULL:
        first.previous = behind.previous
        last.next = behind
        behind.previous = last
    chain[0] = first


cdef void answer_pulls(ShardState s) noexcept nogil:
    cdef ChainEntry* entry = s.ready
    cdef ChainEntry* last = entry.previous if entry != NULL else NULL
    cdef uint64_t bytes_end = s.counters.bytes_out + TURN_BYTES
    cdef PullJob* job
    # Where buffers run out nobody has one answer queued behind another.
    cdef uint64_t unsent_max = 0 if s.net.is_short() else UNSENT_MAX
    s.ready = NULL
    s.scan_cost_left = SCAN_COST_OF_TURN
    while entry != NULL:
        if s.counters.bytes_out >= bytes_end:
            put_in_front(&s.ready, entry, last)
            return
        job = <PullJob*> entry.owner
        entry = entry.next
        if job.connection.id != job.connection_id:
            free_job(s, job)
        elif (s.counters.bytes_out + TURN_BYTES // 2 >= bytes_end
              and job.connection.unsent_bytes > 0):
            make_ready(s, job)              # each connection in turn, where much is asked for
        elif (job.connection.unread & UNREAD_UNSENT
              or job.connection.unsent_bytes > unsent_max):
            if not job.connection.unread & UNREAD_UNSENT:
                s.net.flush_connection(job.connection)      # may find the socket full
            if job.connection.id != job.connection_id:
                free_job(s, job)
            elif job.connection.unread & UNREAD_UNSENT:
                if s.job_pool.in_use > s.job_pool.count - s.job_pool.count // 4:
                    refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: "
                                b"too many pulls wait for clients that do not read")
                else:
                    defer(s, job)
            else:
                answer(s, job)
        else:
            answer(s, job)


# ------------------------------------------------------------------- back from the disk

cdef bint all_whole(ShardState s, PullJob* job, uint64_t* total, Found* found) noexcept nogil:
    """The records a disk reader brought (and checked) are those the queue entries mean."""
    cdef RecordView view
    cdef uint64_t at = 0
    cdef int32_t i
    found.corrupt_offset = -1
    found.corrupt_physical = -1
    for i in range(job.read.done_count):
        if record_parse(job.read_buffer + at, job.read.sizes[i], job.read.offsets[i], False,
                        &view) != OK or view.total_bytes != job.read.sizes[i] \
                or not is_of_queue(&view, job, job.read_queue_offsets[i]):
            found.corrupt_offset = job.read_queue_offsets[i]
            found.corrupt_physical = job.read.offsets[i]
            job.next_offset = job.read_queue_offsets[i]
            job.read.done_count = i
            break
        at += job.read.sizes[i]
    total[0] = at
    return found.corrupt_offset < 0


cdef uint64_t sieve(ShardState s, PullJob* job) noexcept nogil:
    """Leaves of the records in the buffer those that pass, at most a reply's; their bytes."""
    cdef RecordView view
    cdef int32_t limit = s.options.disk_max_messages
    cdef int32_t i, kept = 0
    cdef uint64_t at = 0, end = 0
    if job.max_messages < limit:
        limit = job.max_messages if job.max_messages > 0 else 1
    for i in range(job.read.done_count):
        if record_parse(job.read_buffer + at, job.read.sizes[i], job.read.offsets[i], False,
                        &view) == OK and record_passes(s, job, &view):
            if kept == limit:
                job.next_offset = job.read_queue_offsets[i]
                break
            if end != at:
                memmove(job.read_buffer + end, job.read_buffer + at, job.read.sizes[i])
            end += job.read.sizes[i]
            at += job.read.sizes[i]
            job.read.sizes[kept] = job.read.sizes[i]
            kept += 1
        else:
            s.counters.entries_skipped += 1
            at += job.read.sizes[i]
    job.scanned += RECORD_COST * job.read.done_count
    job.read.done_count = kept
    return end


cdef void go_on(ShardState s, PullJob* job) noexcept nogil:
    """Nothing of what was read passed the filter: the next records, or an answer without any."""
    if job.scanned >= SCAN_ENTRIES_MAX:
        answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"NO_MATCHED_MESSAGE", job.next_offset)
        return
    job.offset = job.next_offset
    job.entry_reads = 0
    make_ready(s, job)


cdef void give_read(ShardState s, PullJob* job, uint64_t bytes) noexcept nogil:
    """Answers with what is in the read buffer."""
    cdef const uint8_t* records[READ_RECORDS_MAX]
    cdef uint64_t at = 0
    cdef int32_t i
    if job.sql != NULL and job.sql.function != 0:
        for i in range(job.read.done_count):
            records[i] = job.read_buffer + at
            at += job.read.sizes[i]
        ask_function(s, job, job.next_offset, records, job.read.sizes, job.read.done_count)
        return
    if not (write_header(s, job, SUCCESS, b"FOUND", job.next_offset, bytes) and s.net.add_owned(
            job.connection, job.read_buffer, bytes, job.read_buffer, IN_JUMBO)):
        s.net.close_connection(job.connection)
    else:
        job.read_buffer = NULL              # the output piece owns it now
    s.counters.pulls_found += 1
    s.counters.messages_out += job.read.done_count
    s.counters.bytes_out += bytes
    job.topic.messages_out += job.read.done_count
    job.topic.bytes_out += bytes
    handed_add(job.handed, job.read.done_count, bytes)
    free_job(s, job)


cdef void finish_read(ShardState s, PullJob* job) noexcept nogil:
    cdef Found found
    cdef uint64_t bytes = 0
    cdef bint whole
    found.corrupt_physical = -1
    s.reading_count -= 1
    if job.connection.id != job.connection_id:
        free_job(s, job)
        return
    if job.pop.kind != NO_POP:
        pop_read_done(s, job)
        return
    if job.read.kind == READ_FILE:
        make_ready(s, job)                  # the entries are in the page cache now: look again
        return
    if job.read.done_count < job.read.count and job.read.done_count >= 0:
        job.next_offset = job.read_queue_offsets[job.read.done_count]
    whole = all_whole(s, job, &bytes, &found)
    if job.read.done_count <= 0:
        if whole:
            found.corrupt_offset = job.read_queue_offsets[0]
            found.corrupt_physical = job.read.offsets[0]
        answer_damage(s, job, &found)
        return
    if job.sql != NULL or job.tags_from_records:
        bytes = sieve(s, job)
        if job.read.done_count == 0:
            go_on(s, job)
            return
    give_read(s, job, bytes)


cdef void collect_reads(ShardState s) noexcept nogil:
    cdef void* done
    while s.reading_count > 0:
        done = s.readers.completed()
        if done == NULL:
            return
        if (<ReadJob*> done).owner == <void*> &s.schedule:
            schedule_read_done(s)
        elif (<ReadJob*> done).owner == <void*> &s.timers.fetch:
            record_fetch_done(s, &s.timers.fetch)
            s.timers.look_ms = 0
        elif (<ReadJob*> done).owner == <void*> &s.checks.fetch:
            record_fetch_done(s, &s.checks.fetch)
        elif (<ReadJob*> done).owner == <void*> &s.pops:
            revive_read_done(s)
        elif (<ReadJob*> done).kind == READ_RECORD:
            parked_read(s, <ReadJob*> done)
        else:
            finish_read(s, <PullJob*> (<ReadJob*> done).owner)
