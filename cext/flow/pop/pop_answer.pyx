"""Pops: from a job to its reply. See pop_answer.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset, strlen

from cext.base.byteorder cimport load_i64
from cext.base.clock cimport monotonic_us
from cext.base.decimal cimport put_decimal
from cext.base.status cimport ABSENT, CORRUPT, OK, RING_FULL
from cext.flow.append.turn_room cimport turn_room
from cext.flow.context.role cimport is_follower, is_writable, read_refusal, refuse_remark
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.small_replies cimport log_event, reply_error_to
from cext.flow.fetch.disk_fetch cimport (
    DiskFetch,
    FetchDone,
    FetchPool,
    fetch_add,
    fetch_begin,
    fetch_entries,
)
from cext.flow.pop.pop_inflight cimport flight_begin, flight_full
from cext.flow.pop.pop_order cimport (
    OrderBlock,
    order_blocks,
    order_clear,
    order_find,
    order_given,
    order_obtain,
)
from cext.flow.pop.pop_rewrite cimport REWRITE_ADDS_MAX, extra_info_text, rewrite_record
from cext.flow.pop.pop_table cimport (
    RETRY_NAME_MAX,
    is_others_retry_topic,
    pair_find,
    pair_obtain,
    retry_topic_name,
)
from cext.flow.pop.revive cimport has_come_again
from cext.flow.pop.revive_log cimport (
    REVIVE_RECORD_BYTES,
    append_check_point,
    next_revive_queue,
)
from cext.flow.pull.held_pulls cimport (
    drop_fetch,
    free_job,
    hold_pop,
    is_outdated,
    make_ready,
    wake_pops,
)
from cext.flow.pull.pull_job cimport (
    JOB_READING,
    JOB_READY,
    NOTIFY,
    PEEK,
    POP,
    PopPair,
    job_move,
)
from cext.flow.pull.queue_entry_scan cimport Found, scan_entries
from cext.flow.tables.delivery_counter cimport delivery_counter_add
from cext.flow.tables.offset_table cimport offset_commit, offset_query, offset_take_reset
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.memory.name_map cimport name_map_find
from cext.net.connection cimport IN_JUMBO
from cext.store.log.record cimport RecordView, record_parse
from cext.store.queues.consume_queue cimport Queue, QueueEntry, queue_memory_offset
from cext.wire.codes cimport (
    POLLING_FULL,
    POLLING_TIMEOUT,
    PULL_NOT_FOUND,
    SERVICE_NOT_AVAILABLE,
    SUBSCRIPTION_GROUP_NOT_EXIST,
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from cext.wire.pop_request cimport REVIVE_IN_ORDER
from cext.wire.replies cimport (
    ERROR_REPLY_BYTES_MAX,
    POP_REPLY_BYTES_MAX,
    POP_TEXT_BYTES_MAX,
    PopReply,
    write_notification_reply,
    write_pop_reply_header,
)
from cext.wire.revive_entry cimport CHECK_POINT_MESSAGES_MAX, ReviveEntry
from cext.wire.text cimport text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    MESSAGES_MAX = CHECK_POINT_MESSAGES_MAX
    INIT_MIN = 0
    ENTRIES_AT_ONCE = 32
    READS_MAX = 8               # from disk, before a pop is told to come again
    MEND_LOOK_MS = 1000         # between looks at what could not be made anew for now

cdef struct Note:               # one of the reply's texts
    uint32_t length
    char text[POP_TEXT_BYTES_MAX]

cdef struct Popped:             # what one pop has found so far
    int64_t pop_ms
    int32_t revive_queue
    int32_t count
    uint64_t bytes              # of all of them
    const uint8_t* at[MESSAGES_MAX]     # of the topic itself, borrowed
    uint32_t sizes[MESSAGES_MAX]
    int32_t borrowed
    uint8_t* copies             # jumbo buffer with those of the retry topic, or NULL
    uint64_t copied
    int64_t rest                # messages behind what was given
    bint unfinished             # the turn's share of filters is spent
    bint failed                 # the log takes no check points
    bint others                 # the retry topic is another group's, too
    bint absent                 # records at absent_offset are not in memory
    Topic* absent_topic
    int32_t absent_queue
    int64_t absent_offset
    Topic* large_topic          # of the first message that is larger than may be given; NULL: none
    int32_t large_queue
    int64_t large_offset
    int64_t large_bytes
    # A blocked queue may be free then, or what could not be made anew is looked for again, by the
    # wall clock; 0: none is.
    int64_t visible_ms
    Note starts
    Note messages
    Note orders


cdef void note(Note* n, const char* form, int32_t flag, int64_t a, int64_t b) noexcept nogil:
    """Adds "flag a b" by its form; its place was counted, nothing is ever cut."""
    cdef int left = POP_TEXT_BYTES_MAX - <int> n.length
    cdef int bytes
    if n.length > 0 and left > 1:
        n.text[n.length] = c';'
        n.length += 1
        left -= 1
    bytes = snprintf(n.text + n.length, left, form, flag, <long long> a, <long long> b)
    n.length += bytes if bytes < left else 0


# ------------------------------------------------------------------- where a queue goes on

cdef void move(PopService s, PopJob* job, Topic* topic, int32_t queue_id,
               int64_t offset) noexcept nogil:
    if job.kind == POP:
        offset_commit(&s.tables.offsets, topic.name, topic.name_length, job.pair.group,
                      job.pair.group_length, queue_id, offset)


cdef int64_t first_offset(PopService s, PopJob* job, Queue* queue, bint retry) noexcept nogil:
    """Where a group begins that never consumed the queue."""
    cdef QueueEntry entry
    cdef const uint8_t* at
    if retry or job.init_mode == INIT_MIN or queue.max_offset == 0:
        return queue.min_offset
    if (queue.min_offset == 0 and s.append.queues.read(queue, 0, 1, &entry) == 1 and entry.size > 0
            and s.append.log.view(entry.physical_offset, entry.size, &at) == OK):
        return 0                            # a young queue: all of it is new to a new group
    return queue.max_offset - 1


cdef int64_t begin(PopService s, PopJob* job, Topic* topic, Queue* queue,
                   bint retry) noexcept nogil:
    cdef PopPair* pair = job.pair
    cdef int64_t offset, known = -1
    cdef bint reset = False
    if s.tables.offsets.reset_count > 0 and job.kind == POP:
        known = offset_take_reset(&s.tables.offsets, topic.name, topic.name_length, pair.group,
                                  pair.group_length, queue.queue_id)
        reset = known >= 0
    if not reset:
        known = offset_query(&s.tables.offsets, topic.name, topic.name_length, pair.group,
                             pair.group_length, queue.queue_id)
    elif not retry:
        order_clear(pair, queue.queue_id)
        s.pops.order_version += 1
    offset = known if known >= 0 else first_offset(s, job, queue, retry)
    if offset < queue.min_offset:
        offset = queue.min_offset
    elif offset > queue.max_offset:
        offset = queue.max_offset
    if offset != known:
        move(s, job, topic, queue.queue_id, offset)
    return offset


cdef void look_again(Popped* p, int64_t at_ms) noexcept nogil:
    if p.visible_ms == 0 or at_ms < p.visible_ms:
        p.visible_ms = at_ms


cdef bint is_blocked(PopService s, PopJob* job, Popped* p, int32_t queue_id,
                     int64_t offset) noexcept nogil:
    cdef int64_t until = 0
    if not job.order or not order_blocks(
            order_find(job.pair, queue_id), offset, job.attempt, job.attempt_bytes,
            s.turn.wall_ms, &until):
        return False
    look_again(p, until)
    return True


# ------------------------------------------------------------------- what is given

cdef int32_t fitting(PopService s, Popped* p, const Found* found) noexcept nogil:
    """How many of the retry topic's records still fit into the buffer for copies."""
    cdef uint64_t bytes = p.copied
    cdef int32_t i
    if p.copies == NULL:
        p.copies = <uint8_t*> buffer_pool_take(&s.turn.net.jumbo_pool)
    if p.copies == NULL:
        return 0
    for i in range(found.count):
        bytes += found.sizes[i] + REWRITE_ADDS_MAX
        if bytes > s.turn.net.jumbo_bytes:
            return i
    return found.count


cdef bint remember(PopService s, PopJob* job, Popped* p, Topic* topic, int32_t queue_id,
                   int64_t start, const int64_t* offsets, int32_t count, int64_t following,
                   int32_t flag) noexcept nogil:
    """Writes down who has the messages: a check point, or the block of a queue in order."""
    cdef PopPair* pair = job.pair
    cdef OrderBlock* block
    cdef ReviveEntry e
    cdef int32_t i
    cdef int32_t least = 0x7FFFFFFF
    if job.order:
        block = order_obtain(pair, queue_id)
        if block == NULL:
            return False
        order_given(block, offsets, count, p.pop_ms, job.invisible_ms, job.attempt,
                    job.attempt_bytes)
        s.pops.order_version += 1
        for i in range(count):
            if block.times[i] > 0:
                note_order(&p.orders, flag, queue_id, offsets[i], block.times[i])
            if block.times[i] < least:
                least = block.times[i]
        note(&p.orders, b"%d %lld %lld", flag, queue_id, least)
        return True
    memset(&e, 0, sizeof(e))
    e.topic = text_of(topic.name, topic.name_length)
    e.group = text_of(pair.group, pair.group_length)
    e.broker_name = text_of(s.turn.options.broker_name, s.turn.options.broker_name_bytes)
    e.start_offset = start
    e.pop_ms = p.pop_ms
    e.invisible_ms = job.invisible_ms
    e.queue_id = queue_id
    e.count = e.listed = count
    for i in range(count):
        e.list[i] = offsets[i] - start
    return append_check_point(s, &e, p.revive_queue, following) == OK


cdef void note_order(Note* n, int32_t flag, int32_t queue_id, int64_t offset,
                     int32_t times) noexcept nogil:
    cdef int left = POP_TEXT_BYTES_MAX - <int> n.length
    cdef int bytes = snprintf(n.text + n.length, left, b"%s%d qo%d%%%lld %d",
                              b";" if n.length > 0 else b"", flag, queue_id, <long long> offset,
                              times)
    n.length += bytes if bytes < left else 0


cdef void add_copies(PopService s, PopJob* job, Popped* p, const Found* found, int32_t count,
                     int64_t start, int32_t flag) noexcept nogil:
    cdef char info[512]
    cdef uint32_t bytes
    cdef int32_t i
    for i in range(count):
        extra_info_text(s, info, sizeof(info), start, p.pop_ms, job.invisible_ms,
                        p.revive_queue, flag, found.at[i])
        bytes = rewrite_record(found.at[i], found.sizes[i], job.topic, info,
                               p.copies + p.copied)
        p.copied += bytes
        p.bytes += bytes


cdef void give(PopService s, PopJob* job, Popped* p, Topic* topic, Queue* queue, int64_t start,
               Found* found, int32_t flag) noexcept nogil:
    cdef int64_t offsets[MESSAGES_MAX]
    cdef bint copied = flag != 0 and not s.pops.keep_retry_topic
    cdef int32_t count = fitting(s, p, found) if copied else found.count
    cdef int64_t following = found.next_offset
    cdef uint8_t* at
    cdef int32_t i
    for i in range(count):
        offsets[i] = load_i64(found.at[i] + 20)
    if count < found.count:
        following = load_i64(found.at[count] + 20)
    p.rest += queue.max_offset - following
    if count == 0:
        return
    if job.kind == POP:
        if not remember(s, job, p, topic, queue.queue_id, start, offsets, count, following, flag):
            p.failed = True
            return
        move(s, job, topic, queue.queue_id, start if job.order else following)
        if s.pops.flight_max >= 0 and not job.order:
            flight_begin(&s.pops, pair_obtain(&s.pops, topic, job.pair.group,
                                              job.pair.group_length), queue.queue_id, count)
    note(&p.starts, b"%d %lld %lld", flag, queue.queue_id, start)
    note(&p.messages, b"%d %lld %lld", flag, queue.queue_id, offsets[0])
    at = <uint8_t*> p.messages.text + p.messages.length
    for i in range(1, count):
        at[0] = c','
        at = put_decimal(at + 1, offsets[i])
    p.messages.length = <uint32_t> (at - <uint8_t*> p.messages.text)
    if copied:
        add_copies(s, job, p, found, count, start, flag)
    else:
        for i in range(count):
            p.at[p.borrowed] = found.at[i]
            p.sizes[p.borrowed] = found.sizes[i]
            p.borrowed += 1
            p.bytes += found.sizes[i]
    p.count += count
    topic.messages_out += count
    topic.bytes_out += found.bytes


# ------------------------------------------------------------------- looking into queues

cdef void pass_damage(PopService s, PopJob* job, Topic* topic, int32_t queue_id,
                      int64_t from_offset, const Found* found) noexcept nogil:
    """A record that cannot be read is passed: it would keep all behind it from being popped."""
    cdef char line[256]
    cdef int64_t offset = found.corrupt_offset if found.corrupt_offset >= 0 else from_offset
    s.turn.counters.corrupt_records += 1
    snprintf(line, sizeof(line), b"a pop passes the message at offset %lld of topic %.128s queue "
             b"%d: it cannot be read", <long long> offset, topic.name, queue_id)
    log_event(s.turn, job.pull.connection, line)
    move(s, job, topic, queue_id, offset + 1)


cdef bint is_mended(PopService s, Popped* p, Queue* queue, const Found* found) noexcept nogil:
    """What is damaged is made anew from the log; then who waits is woken. Where that failed for now
    the log may have the message: the queue gives nothing until it has been tried again."""
    cdef int status = s.append.queues.mend(
        queue, found.corrupt_offset if found.corrupt_offset >= 0 else found.next_offset)
    if status == CORRUPT:
        return False
    if status != ABSENT:
        look_again(p, s.turn.wall_ms + MEND_LOOK_MS)
    p.rest += queue.max_offset - found.next_offset
    return True


cdef inline int64_t given_bytes_max(PopService s) noexcept nogil:
    """Of a record. What is not acknowledged is appended again, and copied into a jumbo buffer."""
    return (min(s.append.log.max_record_bytes, <int64_t> s.turn.net.jumbo_bytes)
            - <int64_t> REWRITE_ADDS_MAX)


cdef bint is_large(PopService s, Queue* queue, Found* found) noexcept nogil:
    """The next record is larger than may be given. Its queue entry alone says so: from a file, it
    has to be the record's; else this is damage."""
    if found.large_bytes == 0:
        return False
    if (found.absent_offset >= queue_memory_offset(queue)
            or s.append.queues.mend(queue, found.absent_offset) == OK):
        return True
    found.corrupt_offset = found.absent_offset
    found.absent_offset = -1
    return False


cdef void note_large(Popped* p, Topic* topic, int32_t queue_id, const Found* found) noexcept nogil:
    if p.large_topic == NULL:
        p.large_topic = topic
        p.large_queue = queue_id
        p.large_offset = found.absent_offset
        p.large_bytes = found.large_bytes


cdef void keep_come_again(Found* found) noexcept nogil:
    """Leaves out what was sent to the retry topic as another group's."""
    cdef RecordView view
    cdef int32_t i, kept = 0
    found.bytes = 0
    for i in range(found.count):
        if (record_parse(found.at[i], found.sizes[i], -1, False, &view) != OK
                or not has_come_again(&view)):
            continue
        found.at[kept] = found.at[i]
        found.sizes[kept] = found.sizes[i]
        found.bytes += found.sizes[i]
        kept += 1
    found.count = kept


cdef void look_into(PopService s, PopJob* job, Popped* p, Topic* topic, Queue* queue,
                    int64_t offset, int32_t flag) noexcept nogil:
    cdef Found found
    cdef int status
    job.pull.topic = topic
    job.pull.queue_id = queue.queue_id
    job.pull.offset = offset
    job.pull.scanned = 0
    job.pull.max_messages = job.max_messages - p.count
    status = scan_entries(s.pull, &job.pull, queue, given_bytes_max(s), &found)
    job.pull.topic = job.topic
    if p.others:
        keep_come_again(&found)
    if found.count > 0:
        give(s, job, p, topic, queue, offset, &found, flag)
        return
    if is_large(s, queue, &found):
        note_large(p, topic, queue.queue_id, &found)
    elif status == ABSENT or found.absent_offset >= 0:
        p.absent = True
        p.absent_topic = topic
        p.absent_queue = queue.queue_id
        p.absent_offset = found.absent_offset if found.absent_offset >= 0 else found.next_offset
        found.next_offset = p.absent_offset
    elif found.corrupt_offset >= 0 or status < 0:
        if is_mended(s, p, queue, &found):
            return
        pass_damage(s, job, topic, queue.queue_id, found.next_offset, &found)
        p.unfinished = job.kind == POP
        return
    elif found.unfinished or found.next_offset < queue.max_offset:
        p.unfinished = p.unfinished or job.kind == POP
    if found.next_offset > offset:
        move(s, job, topic, queue.queue_id, found.next_offset)
    p.rest += queue.max_offset - found.next_offset


cdef PopPair* pair_of(PopService s, PopJob* job, Topic* topic) noexcept nogil:
    """The group's pair with this topic, which may be its retry topic. NULL: nothing is counted."""
    if s.pops.flight_max < 0 or topic == job.topic:
        return job.pair
    return pair_find(&s.pops, topic, job.pair.group, job.pair.group_length)


cdef void pop_queue(PopService s, PopJob* job, Popped* p, Topic* topic, int32_t queue_id,
                    int32_t flag) noexcept nogil:
    cdef Queue* queue = topic_queue(topic, s.append.queues, queue_id)
    cdef int64_t offset
    if queue == NULL or p.failed:
        return
    offset = begin(s, job, topic, queue, flag != 0)
    if is_blocked(s, job, p, queue_id, offset) or offset >= queue.max_offset:
        return
    if job.kind == POP and not job.order and flight_full(
            &s.pops, pair_of(s, job, topic), queue_id):
        return
    if (p.count >= job.max_messages or p.bytes >= <uint64_t> s.turn.options.pull_max_bytes
            or job.kind == NOTIFY):
        p.rest += queue.max_offset - offset
        return
    look_into(s, job, p, topic, queue, offset, flag)


cdef void pop_retry(PopService s, PopJob* job, Popped* p, bint v2) noexcept nogil:
    """The retry topic's queues; the topic is remembered, so that its news wake who waits."""
    cdef PopPair* pair = job.pair
    cdef uint8_t name[RETRY_NAME_MAX]
    cdef uint32_t length = retry_topic_name(pair, v2, name)
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, name, length)
    cdef int32_t i
    if topic == NULL:
        return
    p.others = is_others_retry_topic(&s.tables.groups, name, length, pair.group, pair.group_length)
    if not p.others:
        topic.pop_retry_of = pair
    elif topic.pop_retry_of == pair:
        topic.pop_retry_of = NULL           # its news are another group's
    for i in range(topic.read_queues):
        pop_queue(s, job, p, topic, i, 2 if v2 else 1)
    p.others = False


cdef void pop_retries(PopService s, PopJob* job, Popped* p) noexcept nogil:
    """Both: what came back before the setting was changed counts, or before the first one was
    another group's."""
    if job.order:
        return
    pop_retry(s, job, p, True)
    pop_retry(s, job, p, False)


cdef void pop_all(PopService s, PopJob* job, Popped* p) noexcept nogil:
    cdef Topic* topic = job.topic
    cdef uint32_t chance
    cdef bint first
    cdef int32_t i
    s.turn.random ^= s.turn.random << 13
    s.turn.random ^= s.turn.random >> 17
    s.turn.random ^= s.turn.random << 5
    chance = s.turn.random % 100
    first = <int32_t> chance < s.pops.retry_share
    if first:
        pop_retries(s, job, p)
    if job.queue_id >= 0:
        pop_queue(s, job, p, topic, job.queue_id, 0)
    else:
        for i in range(topic.read_queues):
            pop_queue(s, job, p, topic, <int32_t> ((chance + <uint32_t> i)
                                                   % <uint32_t> topic.read_queues), 0)
    if not first:
        pop_retries(s, job, p)


# ------------------------------------------------------------------- not in memory

cdef bint read_absent(PopService s, PopJob* job, Popped* p) noexcept nogil:
    """Has a disk reader bring what comes next into the page cache; then the pop looks again."""
    cdef Queue* queue = topic_queue(p.absent_topic, s.append.queues, p.absent_queue)
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef int count, i
    job.pull.entry_reads += 1
    if queue == NULL or job.pull.entry_reads > READS_MAX:
        return False
    job.pull.fetch = s.fetch.pool.take(<FetchDone> read_done, <void*> s, job)
    if job.pull.fetch == NULL:
        return False
    count = s.append.queues.read(queue, p.absent_offset, ENTRIES_AT_ONCE, entries)
    fetch_begin(job.pull.fetch, False)
    for i in range(count if count > 0 else 0):
        if entries[i].size <= 0 or entries[i].physical_offset < s.append.log.min_offset():
            continue
        if not fetch_add(job.pull.fetch, entries[i].physical_offset, entries[i].size,
                         p.absent_offset + i):
            break
    if job.pull.fetch.read.count == 0:
        fetch_entries(job.pull.fetch, s.append.queues.reader_files, queue, p.absent_offset,
                      2 * ENTRIES_AT_ONCE)
    if s.fetch.pool.submit(job.pull.fetch) != OK:
        return False
    job_move(&job.pull, JOB_READING, 1 << JOB_READY | 1 << JOB_READING)
    s.turn.counters.pulls_from_disk += 1
    return True


cdef void read_done(PopService s, FetchPool pool, DiskFetch* fetch) noexcept nogil:
    cdef PopJob* job = <PopJob*> fetch.owner
    if job.pull.connection.id != job.pull.connection_id:
        free_job(s.pull, &job.pull)
        return
    drop_fetch(s.pull, &job.pull)
    make_ready(s.pull, &job.pull)


# ------------------------------------------------------------------- the reply

cdef inline void time_answer(PopService s, const PopJob* job, int32_t code) noexcept nogil:
    rpc_record(&s.turn.rpc, job.pull.request_code, code, job.pull.held,
               monotonic_us() // 1000 - job.pull.arrived_ms, 1)


cdef bint write_header(PopService s, PopJob* job, Popped* p, int32_t code,
                       const char* remark) noexcept nogil:
    cdef PopReply reply
    cdef uint8_t* at = s.turn.net.reserve_reply(job.pull.connection, POP_REPLY_BYTES_MAX)
    if at == NULL:
        return False
    time_answer(s, job, code)
    memset(&reply, 0, sizeof(reply))
    reply.code = code
    reply.opaque = job.pull.opaque
    reply.serialize_type = job.pull.serialize_type
    reply.remark = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark))
    reply.pop_ms = p.pop_ms
    reply.invisible_ms = job.invisible_ms
    reply.revive_queue = p.revive_queue
    reply.rest = p.rest
    if job.kind == POP:
        reply.start_offsets = text_of(<uint8_t*> p.starts.text, p.starts.length)
        reply.message_offsets = text_of(<uint8_t*> p.messages.text, p.messages.length)
        if job.order:
            reply.order_counts = text_of(<uint8_t*> p.orders.text, p.orders.length)
    reply.body_bytes = <uint32_t> p.bytes
    return s.turn.net.commit_reply(job.pull.connection, write_pop_reply_header(at, &reply))


cdef void wake_next(PopService s, PopJob* job, const Popped* p) noexcept nogil:
    """There is more: the next that waits is to have it."""
    if job.woken:
        job.woken = False
        job.pair.awake -= 1
    if p.rest > 0 and job.pair.first != NULL and job.kind == POP:
        wake_pops(s.pull, job.pair, job.queue_id)


cdef void answer_found(PopService s, PopJob* job, Popped* p) noexcept nogil:
    cdef bint good = write_header(s, job, p, SUCCESS, b"FOUND")
    cdef int32_t i
    for i in range(p.borrowed):
        good = good and s.turn.net.add_borrowed(job.pull.connection, p.at[i], p.sizes[i])
    if good and p.copied > 0:
        good = s.turn.net.add_owned(job.pull.connection, p.copies, p.copied, p.copies, IN_JUMBO)
        if good:
            p.copies = NULL             # the output piece owns it now
    if not good:
        s.turn.net.close_connection(job.pull.connection)
    s.pops.popped += p.count
    s.turn.counters.messages_out += p.count
    s.turn.counters.bytes_out += p.bytes
    delivery_counter_add(job.pull.delivered, p.count, p.bytes)
    wake_next(s, job, p)
    free_job(s.pull, &job.pull)


cdef void answer_nothing(PopService s, PopJob* job, Popped* p, int32_t code) noexcept nogil:
    if not write_header(s, job, p, code, b"NO_MESSAGE_IN_QUEUE"):
        s.turn.net.close_connection(job.pull.connection)
    free_job(s.pull, &job.pull)


cdef void answer_notification(PopService s, PopJob* job, bint has_message,
                              bint full) noexcept nogil:
    cdef uint8_t* at = s.turn.net.reserve_reply(job.pull.connection, ERROR_REPLY_BYTES_MAX)
    time_answer(s, job, SUCCESS)
    if at == NULL or not s.turn.net.commit_reply(job.pull.connection, write_notification_reply(
            at, job.pull.opaque, job.pull.serialize_type, has_message, full)):
        s.turn.net.close_connection(job.pull.connection)
    free_job(s.pull, &job.pull)


cdef void refuse_pop(PopService s, PopJob* job, int32_t code, const char* remark) noexcept nogil:
    s.turn.counters.busy_replies += code == SYSTEM_BUSY
    time_answer(s, job, code)
    if not reply_error_to(s.turn, job.pull.connection, job.pull.opaque, job.pull.serialize_type,
                          code, remark):
        s.turn.net.close_connection(job.pull.connection)
    free_job(s.pull, &job.pull)


cdef void refuse_large(PopService s, PopJob* job, const Popped* p) noexcept nogil:
    """All that there is to give stands behind it."""
    cdef char remark[1024]
    snprintf(remark, sizeof(remark), b"the message at offset %lld of topic %.255s queue %d has "
             b"%lld bytes, and one that is popped %lld at most: without an ack it comes again, and "
             b"the log takes no larger one (rmqRingBytes; 16 MiB at most). Pull it, or go on "
             b"behind it: rmq group reset %.*s %.255s --queue %d --to %lld",
             <long long> p.large_offset, p.large_topic.name, p.large_queue,
             <long long> p.large_bytes, <long long> given_bytes_max(s),
             <int> job.pair.group_length, <const char*> job.pair.group,
             p.large_topic.name, p.large_queue, <long long> p.large_offset + 1)
    log_event(s.turn, job.pull.connection, remark)
    refuse_pop(s, job, SYSTEM_ERROR, remark)


cdef void nothing_there(PopService s, PopJob* job, Popped* p) noexcept nogil:
    """Holds the pop, or says that there is nothing."""
    cdef bint full = job.pair.waiting > s.pops.waiting_max
    cdef int64_t until = job.poll_end_ms
    if job.pull.may_hold and not s.turn.stopping and s.turn.now_ms < until and not full:
        if p.visible_ms > 0 and s.turn.now_ms + (p.visible_ms - s.turn.wall_ms) < until:
            until = s.turn.now_ms + max(<int64_t> 0, p.visible_ms - s.turn.wall_ms)
        job.pull.deadline_ms = until
        hold_pop(s.pull, job)
    elif job.kind == NOTIFY:
        answer_notification(s, job, False, full and job.pull.may_hold)
    elif job.kind == PEEK:
        answer_nothing(s, job, p, PULL_NOT_FOUND)
    else:
        answer_nothing(s, job, p, POLLING_FULL if full and job.pull.may_hold else POLLING_TIMEOUT)


cdef void answer_pop(PopService s, PopJob* job) noexcept nogil:
    cdef Popped p
    cdef const char* refusal
    cdef int32_t most
    if job.topic.use.removed:
        refuse_pop(s, job, TOPIC_NOT_EXIST, b"the topic was deleted")
        return
    if job.pair.use.removed:
        refuse_pop(s, job, SUBSCRIPTION_GROUP_NOT_EXIST, b"the group was deleted")
        return
    if is_follower(&s.turn.role) and job.kind == POP:
        refuse_pop(s, job, SERVICE_NOT_AVAILABLE, refuse_remark(&s.turn.role))
        return
    refusal = read_refusal(&s.turn.role, s.turn.options.slave_read)
    if refusal != NULL:
        refuse_pop(s, job, SYSTEM_BUSY, refusal)
        return
    # A check point for each queue that gives something.
    most = min(job.max_messages, <int32_t> MESSAGES_MAX)
    if job.kind == POP and not job.order and turn_room(
            s.append, most * REVIVE_RECORD_BYTES, most) == RING_FULL:
        make_ready(s.pull, &job.pull)       # in the next turn, before those that come then
        return
    memset(&p, 0, sizeof(p) - 3 * sizeof(Note))
    p.starts.length = p.messages.length = p.orders.length = 0
    p.pop_ms = s.turn.wall_ms
    p.revive_queue = REVIVE_IN_ORDER if job.order else next_revive_queue(s)
    if is_outdated(s.pull, &job.pull):
        job.pull.may_hold = False
        nothing_there(s, job, &p)
        return
    p.failed = p.revive_queue < 0 or (job.kind == POP and not is_writable(&s.turn.role)
                                      and not job.order)
    pop_all(s, job, &p)
    if job.kind == NOTIFY and p.rest > 0:
        answer_notification(s, job, True, False)
    elif p.count > 0:
        answer_found(s, job, &p)
    elif p.failed:
        refuse_pop(s, job, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control for a while: "
                   b"the log takes no check point at present")
    elif p.absent:
        if not read_absent(s, job, &p):
            refuse_pop(s, job, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control for a "
                       b"while: the disk readers are behind")
    elif p.unfinished:
        make_ready(s.pull, &job.pull)       # goes on in the next turn
    elif p.large_topic != NULL:
        refuse_large(s, job, &p)
    else:
        nothing_there(s, job, &p)
    if p.copies != NULL:
        buffer_pool_release(&s.turn.net.jumbo_pool, p.copies)
