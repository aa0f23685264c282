"""Messages that were popped and not acknowledged in time. See revive.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from cext.base.atomics cimport load_acquire_i32
from cext.base.status cimport (
    ABSENT,
    CORRUPT,
    MALFORMED,
    NOT_FOUND,
    NOT_READY,
    OK,
    POOL_EMPTY,
    RING_FULL,
    TOO_LARGE,
)
from cext.flow.append.message_append cimport (
    Appended,
    Message,
    append_message,
    message_of_record,
    record_bytes_max,
)
from cext.flow.append.turn_room cimport append_room, turn_room
from cext.flow.context.control_link cimport WANT_TOPIC, link_push
from cext.flow.context.role cimport is_writable
from cext.flow.context.small_replies cimport log_event
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.delay.timer_turn cimport timer_delivered_ms
from cext.flow.fetch.readahead cimport (
    FETCH_POLL_MS,
    readahead_end,
    readahead_entries,
    readahead_find,
    readahead_for,
    readahead_is_busy,
    readahead_repair,
    readahead_records,
)
from cext.flow.pop.pop_inflight cimport inflight_remove
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_table cimport (
    RETRY_NAME_MAX,
    REVIVE_QUEUES_MAX,
    is_others_retry_topic,
    pair_find,
    pair_leave,
    pair_of_check_point,
    pop_retry_name,
)
from cext.flow.pop.revive_log cimport (
    REVIVE_RECORD_BYTES,
    append_revived,
    is_of_revived,
    revive_topic,
)
from cext.flow.pop.revive_ring cimport (
    CHECK_POINTS_MAX,
    CheckPoint,
    ReviveQueue,
    ring_add,
    ring_find,
    ring_finish_next,
    ring_next,
    ring_oldest,
)
from cext.flow.tables.group_table cimport group_find
from cext.flow.tables.offset_table cimport offset_commit, offset_query
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RecordView, record_parse
from cext.store.log.record_crc cimport record_crc_strip
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.properties cimport PROPERTY_SEPARATOR, append_number, find_property
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.revive_entry cimport ReviveEntry, read_revive_entry
from cext.wire.system_topics cimport (
    RETRY_PREFIX_BYTES,
    REVIVE_GROUP,
    REVIVE_GROUP_BYTES,
    TOPIC_RETRY,
)
from cext.wire.text cimport Text, text_equals, text_of
from cext.wire.topic_name cimport is_topic_name

cdef enum:
    READ_TURN = 1024            # entries of one turn
    REVIVE_TURN = 256           # messages of one turn
    REVIVE_BYTES = 524288       # bytes of one turn (the last message may go beyond)
    RETRY_MS = 100              # after the store refused, and between looks for a missing topic
    # Of so many looks for a retry topic, in all queues, one asks control to make it. It is prime,
    # so that each of several queues that take turns gets to ask.
    LOOKS_A_REQUEST = 11

cdef const char* FIRST_POP[1]
FIRST_POP[0] = "1ST_POP_TIME"


# ------------------------------------------------------------------- from the disk

cdef int wait_for_read(PopService s) noexcept nogil:
    """Returns NOT_READY. The queue looks again when the read is over, or soon if no buffer was
    free."""
    if not readahead_is_busy(&s.pops.readahead):
        s.pops.next_check_ms = s.turn.now_ms + FETCH_POLL_MS
    return NOT_READY


cdef int wait_a_while(PopService s) noexcept nogil:
    """Returns NOT_READY. An entry that cannot be made anew for now, or for which there is no
    memory, holds up its revive queue for a while, and no other."""
    s.pops.readahead.again_ms[0] = s.turn.now_ms + RETRY_MS
    return NOT_READY


cdef int find_record(PopService s, Queue* queue, int64_t offset, RecordView* view) noexcept nogil:
    """The record of a queue's entry: OK, NOT_READY (it is being fetched), or why there is none."""
    cdef QueueEntry entry
    cdef const uint8_t* at = NULL
    cdef bint checked = False
    cdef int repaired
    cdef int status = s.append.queues.read(queue, offset, 1, &entry)
    if status == ABSENT:
        readahead_entries(&s.pops.readahead, s.fetch.pool, s.append.queues.reader_files, queue,
                          offset)
        return wait_for_read(s)
    if status == NOT_READY:                 # its entry could not be made anew for now
        return wait_a_while(s)
    if status < 1 or entry.size <= 0:
        return status if status < 0 else ABSENT
    status = readahead_find(&s.pops.readahead, s.fetch.pool, s.append.log, entry.physical_offset,
                            entry.size,
                            &at, &checked)
    if status == NOT_READY:
        readahead_records(&s.pops.readahead, s.fetch.pool, &entry.physical_offset, &entry.size, 1)
        return wait_for_read(s)
    if status == OK:
        status = record_parse(at, entry.size, entry.physical_offset, not checked, view)
        if status == OK and view.queue_offset != offset:
            status = CORRUPT
    if status != OK and status != NOT_FOUND:
        repaired = readahead_repair(&s.pops.readahead, s.fetch.pool, s.append.queues, queue, offset,
                                    entry.size)
        if repaired == ABSENT:
            return wait_for_read(s)
        if repaired == NOT_READY:
            return wait_a_while(s)
    return status


# ------------------------------------------------------------------- reading the revive log

cdef inline int32_t behind_of(const ReviveEntry* e, int32_t i) noexcept nogil:
    """How far message `i` is behind start_offset; when no offsets are listed they are in a row."""
    return <int32_t> e.list[i] if e.listed > 0 else i


cdef bint is_same(const CheckPoint* point, const ReviveEntry* e) noexcept nogil:
    cdef int32_t i
    if point.revive_ms != e.pop_ms + e.invisible_ms or point.count != e.count:
        return False
    for i in range(e.count):
        if point.behind[i] != behind_of(e, i):
            return False
    return True


cdef int take_check_point(PopService s, ReviveQueue* q, const ReviveEntry* e,
                          int64_t revive_offset) noexcept nogil:
    """OK; POOL_EMPTY: memory is out, and it must be taken later."""
    cdef Topic* topic
    cdef PopPair* pair
    cdef CheckPoint* point
    cdef int32_t i
    if (e.topic.bytes == NULL or e.group.bytes == NULL or e.topic.escaped or e.group.escaped
            or e.count < 1 or e.count > 32 or (e.listed != 0 and e.listed < e.count)):
        s.pops.unreadable += 1
        return OK
    topic = <Topic*> name_map_find(&s.tables.topics, e.topic.bytes, e.topic.length)
    if topic == NULL or group_find(&s.tables.groups, e.group.bytes, e.group.length) == NULL:
        return OK                           # its topic or group is gone
    pair = pair_of_check_point(&s.pops, topic, e.group.bytes, e.group.length)
    if pair == NULL:
        return POOL_EMPTY
    point = ring_find(q, pair, e.queue_id, e.start_offset, e.pop_ms)
    if point != NULL and is_same(point, e):
        point.done |= e.done            # delivered again after a kill: its acks may come only once
        return OK
    point = ring_add(q, pair, e.queue_id, e.start_offset, e.pop_ms, e.pop_ms + e.invisible_ms)
    if point == NULL:
        return POOL_EMPTY
    point.revive_offset = revive_offset
    point.count = e.count
    point.done = e.done
    for i in range(e.count):
        point.behind[i] = behind_of(e, i)
    return OK


cdef int32_t take_ack(PopService s, ReviveQueue* q, const ReviveEntry* e) noexcept nogil:
    """Returns how many messages it acknowledges whose check point is not there, or no longer."""
    cdef Topic* topic
    cdef PopPair* pair = NULL
    cdef CheckPoint* point = NULL
    cdef int32_t i, n = e.listed if e.listed > 0 else 1
    topic = <Topic*> name_map_find(&s.tables.topics, e.topic.bytes, e.topic.length) \
        if e.topic.bytes != NULL else NULL
    if topic != NULL and e.group.bytes != NULL:
        pair = pair_find(&s.pops, topic, e.group.bytes, e.group.length)
    if pair != NULL:
        point = ring_find(q, pair, e.queue_id, e.start_offset, e.pop_ms)
    if point == NULL:
        return n
    for i in range(n):
        mark_done(point, (e.list[i] if e.listed > 0 else e.ack_offset) - e.start_offset)
    return 0


cdef void mark_done(CheckPoint* point, int64_t behind) noexcept nogil:
    cdef int32_t i
    for i in range(point.count):
        if point.behind[i] == behind:
            point.done |= <uint32_t> 1 << i


cdef int take_record(PopService s, ReviveQueue* q, const RecordView* view,
                     int64_t revive_offset) noexcept nogil:
    """OK; POOL_EMPTY: nothing was taken, the record must be looked at again."""
    cdef ReviveEntry e
    cdef Text tag
    cdef uint32_t used = 0
    cdef int32_t late
    if (not find_property(view.properties, view.properties_bytes, b"TAGS", &tag)
            or read_revive_entry(view.body, view.body_bytes, &e, &used) != OK):
        s.pops.unreadable += 1
    elif text_equals(&tag, b"ck", 2):
        return take_check_point(s, q, &e, revive_offset)
    else:
        late = take_ack(s, q, &e)
        if late > 0 and not is_of_revived(view):
            s.pops.acks_late += late
    return OK


cdef bint read_log(PopService s, ReviveQueue* q, Queue* queue, int32_t* budget) noexcept nogil:
    """Takes what is new. Returns whether all of it was taken."""
    cdef RecordView view
    cdef int status
    if q.next_offset < queue.min_offset:
        q.next_offset = queue.min_offset        # the rest was deleted with old files
    while q.next_offset < queue.max_offset:
        if budget[0] <= 0 or q.tail - q.head >= CHECK_POINTS_MAX:
            return False
        status = find_record(s, queue, q.next_offset, &view)
        if status == NOT_READY:
            return False
        if status != OK:
            s.pops.unreadable += 1
        elif take_record(s, q, &view, q.next_offset) != OK:
            wait_a_while(s)
            return False
        q.next_offset += 1
        budget[0] -= 1
    return queue.next_offset == queue.max_offset


# ------------------------------------------------------------------- messages that come again

cdef bint is_retry_of(const PopPair* pair) noexcept nogil:
    """Whether the pair's topic is itself the group's retry topic of another topic."""
    cdef const uint8_t* group = pair.topic.name + RETRY_PREFIX_BYTES
    return (pair.topic.kind == TOPIC_RETRY
            and pair.topic.name_length > RETRY_PREFIX_BYTES + pair.group_length + 1
            and memcmp(group, pair.group, pair.group_length) == 0
            and (group[pair.group_length] == c'_' or group[pair.group_length] == c'+'))


cdef bint is_of_others(PopService s, const PopPair* pair) noexcept nogil:
    """Whether the pair's topic is the retry topic of another group."""
    return is_others_retry_topic(&s.tables.groups, pair.topic.name, pair.topic.name_length,
                                 pair.group, pair.group_length)


cdef bint has_come_again(const RecordView* view) noexcept nogil:
    cdef Text value
    return (find_property(view.properties, view.properties_bytes, b"1ST_POP_TIME", &value)
            and not find_property(view.properties, view.properties_bytes, b"RETRY_TOPIC", &value))


cdef int find_target(PopService s, PopPair* pair, Topic** target) noexcept nogil:
    """The topic to which the pair's messages come again. OK; NOT_READY: control makes the topic as
    soon as it can; NOT_FOUND: there can be no topic of that name."""
    cdef uint8_t name[RETRY_NAME_MAX]
    cdef uint32_t length, behind = 0
    cdef bint v2 = s.pops.retry_v2
    if is_retry_of(pair):
        if not is_of_others(s, pair):
            target[0] = pair.topic
            return OK
        behind = RETRY_PREFIX_BYTES + pair.group_length + 1
    length = pop_retry_name(pair.group, pair.group_length, pair.topic.name + behind,
                            pair.topic.name_length - behind, v2, name)
    if is_others_retry_topic(&s.tables.groups, name, length, pair.group, pair.group_length):
        name[RETRY_PREFIX_BYTES + pair.group_length] = c'+'
    target[0] = <Topic*> name_map_find(&s.tables.topics, name, length)
    if target[0] != NULL:
        s.pops.wanted = 0
        if behind == 0:                     # else it belongs to the pair of the first topic
            target[0].pop_retry_of = pair
        return OK
    if not is_topic_name(name, length):
        return NOT_FOUND
    if s.pops.wanted == 0:
        link_push(&s.turn.link, WANT_TOPIC, 1, name, length)
    s.pops.wanted = (s.pops.wanted + 1) % LOOKS_A_REQUEST
    s.pops.next_check_ms = s.turn.now_ms + RETRY_MS
    return NOT_READY


cdef uint32_t fill_properties(PopService s, const RecordView* view,
                              int64_t pop_ms) noexcept nogil:
    """Writes the message's properties, with the time it was first popped, to scratch.after."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef Text first
    cdef uint32_t length
    cdef bint known = view.reconsume_times > 0 and find_property(
        view.properties, view.properties_bytes, b"1ST_POP_TIME", &first)
    length = copy_properties_without(view.properties, view.properties_bytes, FIRST_POP,
                                     0 if known else 1, out)
    length = <uint32_t> record_crc_strip(out, length)
    if known or length + 64 > PROPERTIES_BYTES_MAX:
        return length
    if length > 0 and out[length - 1] != PROPERTY_SEPARATOR:
        out[length] = PROPERTY_SEPARATOR
        length += 1
    return length + append_number(out + length, b"1ST_POP_TIME", pop_ms)


cdef int revive_message(PopService s, CheckPoint* point, Topic* target, int32_t i,
                        Queue* notes, int64_t* bytes) noexcept nogil:
    """OK (also when there is nothing to revive), or why the message must wait. After it there is
    room in the log and in `notes` for the note that it came again."""
    cdef Queue* queue = topic_queue(point.pair.topic, s.append.queues, point.queue_id)
    cdef Queue* to = topic_queue(target, s.append.queues, 0)
    cdef int64_t offset = point.start_offset + point.behind[i]
    cdef RecordView view
    cdef Message m
    cdef Appended appended
    cdef uint32_t room
    cdef int status
    if queue == NULL or to == NULL or not queue.min_offset <= offset < queue.max_offset:
        s.pops.unreadable += 1
        return OK
    status = find_record(s, queue, offset, &view)
    if status == NOT_READY:
        return status
    if status != OK:
        s.pops.unreadable += 1
        log_event(s.turn, NULL,
                  b"a message that was popped and not acknowledged cannot be read and "
                  b"does not come again")
        return OK
    if is_of_others(s, point.pair) and not has_come_again(&view):
        return OK                           # never given: the handle was made up by a client
    message_of_record(&m, &view)
    m.properties = text_of(s.turn.scratch.after, fill_properties(s, &view, point.pop_ms))
    m.reconsume_times = view.reconsume_times + 1
    m.born_host = s.turn.options.store_host          # as in RocketMQ
    m.born_host_bytes = s.turn.options.store_host_bytes
    room = min(record_bytes_max(&m, target.name_length) + REVIVE_RECORD_BYTES,
               <uint32_t> s.append.log.max_record_bytes)
    status = turn_room(s.append, room, 2)
    if status == OK:
        status = append_room(s.append, notes, room, 1)
    if status == OK:
        status = append_room(s.append, to, room, 1)
    if status == OK:
        status = append_message(s.append, target, to, &m, &appended)
    if status == TOO_LARGE or status == MALFORMED:
        s.pops.unreadable += 1
        log_event(s.turn, NULL,
                  b"a message that was popped and not acknowledged does not come again: it is "
                  b"larger than the log takes by now (half of rmqRingBytes), or its properties are "
                  b"malformed")
        return OK
    if status == OK:
        s.pops.appended = True
        s.pops.revived += 1
        bytes[0] -= appended.bytes
    return status


cdef void note_revived(PopService s, const CheckPoint* point, uint32_t done_before,
                       int32_t revive_queue) noexcept nogil:
    """Appends a note that these messages came again; without it, a kill makes them come twice."""
    cdef ReviveEntry e
    cdef int32_t i
    memset(&e, 0, sizeof(e))
    for i in range(point.count):
        if (point.done & ~done_before) >> i & 1:
            e.list[e.listed] = point.start_offset + point.behind[i]
            e.listed += 1
    if e.listed == 0:
        return
    e.topic = text_of(point.pair.topic.name, point.pair.topic.name_length)
    e.group = text_of(point.pair.group, point.pair.group_length)
    e.broker_name = text_of(s.turn.options.broker_name, s.turn.options.broker_name_bytes)
    e.start_offset = point.start_offset
    e.ack_offset = -1
    e.pop_ms = point.pop_ms
    e.queue_id = point.queue_id
    if append_revived(s, &e, revive_queue) != OK:
        log_event(s.turn, NULL,
                  b"messages that were popped and not acknowledged came again, which could "
                  b"not be noted: after a kill they come once more")


cdef int revive_point(PopService s, CheckPoint* point, Queue* notes, int32_t* messages,
                      int64_t* bytes) noexcept nogil:
    """OK: all of its messages are done; else why it must wait."""
    cdef Topic* target = NULL
    cdef int32_t i
    cdef int status
    cdef uint32_t all_done = <uint32_t> ((<uint64_t> 1 << point.count) - 1)
    if point.done & all_done == all_done or point.pair.use.removed:
        return OK
    status = find_target(s, point.pair, &target)
    if status == NOT_FOUND:
        s.pops.unreadable += 1
        log_event(s.turn, NULL,
                  b"messages that were popped and not acknowledged are dropped: their "
                  b"retry topic would have a name that no topic may have")
        return OK
    if status != OK:
        return status
    for i in range(point.count):
        if point.done >> i & 1:
            continue
        if messages[0] <= 0 or bytes[0] <= 0:
            return NOT_READY
        status = revive_message(s, point, target, i, notes, bytes)
        if status != OK:
            if (status != RING_FULL and s.pops.next_check_ms <= s.turn.now_ms
                    and not readahead_is_busy(&s.pops.readahead)):
                s.pops.next_check_ms = s.turn.now_ms + (1 if status == NOT_READY else RETRY_MS)
            return status
        point.done |= <uint32_t> 1 << i
        messages[0] -= 1
        inflight_remove(s, point.pair.topic, point.pair.group, point.pair.group_length,
                        point.queue_id, point.pop_ms, 1)
    return OK


cdef void revive_due(PopService s, ReviveQueue* q, Queue* notes, bint all_read,
                     int64_t delivered_ms, int32_t* messages, int64_t* bytes) noexcept nogil:
    cdef CheckPoint* point = ring_next(q)
    cdef PopPair* pair
    cdef uint32_t before
    cdef int status
    cdef bint full
    while point != NULL and messages[0] > 0 and bytes[0] > 0:
        full = q.tail - q.head >= CHECK_POINTS_MAX
        if not full and (not all_read or point.revive_ms >= delivered_ms):
            return
        if point.revive_ms > s.turn.wall_ms:
            return
        before = point.done
        status = revive_point(s, point, notes, messages, bytes)
        note_revived(s, point, before, <int32_t> (q - s.pops.queues))
        if status != OK:
            return
        s.pops.hurried += full and not all_read and point.done != before
        pair = point.pair
        ring_finish_next(q)
        pair_leave(&s.pops, &s.tables.topics, &s.tables.removed, pair)
        point = ring_next(q)


# ------------------------------------------------------------------- the turn

cdef void commit(PopService s, const Topic* topic, int32_t queue_id) noexcept nogil:
    """Commits what the last turn has done, which is written now."""
    cdef ReviveQueue* q = &s.pops.queues[queue_id]
    if q.commit_offset > q.told_offset:
        q.told_offset = q.commit_offset
        offset_commit(&s.tables.offsets, topic.name, topic.name_length,
                      <const uint8_t*> REVIVE_GROUP,
                      REVIVE_GROUP_BYTES, queue_id, q.commit_offset)


cdef void start(PopService s, const Topic* topic, int32_t queue_id) noexcept nogil:
    cdef ReviveQueue* q = &s.pops.queues[queue_id]
    q.told_offset = q.commit_offset = offset_query(
        &s.tables.offsets, topic.name, topic.name_length, <const uint8_t*> REVIVE_GROUP,
        REVIVE_GROUP_BYTES, queue_id)
    q.next_offset = q.told_offset + 1
    q.begun = True


cdef void queue_turn(PopService s, Topic* topic, int32_t queue_id, int64_t delivered_ms,
                     int32_t* budget, int32_t* messages, int64_t* bytes) noexcept nogil:
    """Does what is new and what is due in a revive queue, up to where the disk must be read."""
    cdef ReviveQueue* q = &s.pops.queues[queue_id]
    cdef Queue* queue = topic_queue(topic, s.append.queues, queue_id)
    cdef bint all_read
    if queue == NULL:
        return
    if not q.begun:
        start(s, topic, queue_id)
    commit(s, topic, queue_id)
    if q.again_ms > s.turn.now_ms:
        return                              # its read failed just now: the other queues go on
    readahead_for(&s.pops.readahead, NULL, &q.again_ms)
    all_read = read_log(s, q, queue, budget)
    if readahead_is_busy(&s.pops.readahead):
        return
    revive_due(s, q, queue, all_read, delivered_ms, messages, bytes)
    q.commit_offset = ring_oldest(q, q.next_offset) - 1


cdef bint is_at_rest(PopService s) noexcept nogil:
    """Whether nothing can be read or revived until an event comes."""
    # Control sets the delay levels last: then topics, groups and offsets are there.
    return (not s.delay.timers.started or s.delay.schedule.count == 0
            or readahead_is_busy(&s.pops.readahead) or not is_writable(&s.turn.role)
            or s.append.log.poisoned() or load_acquire_i32(&s.turn.stopping))


cdef inline int32_t queue_count(const Topic* topic) noexcept nogil:
    return min(topic.read_queues, <int32_t> REVIVE_QUEUES_MAX)


cdef void revive_turn(PopService s) noexcept nogil:
    cdef Topic* topic
    cdef int64_t delivered_ms
    cdef int64_t bytes = REVIVE_BYTES
    cdef int32_t budget = READ_TURN, messages = REVIVE_TURN
    cdef int32_t count, first, i, _n
    if is_at_rest(s) or s.pops.next_check_ms > s.turn.now_ms:
        return
    topic = revive_topic(s)
    if topic == NULL:
        return
    s.pops.next_check_ms = 0
    delivered_ms = timer_delivered_ms(s.delay)
    count = queue_count(topic)
    first = s.pops.first if s.pops.first < count else 0
    if s.pops.queues[first].again_ms != 0:
        first = first + 1 if first + 1 < count else 0   # its read failed: begin with the next one
    i = first
    for _n in range(count):
        queue_turn(s, topic, i, delivered_ms, &budget, &messages, &bytes)
        if readahead_is_busy(&s.pops.readahead):
            s.pops.first = i                # it goes on with what is being read for it
            return
        i = i + 1 if i + 1 < count else 0
    s.pops.first = first + 1
    readahead_end(&s.pops.readahead, s.fetch.pool)


cdef int64_t queue_wait(PopService s, ReviveQueue* q, const Queue* queue,
                        int64_t delivered_ms) noexcept nogil:
    """How many ms until there is work in a revive queue. A check point that waits for the timers
    needs no time of its own: in the turn in which they catch up, this step runs after them."""
    cdef CheckPoint* point = ring_next(q)
    cdef bint full = q.tail - q.head >= CHECK_POINTS_MAX
    cdef int64_t left
    if q.commit_offset > q.told_offset:
        return 0
    if q.again_ms > s.turn.now_ms:
        return q.again_ms - s.turn.now_ms
    if q.next_offset < queue.max_offset and not full:
        return 0
    if point == NULL:
        return NO_WAIT
    # When the clock was set back, the timers' clock is behind the turn's.
    left = point.revive_ms - min(s.turn.wall_ms, s.delay.schedule.clock_ms)
    if left < 0 and not full and point.revive_ms >= delivered_ms:
        return NO_WAIT
    return max(<int64_t> 1, left + 1)


cdef int32_t revive_wait(PopService s) noexcept nogil:
    cdef int64_t limit_ms = NO_WAIT
    cdef int64_t delivered_ms
    cdef Topic* topic
    cdef int32_t i
    if is_at_rest(s):
        return NO_WAIT
    if s.pops.next_check_ms > s.turn.now_ms:
        return <int32_t> min(limit_ms, s.pops.next_check_ms - s.turn.now_ms)
    topic = revive_topic(s)
    if topic == NULL:
        return NO_WAIT
    delivered_ms = timer_delivered_ms(s.delay)
    for i in range(min(queue_count(topic), topic.queue_slots)):
        if s.pops.queues[i].begun and topic.queues[i] != NULL:
            limit_ms = min(limit_ms, queue_wait(s, &s.pops.queues[i], topic.queues[i],
                                                delivered_ms))
    return <int32_t> limit_ms


cdef Step revive_step(PopService s) noexcept:
    return Step(b"revive", <void*> s, <RunStep> revive_turn, <NextWait> revive_wait, NULL)
