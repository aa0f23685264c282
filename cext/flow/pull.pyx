"""Pulls. See pull.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, strlen

from cext.base.byteorder cimport load_i32, load_i64, load_u32
from cext.base.status cimport ABSENT, OK
from cext.flow.group_table cimport (
    CODES_MAX,
    Group,
    Subscription,
    TagFilter,
    group_find,
    subscription_find,
    tag_filter_passes,
)
from cext.flow.held_pulls cimport defer, free_job, hold, make_ready
from cext.flow.offset_table cimport offset_pull, offset_take_reset
from cext.flow.pull_job cimport JOB_READING, PATH_BYTES
from cext.flow.replying cimport (
    FLAG_ONE_WAY,
    INVALID_PARAMETER,
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    reply_error,
    reply_error_to,
    tell_event,
)
from cext.flow.schedule cimport schedule_read_done
from cext.flow.timer_fetch cimport timer_read_done
from cext.flow.topic_table cimport PERM_READ, Topic, topic_queue
from cext.memory.buffer_pool cimport buffer_pool_take
from cext.memory.name_map cimport name_map_find
from cext.net.connection cimport IN_JUMBO
from cext.store.consume_queue cimport UNIT_BYTES, Queue, QueueEntry
from cext.store.disk_reader cimport READ_FILE, READ_LOG, ReadJob
from cext.store.record cimport RecordView, record_parse
from cext.wire.pull_request cimport PullRequest, read_pull_request
from cext.wire.replies cimport PULL_REPLY_BYTES_MAX, PullReply, write_pull_reply_header
from cext.wire.subscription cimport parse_tag_subscription
from cext.wire.text cimport text_equals, text_of

cdef enum:
    SYS_COMMIT_OFFSET = 1
    SYS_SUSPEND = 2
    SYS_SUBSCRIPTION = 4
    SYS_CLASS_FILTER = 8
    FOUND_MAX = 1024                # records of one reply, whatever is configured
    SCAN_UNITS_MIN = 800            # queue entries looked at per pull at least (16 000 bytes)
    SCAN_UNITS_MAX = 8192           # and at most, whatever the request asks for
    ENTRIES_AT_ONCE = 64
    LARGE_PULL_BYTES = 1 << 20      # of a reply to who asks for more than is configured
    ENTRY_READS_MAX = 8             # fetches of queue entries before a pull is given up
    UNSENT_MAX = 1048576            # queued bytes of one connection before its pulls wait

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef struct Found:                  # what one look into a queue brought
    int32_t count
    uint64_t bytes
    int64_t next_offset
    int64_t absent_offset           # first record that is not in memory, or -1
    int64_t corrupt_offset          # first damaged record, or -1
    int64_t corrupt_physical
    int64_t corrupt_reason
    const uint8_t* at[FOUND_MAX]
    uint32_t sizes[FOUND_MAX]


# ------------------------------------------------------------------- the request

cdef int find_filter(ShardState s, const PullRequest* r, Group* group,
                     TagFilter* out) noexcept nogil:
    """Fills the tag filter; 0, 1 for the control thread, or a response code."""
    cdef Subscription* known
    cdef int32_t codes[CODES_MAX]
    cdef int32_t i
    cdef int count
    cdef bint all_tags = False
    out.all = True
    out.count = 0
    if r.sys_flag & SYS_SUBSCRIPTION:
        if r.expression_type.bytes != NULL and not text_equals(&r.expression_type, b"TAG", 3):
            return 1
        if r.sys_flag & SYS_CLASS_FILTER:
            return 0
        count = parse_tag_subscription(&r.subscription, codes, CODES_MAX, &all_tags)
        if count < 0:
            return 0                # more tags than are filtered here: the client filters
        out.all = all_tags
        out.count = count
        for i in range(count):
            out.codes[i] = codes[i]
        return 0
    known = subscription_find(&s.groups, r.consumer_group.bytes, r.consumer_group.length,
                              r.topic.bytes, r.topic.length)
    if known == NULL or known.by_property or known.version < r.sub_version or (
            known.broadcasting and not group.broadcast_enable):
        return 1
    out[0] = known.filter
    return 0


cdef int accept_pull(ShardState s, Connection* c, const Header* h, const Frame* f,
                     bint resubmitted) noexcept nogil:
    cdef PullRequest r
    cdef TagFilter tags
    cdef Topic* topic
    cdef Group* group
    cdef PullJob* job
    cdef int64_t moved_to
    cdef int status
    cdef char remark[256]
    if read_pull_request(h, &r) != OK:
        snprintf(remark, sizeof(remark), b"the pull's field %s is missing or not a number",
                 r.bad_field)
        return reply_error(s, c, h, SYSTEM_ERROR, remark)
    if h.flag & FLAG_ONE_WAY:
        return 0
    topic = <Topic*> name_map_find(&s.topics, r.topic.bytes, r.topic.length)
    group = group_find(&s.groups, r.consumer_group.bytes, r.consumer_group.length)
    if (topic == NULL or group == NULL or not group.consume_enable
            or r.topic.escaped or r.consumer_group.escaped
            or not topic.permission & PERM_READ):
        status = 1
    elif r.queue_id < 0 or r.queue_id >= topic.read_queues:
        snprintf(remark, sizeof(remark), b"queueId[%d] is illegal, topic:[%s] readQueueNums:[%d]",
                 r.queue_id, topic.name, topic.read_queues)
        return reply_error(s, c, h, INVALID_PARAMETER, remark)
    else:
        status = find_filter(s, &r, group, &tags)
    if status == 1:
        if resubmitted:
            return reply_error(s, c, h, SYSTEM_ERROR, b"the pull's topic, group or subscription "
                               b"changed while the request was looked at; pull again")
        return 1
    job = <PullJob*> buffer_pool_take(&s.job_pool)
    if job == NULL:
        s.counters.busy_replies += 1
        return reply_error(s, c, h, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control for "
                           b"a while: too many pulls are waiting")
    s.counters.pulls += 1
    moved_to = -1
    if s.offsets.reset_count > 0:
        moved_to = offset_take_reset(&s.offsets, r.topic.bytes, r.topic.length,
                                     r.consumer_group.bytes, r.consumer_group.length, r.queue_id)
    offset_pull(&s.offsets, r.topic.bytes, r.topic.length, r.consumer_group.bytes,
                r.consumer_group.length, r.queue_id,
                r.commit_offset if r.sys_flag & SYS_COMMIT_OFFSET and moved_to < 0 else -1,
                r.queue_offset if moved_to < 0 else moved_to)
    job.connection = c
    job.connection_id = c.id
    job.opaque = h.opaque
    job.version = h.version
    job.serialize_type = h.serialize_type
    job.topic = topic
    job.queue_id = r.queue_id
    job.offset = r.queue_offset if moved_to < 0 else moved_to
    job.moved = moved_to >= 0
    job.max_messages = r.max_messages
    job.max_bytes = r.max_message_bytes
    job.may_hold = (r.sys_flag & SYS_SUSPEND) != 0
    job.hold_ms = r.suspend_timeout_ms if s.options.long_polling else \
        s.options.short_polling_ms
    if job.hold_ms > s.options.suspend_max_ms and s.options.long_polling:
        job.hold_ms = s.options.suspend_max_ms
    job.read_buffer = NULL
    job.tags = tags
    make_ready(s, job)
    return 0


# ------------------------------------------------------------------- looking into the queue

cdef bint is_of_queue(const RecordView* view, const PullJob* job, int64_t offset) noexcept nogil:
    return (view.queue_offset == offset and view.queue_id == job.queue_id
            and view.topic_bytes == job.topic.name_length
            and memcmp(view.topic, job.topic.name, view.topic_bytes) == 0)


cdef bint check_record(ShardState s, const uint8_t* at, const QueueEntry* entry, Found* found,
                       const PullJob* job, int64_t offset) noexcept nogil:
    """On the way out: the record is the one its queue entry means, and it is whole."""
    cdef RecordView view
    cdef bint in_ring = (at >= s.log.ring.base and at < s.log.ring.base + 2 * s.log.ring.size)
    cdef int status
    if in_ring:
        # Written by this process in this run and never read back from anywhere.
        if (load_u32(at) == <uint32_t> entry.size and load_i64(at + 28) == entry.physical_offset
                and load_i64(at + 20) == offset and load_i32(at + 12) == job.queue_id):
            return True
        status = -7
    else:
        status = record_parse(at, entry.size, entry.physical_offset, True, &view)
        if status == OK and view.total_bytes == <uint32_t> entry.size \
                and is_of_queue(&view, job, offset):
            return True
    found.corrupt_offset = offset
    found.corrupt_physical = entry.physical_offset
    found.corrupt_reason = status
    return False


cdef int look(ShardState s, PullJob* job, Queue* queue, Found* found) noexcept nogil:
    """Collects records for one reply; OK, ABSENT (queue entries not in memory) or a failure."""
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef const uint8_t* at
    cdef int64_t offset = job.offset
    cdef int32_t limit = job.max_messages
    cdef int64_t limit_bytes = s.options.pull_max_bytes
    cdef int64_t scan = SCAN_UNITS_MIN
    cdef int32_t wanted
    cdef int i, count, status
    if job.max_bytes > limit_bytes:
        # A reader in bulk, which says so: clients of RocketMQ ask for 256 KiB and get what is set.
        limit_bytes = job.max_bytes if job.max_bytes < LARGE_PULL_BYTES else LARGE_PULL_BYTES
    elif limit > s.options.pull_max_messages:
        limit = s.options.pull_max_messages
    if limit > FOUND_MAX:
        limit = FOUND_MAX
    if limit < 1:
        limit = 1
    if job.max_messages > scan:
        scan = job.max_messages if job.max_messages < SCAN_UNITS_MAX else SCAN_UNITS_MAX
    found.count = 0
    found.bytes = 0
    found.absent_offset = -1
    found.corrupt_offset = -1
    found.corrupt_physical = -1
    found.next_offset = offset
    while found.count < limit and offset < queue.max_offset and offset - job.offset < scan:
        wanted = ENTRIES_AT_ONCE
        if job.tags.all and limit - found.count < wanted:
            wanted = limit - found.count
        count = s.queues.read(queue, offset, wanted, entries)
        if count == ABSENT and found.count > 0:
            return OK               # give what is there; the rest comes with the next pull
        if count < 0:
            return count
        if count == 0:
            break
        for i in range(count):
            if found.count == limit:
                return OK
            if entries[i].size > 0 and tag_filter_passes(&job.tags, entries[i].tags_code):
                if found.count > 0 and found.bytes + entries[i].size > <uint64_t> limit_bytes:
                    return OK
                status = s.log.view(entries[i].physical_offset, entries[i].size, &at)
                if status == ABSENT:
                    found.absent_offset = offset
                    return OK
                if status != OK:
                    # Deleted by retention between the queue's read and now, or out of range.
                    if entries[i].physical_offset >= s.log.min_offset():
                        found.corrupt_offset = offset
                        found.corrupt_physical = entries[i].physical_offset
                        found.corrupt_reason = status
                        return OK
                elif not check_record(s, at, &entries[i], found, job, offset):
                    return OK
                else:
                    found.at[found.count] = at
                    found.sizes[found.count] = entries[i].size
                    found.count += 1
                    found.bytes += entries[i].size
            offset += 1
            found.next_offset = offset
    return OK


# ------------------------------------------------------------------- the answer

cdef int write_header(ShardState s, PullJob* job, int32_t code, const char* remark,
                      int64_t next_offset, uint64_t body_bytes) noexcept nogil:
    cdef PullReply reply
    cdef Queue* queue = NULL if job.topic.removed else topic_queue(job.topic, s.queues,
                                                                   job.queue_id)
    cdef uint8_t* at = s.net.reserve_reply(job.connection, PULL_REPLY_BYTES_MAX)
    if at == NULL:
        return -1
    reply.opaque = job.opaque
    reply.serialize_type = job.serialize_type
    reply.code = code
    reply.remark = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark))
    reply.suggested_broker_id = 0
    reply.next_begin_offset = next_offset
    reply.min_offset = queue.min_offset if queue != NULL else 0
    reply.max_offset = queue.max_offset if queue != NULL else 0
    reply.body_bytes = <uint32_t> body_bytes
    if not s.net.commit_reply(job.connection, write_pull_reply_header(at, &reply)):
        return -1
    return 0


cdef void answer_nothing(ShardState s, PullJob* job, int32_t code, const char* remark,
                         int64_t next_offset) noexcept nogil:
    s.counters.pulls_empty += 1
    if write_header(s, job, code, remark, next_offset, 0) < 0:
        s.net.close_connection(job.connection)
    free_job(s, job)


cdef void answer_found(ShardState s, PullJob* job, Found* found) noexcept nogil:
    cdef int32_t i
    cdef bint good = write_header(s, job, SUCCESS, b"FOUND", found.next_offset, found.bytes) == 0
    for i in range(found.count):
        good = good and s.net.add_borrowed(job.connection, found.at[i], found.sizes[i])
    if not good:
        s.net.close_connection(job.connection)
    s.counters.pulls_found += 1
    s.counters.messages_out += found.count
    s.counters.bytes_out += found.bytes
    job.topic.messages_out += found.count
    job.topic.bytes_out += found.bytes
    free_job(s, job)


cdef void answer_damage(ShardState s, PullJob* job, Found* found) noexcept nogil:
    cdef char remark[256]
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
    if reply_error_to(s, job.connection, job.opaque, job.serialize_type, SYSTEM_ERROR,
                      remark) < 0:
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


cdef void refuse_busy(ShardState s, PullJob* job, const char* remark) noexcept nogil:
    s.counters.busy_replies += 1
    if reply_error_to(s, job.connection, job.opaque, job.serialize_type, SYSTEM_BUSY, remark) < 0:
        s.net.close_connection(job.connection)
    free_job(s, job)


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


cdef void start_read(ShardState s, PullJob* job, Queue* queue) noexcept nogil:
    """Records (or queue entries) are not in memory: a disk reader fetches the next few."""
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef int64_t offset = job.offset
    cdef uint64_t bytes = 0
    cdef int32_t limit = job.max_messages if job.max_messages > 0 else 1
    cdef int count, i
    if limit > s.options.disk_max_messages:
        limit = s.options.disk_max_messages
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
        if entries[i].size > 0 and tag_filter_passes(&job.tags, entries[i].tags_code) \
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
    if job.topic.removed:
        if reply_error_to(s, job.connection, job.opaque, job.serialize_type, 17,
                          b"the topic was deleted") < 0:
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
        status = look(s, job, queue, &found)
        if found.count > 0:
            answer_found(s, job, &found)
        elif status == ABSENT or found.absent_offset >= 0:
            if found.absent_offset > job.offset:
                job.offset = found.absent_offset    # what lies before did not pass the filter
            start_read(s, job, queue)
        elif found.corrupt_offset >= 0:
            answer_damage(s, job, &found)
        elif status < 0:
            answer_unreadable(s, job)
        else:
            answer_nothing(s, job, PULL_RETRY_IMMEDIATELY, b"NO_MATCHED_MESSAGE",
                           found.next_offset)


cdef void answer_pulls(ShardState s) noexcept nogil:
    cdef PullJob* job = s.ready_first
    cdef PullJob* following
    s.ready_first = NULL
    s.ready_last = NULL
    while job != NULL:
        following = job.next
        if job.connection.id != job.connection_id:
            free_job(s, job)
        elif job.connection.want_write or job.connection.unsent_bytes > UNSENT_MAX:
            if not job.connection.want_write:
                s.net.flush_connection(job.connection)      # may find the socket full
            if job.connection.id != job.connection_id:
                free_job(s, job)
            elif job.connection.want_write:
                defer(s, job)
            else:
                answer(s, job)
        else:
            answer(s, job)
        job = following


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


cdef void finish_read(ShardState s, PullJob* job) noexcept nogil:
    cdef Found found
    cdef uint64_t bytes = 0
    cdef bint whole
    found.corrupt_physical = -1
    s.reading_count -= 1
    if job.connection.id != job.connection_id:
        free_job(s, job)
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
    if write_header(s, job, SUCCESS, b"FOUND", job.next_offset, bytes) < 0 or not s.net.add_owned(
            job.connection, job.read_buffer, bytes, job.read_buffer, IN_JUMBO):
        s.net.close_connection(job.connection)
    else:
        job.read_buffer = NULL              # the output piece owns it now
    s.counters.pulls_found += 1
    s.counters.messages_out += job.read.done_count
    s.counters.bytes_out += bytes
    job.topic.messages_out += job.read.done_count
    job.topic.bytes_out += bytes
    free_job(s, job)


cdef void collect_reads(ShardState s) noexcept nogil:
    cdef void* done
    while s.reading_count > 0:
        done = s.readers.completed()
        if done == NULL:
            return
        if (<ReadJob*> done).owner == <void*> &s.schedule:
            schedule_read_done(s)
        elif (<ReadJob*> done).owner == <void*> &s.timers.fetch:
            timer_read_done(s)
        else:
            finish_read(s, <PullJob*> (<ReadJob*> done).owner)
