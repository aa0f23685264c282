"""Pop queues. See pop_queues.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.status cimport ABSENT, CORRUPT, OK
from cext.flow.context.small_replies cimport log_event
from cext.flow.pop.pop_batch cimport give, given_bytes_max
from cext.flow.pop.pop_inflight cimport inflight_full
from cext.flow.pop.pop_job cimport NOTIFY, POP
from cext.flow.pop.pop_offset cimport is_blocked, pop_begin, pop_move
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_table cimport (
    RETRY_NAME_MAX,
    is_others_retry_topic,
    pair_find,
    retry_topic_name,
)
from cext.flow.pop.popped_messages cimport look_again
from cext.flow.pop.revive cimport has_come_again
from cext.flow.pull.queue_entry_scan cimport Found, scan_entries
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RecordView, record_parse
from cext.store.queues.consume_queue cimport Queue, queue_memory_offset

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    REPAIR_POLL_MS = 1000       # between tries after a failed repair


cdef void pass_damage(PopService s, PopJob* job, Topic* topic, int32_t queue_id,
                      int64_t from_offset, const Found* found) noexcept nogil:
    """Passes a record that cannot be read, because it would hold up all messages behind it."""
    cdef char line[256]
    cdef int64_t offset = found.corrupt_offset if found.corrupt_offset >= 0 else from_offset
    s.turn.counters.corrupt_records += 1
    snprintf(line, sizeof(line), b"a pop passes the message at offset %lld of topic %.128s queue "
             b"%d: it cannot be read", <long long> offset, topic.name, queue_id)
    log_event(s.turn, job.pull.connection, line)
    pop_move(s, job, topic, queue_id, offset + 1)


cdef bint is_repaired(PopService s, Popped* p, Queue* queue, const Found* found) noexcept nogil:
    """Whether the repair of the damage from the log is over; when it ends, waiting pops are woken.
    When it failed for now, the log may still have the message: the queue gives nothing until it
    was tried again."""
    cdef int status = s.append.queues.request_repair(
        queue, found.corrupt_offset if found.corrupt_offset >= 0 else found.next_offset)
    if status == CORRUPT:
        return False
    if status != ABSENT:
        look_again(p, s.turn.wall_ms + REPAIR_POLL_MS)
    p.rest += queue.max_offset - found.next_offset
    return True


cdef bint is_large(PopService s, Queue* queue, Found* found) noexcept nogil:
    """Whether the next record is larger than may be given. Only its queue entry says so: if that
    was read from a file, the record must agree; otherwise this is damage."""
    if found.large_bytes == 0:
        return False
    if (found.absent_offset >= queue_memory_offset(queue)
            or s.append.queues.request_repair(queue, found.absent_offset) == OK):
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
        if is_repaired(s, p, queue, &found):
            return
        pass_damage(s, job, topic, queue.queue_id, found.next_offset, &found)
        p.unfinished = job.kind == POP
        return
    elif found.unfinished or found.next_offset < queue.max_offset:
        p.unfinished = p.unfinished or job.kind == POP
    if found.next_offset > offset:
        pop_move(s, job, topic, queue.queue_id, found.next_offset)
    p.rest += queue.max_offset - found.next_offset


cdef PopPair* pair_of(PopService s, PopJob* job, Topic* topic) noexcept nogil:
    """The group's pair with this topic, which may be its retry topic. NULL: nothing was counted."""
    if s.pops.inflight_max < 0 or topic == job.topic:
        return job.pair
    return pair_find(&s.pops, topic, job.pair.group, job.pair.group_length)


cdef void pop_queue(PopService s, PopJob* job, Popped* p, Topic* topic, int32_t queue_id,
                    int32_t flag) noexcept nogil:
    cdef Queue* queue = topic_queue(topic, s.append.queues, queue_id)
    cdef int64_t offset
    if queue == NULL or p.failed:
        return
    offset = pop_begin(s, job, topic, queue, flag != 0)
    if is_blocked(s, job, p, queue_id, offset) or offset >= queue.max_offset:
        return
    if job.kind == POP and not job.order and inflight_full(
            &s.pops, pair_of(s, job, topic), queue_id):
        return
    if (p.count >= job.max_messages or p.bytes >= <uint64_t> s.turn.options.pull_max_bytes
            or job.kind == NOTIFY):
        p.rest += queue.max_offset - offset
        return
    look_into(s, job, p, topic, queue, offset, flag)


cdef void pop_retry(PopService s, PopJob* job, Popped* p, bint v2) noexcept nogil:
    """Pops from the retry topic, which remembers the pair whose pops its new messages wake."""
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
        topic.pop_retry_of = NULL           # new messages are another group's
    for i in range(topic.read_queues):
        pop_queue(s, job, p, topic, i, 2 if v2 else 1)
    p.others = False


cdef void pop_retries(PopService s, PopJob* job, Popped* p) noexcept nogil:
    """Pops from both retry topics: messages may have come back before the setting was changed, or
    before the first topic became another group's."""
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
