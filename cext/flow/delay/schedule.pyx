"""Delivery of delayed messages. See schedule.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cext.base.atomics cimport load_acquire_i32
from cext.base.check cimport check
from cext.base.clock cimport boot_ms, wall_ms
from cext.base.status cimport (
    ABSENT,
    CORRUPT,
    IO_ERROR,
    MALFORMED,
    NOT_FOUND,
    NOT_READY,
    OK,
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
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.control_link cimport WANT_TOPIC, link_push
from cext.flow.context.role cimport is_writable
from cext.flow.context.small_replies cimport log_event
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.delay.delay_level cimport (
    JUMPS_MAX,
    LOOKS_A_REQUEST,
    ClockJump,
    DelayLevel,
    Schedule,
)
from cext.flow.delay.delay_service cimport DELIVER_BYTES_MAX, DELIVER_MAX
from cext.flow.delay.timer_turn cimport timer_clock_set
from cext.flow.fetch.readahead cimport (
    FETCH_POLL_MS,
    READAHEAD_RECORDS,
    readahead_end,
    readahead_entries,
    readahead_find,
    readahead_for,
    readahead_is_busy,
    readahead_open,
    readahead_records,
    readahead_repair,
    view_in_memory,
)
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RecordView, record_parse
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.store.queues.ext_address cimport is_ext_address
from cext.wire.limits cimport DELAY_LEVELS_MAX, TOPIC_QUEUES_MAX
from cext.wire.properties cimport SendProperties, scan_properties
from cext.wire.system_topics cimport (
    HALF_TOPIC,
    HALF_TOPIC_BYTES,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
)
from cext.wire.text cimport text_equals, text_i32
from cext.wire.topic_name cimport is_topic_name

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    ENTRIES_AT_ONCE = 64
    # After the store refused, or damage could not be repaired for now, and between looks for a
    # missing topic.
    RETRY_MS = 100
    JUMP_MS = 5                 # a smaller step of the wall clock does not count
    PASSED = 1                  # deliver_record(): the record is useless, go on after it

cdef int64_t WAIT_FOR_ARRIVAL = 0x7FFFFFFFFFFFFFFF


cdef int schedule_open(DelayService s, const int64_t* delays_ms, const int64_t* offsets,
                       int32_t count) noexcept nogil:
    cdef DelayLevel* level
    cdef int32_t i
    if count < 0 or count > DELAY_LEVELS_MAX:
        return TOO_LARGE
    for i in range(count):
        level = &s.schedule.levels[i]
        memset(level, 0, sizeof(DelayLevel))
        level.delay_ms = delays_ms[i]
        level.next_offset = offsets[i] if offsets[i] > 0 else 0
        level.next_check_ms = WAIT_FOR_ARRIVAL
    s.schedule.count = count
    s.schedule.first = 0
    s.turn.tables_loaded = count > 0        # at a start, levels are the last that control sets
    if s.schedule.readahead.fetch == NULL:
        readahead_open(&s.schedule.readahead, NULL)
    return OK


cdef inline Topic* schedule_topic(DelayService s) noexcept nogil:
    """Looked up once a turn, not for each level."""
    return <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> SCHEDULE_TOPIC,
                                  SCHEDULE_TOPIC_BYTES)


cdef inline Queue* level_queue(DelayService s, Topic* topic, int32_t level) noexcept nogil:
    return topic_queue(topic, s.append.queues, level) if topic != NULL else NULL


cdef inline bint has_arrival(DelayService s, Topic* topic, int32_t level) noexcept nogil:
    """Whether messages of this level wait, and no time is set for its next look."""
    cdef Queue* queue = level_queue(s, topic, level)
    return queue != NULL and s.schedule.levels[level].next_offset < queue.max_offset


# ------------------------------------------------------------------- time

cdef void add_jump(DelayLevel* level, int64_t end_offset, int64_t by_ms) noexcept nogil:
    cdef ClockJump* jump
    cdef int32_t i
    check(0 <= level.jump_count <= JUMPS_MAX,
          b"delay levels: no more jumps of the clock are kept than there are places",
          level.jump_count, JUMPS_MAX)
    while level.jump_count > 0 and level.jumps[0].end_offset <= level.next_offset:
        for i in range(1, level.jump_count):
            level.jumps[i - 1] = level.jumps[i]
        level.jump_count -= 1
    if level.jump_count == JUMPS_MAX:
        jump = &level.jumps[JUMPS_MAX - 1]
        jump.by_ms += by_ms
    else:
        jump = &level.jumps[level.jump_count]
        jump.by_ms = by_ms
        level.jump_count += 1
    jump.end_offset = end_offset
    level.next_check_ms = 0


cdef void note_clock(DelayService s, int64_t wall) noexcept nogil:
    cdef int64_t boot = boot_ms()
    cdef int64_t by_ms
    cdef Topic* topic
    cdef Queue* queue
    cdef int32_t i
    s.schedule.clock_ms = wall
    # Read within one and the same ms, both clocks are whole ms of one moment: a step is known to
    # 1 ms.
    s.schedule.clock_unsure = wall_ms() != wall
    if s.schedule.clock_unsure:
        return                          # interrupted between the two clocks: nothing to compare
    by_ms = wall - boot - s.schedule.clock_base
    if s.schedule.clock_base != 0 and (by_ms > JUMP_MS or by_ms < -JUMP_MS):
        topic = schedule_topic(s)
        for i in range(s.schedule.count):
            queue = level_queue(s, topic, i)
            if queue != NULL and queue.next_offset > s.schedule.levels[i].next_offset:
                add_jump(&s.schedule.levels[i], queue.next_offset, by_ms)
        timer_clock_set(s, by_ms)
    s.schedule.clock_base = wall - boot


cdef int64_t due_ms(DelayService s, int32_t level, int64_t offset, int64_t tags_code,
                    int64_t end_offset) noexcept nogil:
    cdef DelayLevel* l = &s.schedule.levels[level]
    cdef int64_t due = tags_code
    cdef int64_t latest = s.schedule.clock_ms + l.delay_ms
    cdef int32_t i
    for i in range(l.jump_count):
        if offset < l.jumps[i].end_offset:
            due += l.jumps[i].by_ms
    if due > latest + JUMP_MS:
        # It was stored by a clock that was ahead, or for a longer delay than is configured now.
        add_jump(l, end_offset, latest - due)
        due = latest
    return due


cdef void clock_turn(DelayService s) noexcept nogil:
    cdef int64_t wall = wall_ms()
    if wall > s.turn.wall_ms:
        s.turn.wall_ms = wall           # stored times never go back (docs/store-format.md)
    note_clock(s, wall)


cdef int32_t schedule_wait(DelayService s) noexcept nogil:
    cdef int32_t limit_ms = NO_WAIT
    cdef Topic* topic = schedule_topic(s)
    cdef int64_t left
    cdef int32_t i
    for i in range(s.schedule.count):
        if s.schedule.levels[i].next_check_ms == WAIT_FOR_ARRIVAL:
            if has_arrival(s, topic, i):
                return 0
            continue
        left = s.schedule.levels[i].next_check_ms - s.turn.now_ms
        if left <= 0:
            return 0
        if left < limit_ms:
            limit_ms = <int32_t> left
    return limit_ms


# ------------------------------------------------------------------- records from the disk

cdef inline bint is_of_others(DelayService s, int32_t level) noexcept nogil:
    """Whether another level is reading, or has not delivered yet what it has read."""
    return s.schedule.readahead.fetch != NULL and s.schedule.readahead_level != level


cdef void fetch_release(DelayService s, int32_t level) noexcept nogil:
    """What was read for this level is no longer needed."""
    if not is_of_others(s, level):
        readahead_end(&s.schedule.readahead, s.fetch.pool)


cdef void claim(DelayService s, int32_t level) noexcept nogil:
    """Makes the next read this level's, which looks again when the read is over. A read that fails
    holds up this level alone."""
    cdef DelayLevel* l = &s.schedule.levels[level]
    s.schedule.readahead_level = level
    l.next_check_ms = s.turn.now_ms + RETRY_MS
    readahead_for(&s.schedule.readahead, &l.next_check_ms, &l.again_ms)


cdef void fetch_records(DelayService s, int32_t level, const QueueEntry* entries, int32_t count,
                        int64_t offset, int64_t end_offset) noexcept nogil:
    """Has a disk reader fetch the records of these entries, as far as they are due."""
    cdef int64_t offsets[READAHEAD_RECORDS]
    cdef int32_t sizes[READAHEAD_RECORDS]
    cdef int32_t i, n = 0
    for i in range(count):
        if entries[i].size <= 0 or entries[i].physical_offset < s.append.log.min_offset():
            continue
        if n == READAHEAD_RECORDS or due_ms(s, level, offset + i, entries[i].tags_code,
                                            end_offset) > s.schedule.clock_ms:
            break
        offsets[n] = entries[i].physical_offset
        sizes[n] = entries[i].size
        n += 1
    claim(s, level)
    readahead_records(&s.schedule.readahead, s.fetch.pool, offsets, sizes, n)


cdef int find_record(DelayService s, int32_t level, const QueueEntry* entry,
                     const uint8_t** at, bint* checked) noexcept nogil:
    """OK, ABSENT (it must be fetched), NOT_READY (a fetch is under way), or why there is none."""
    cdef Schedule* x = &s.schedule
    cdef int status
    if is_of_others(s, level):
        status = view_in_memory(s.append.log, entry.physical_offset, entry.size, at, checked)
        if status != ABSENT:
            return status
        return CORRUPT if x.readahead.unreadable == entry.physical_offset else NOT_READY
    status = readahead_find(&x.readahead, s.fetch.pool, s.append.log, entry.physical_offset,
                            entry.size, at,
                            checked)
    return ABSENT if status == NOT_READY and not readahead_is_busy(&x.readahead) else status


cdef void record_used(DelayService s, int32_t level, const QueueEntry* entry) noexcept nogil:
    """When the last record read for this level is delivered or passed, others may read."""
    cdef Schedule* x = &s.schedule
    if (x.readahead.fetch != NULL and x.readahead_level == level
            and not readahead_is_busy(&x.readahead)
            and x.readahead.fetch.read.done_count > 0
            and x.readahead.fetch.read.offsets[x.readahead.fetch.read.done_count - 1]
            == entry.physical_offset):
        readahead_end(&x.readahead, s.fetch.pool)


# ------------------------------------------------------------------- delivery

cdef int64_t due_of_record(DelayService s, int32_t level, int64_t offset, const QueueEntry* entry,
                           const uint8_t* at, int64_t end_offset) noexcept nogil:
    """When a message is due whose queue entry does not say so (is_ext_address)."""
    cdef RecordView view
    if record_parse(at, entry.size, entry.physical_offset, False, &view) != OK:
        return 0                        # it is passed as damaged
    return due_ms(s, level, offset, view.store_timestamp_ms + s.schedule.levels[level].delay_ms,
                  end_offset)


cdef int drop(DelayService s, int32_t level, int64_t offset, const QueueEntry* entry,
              const char* why) noexcept nogil:
    cdef char line[256]
    s.schedule.dropped += 1
    snprintf(line, sizeof(line), b"delay level %d: message %lld at log offset %lld is passed: %s",
             level + 1, <long long> offset, <long long> entry.physical_offset, why)
    log_event(s.turn, NULL, line)
    return PASSED


cdef int repair_or_drop(DelayService s, int32_t level, Queue* queue, int64_t offset,
                        const QueueEntry* entry, const char* why) noexcept nogil:
    """A message cannot be read. PASSED when it is lost, else why it must wait: NOT_READY (its entry
    is being made anew), IO_ERROR (that failed for now)."""
    cdef int status = CORRUPT
    if queue != NULL:
        status = readahead_repair(&s.schedule.readahead, s.fetch.pool, s.append.queues, queue,
                                  offset, entry.size)
    if status != ABSENT and status != NOT_READY:
        return drop(s, level, offset, entry, why)
    fetch_release(s, level)
    return NOT_READY if status == ABSENT else IO_ERROR


cdef int want_topic(DelayService s, int32_t level, int64_t offset, const QueueEntry* entry,
                    const SendProperties* found, int32_t queue_id) noexcept nogil:
    """The real topic was deleted in between: control makes it again. The level looks again soon,
    and goes on doing so while control cannot make it (its disk is full, say)."""
    cdef DelayLevel* l = &s.schedule.levels[level]
    if (not is_topic_name(found.real_topic.bytes, found.real_topic.length)
            or queue_id >= TOPIC_QUEUES_MAX):
        return drop(s, level, offset, entry, b"there can be no such topic and queue")
    if l.wanted == 0:
        link_push(&s.turn.link, WANT_TOPIC, <uint64_t> queue_id + 1, found.real_topic.bytes,
                  found.real_topic.length)
    l.wanted = (l.wanted + 1) % LOOKS_A_REQUEST
    return NOT_FOUND


cdef int find_target(DelayService s, int32_t level, int64_t offset, const QueueEntry* entry,
                     const RecordView* view, Topic** topic, Queue** queue) noexcept nogil:
    """Finds the message's real topic and queue. OK, PASSED or NOT_FOUND (look again)."""
    cdef SendProperties found
    cdef int32_t queue_id, queues
    if scan_properties(view.properties, view.properties_bytes, &found) != OK:
        return drop(s, level, offset, entry, b"its properties are malformed")
    if (found.real_topic.bytes == NULL or found.real_queue_id.bytes == NULL
            or text_i32(&found.real_queue_id, &queue_id) != OK or queue_id < 0
            or text_equals(&found.real_topic, HALF_TOPIC, HALF_TOPIC_BYTES)
            or text_equals(&found.real_topic, SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES)):
        return drop(s, level, offset, entry, b"REAL_TOPIC or REAL_QID name no place to go")
    topic[0] = <Topic*> name_map_find(&s.tables.topics, found.real_topic.bytes,
                                      found.real_topic.length)
    if topic[0] == NULL:
        return want_topic(s, level, offset, entry, &found, queue_id)
    s.schedule.levels[level].wanted = 0
    queues = topic[0].write_queues if topic[0].write_queues > topic[0].read_queues \
        else topic[0].read_queues
    if queue_id >= queues:
        queue_id = queues - 1           # the topic has fewer queues now
    queue[0] = topic_queue(topic[0], s.append.queues, queue_id)
    if queue[0] == NULL:
        return drop(s, level, offset, entry, b"its topic has no queues")
    return OK


cdef int deliver_record(DelayService s, int32_t level, int64_t offset, const QueueEntry* entry,
                        const uint8_t* at, bint checked) noexcept nogil:
    """OK, PASSED, or why the message has to wait."""
    cdef RecordView view
    cdef Topic* topic = NULL
    cdef Queue* queue = NULL
    cdef Message m
    cdef Appended appended
    cdef int status = record_parse(at, entry.size, entry.physical_offset, not checked, &view)
    if status != OK or view.total_bytes != <uint32_t> entry.size or view.queue_offset != offset:
        status = repair_or_drop(s, level, level_queue(s, schedule_topic(s), level), offset, entry,
                                b"its record is damaged")
        s.turn.counters.corrupt_records += status == PASSED
        return status
    status = find_target(s, level, offset, entry, &view, &topic, &queue)
    if status != OK:
        return status
    message_of_record(&m, &view)
    status = append_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
    if status == OK:
        status = append_message(s.append, topic, queue, &m, &appended)
    if status == TOO_LARGE or status == MALFORMED:
        return drop(s, level, offset, entry, b"it is larger than the log takes by now (half of "
                    b"rmqRingBytes), or its properties are malformed")
    if status == OK:
        s.schedule.delivered += 1
    return status


cdef int64_t retry_at(DelayService s, int status) noexcept nogil:
    """When to look again after the message could not be delivered."""
    if status == RING_FULL:
        return 0
    return s.turn.now_ms + (1 if status == NOT_READY else RETRY_MS)


cdef void deliver_level(DelayService s, Queue* queue, int32_t i, int32_t* messages,
                        int64_t* bytes) noexcept nogil:
    """Delivers until nothing of the level is due, a message must wait, or the turn is full."""
    cdef DelayLevel* level = &s.schedule.levels[i]
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef const uint8_t* at = NULL
    cdef bint checked = False
    cdef int64_t due
    cdef int32_t n
    cdef int count, status
    level.next_check_ms = WAIT_FOR_ARRIVAL
    while queue != NULL and level.next_offset < queue.max_offset:
        if level.next_offset < queue.min_offset:
            log_event(s.turn, NULL, b"delayed messages were deleted with old log files")
            level.next_offset = queue.min_offset
            continue
        count = s.append.queues.read(queue, level.next_offset, ENTRIES_AT_ONCE, entries)
        if count == ABSENT or count == NOT_READY:
            level.next_check_ms = s.turn.now_ms + (FETCH_POLL_MS if count == ABSENT else RETRY_MS)
            fetch_release(s, i)
            if count == ABSENT and s.schedule.readahead.fetch == NULL:
                claim(s, i)
                readahead_entries(&s.schedule.readahead, s.fetch.pool, s.append.queues.reader_files,
                                  queue,
                                  level.next_offset)
            return
        if count <= 0:
            log_event(s.turn, NULL, b"an entry of SCHEDULE_TOPIC_XXXX cannot be read and is passed")
            s.schedule.dropped += 1
            level.next_offset += 1
            continue
        for n in range(count):
            if entries[n].size <= 0:
                level.next_offset += 1
                continue
            due = due_ms(s, i, level.next_offset, entries[n].tags_code, queue.next_offset)
            if due > s.schedule.clock_ms:
                level.next_check_ms = s.turn.now_ms + (due - s.schedule.clock_ms)
                return
            if messages[0] <= 0 or bytes[0] <= 0:
                level.next_check_ms = 0
                return
            status = find_record(s, i, &entries[n], &at, &checked)
            if status == ABSENT or status == NOT_READY:
                level.next_check_ms = s.turn.now_ms + FETCH_POLL_MS
                if status == ABSENT:
                    fetch_records(s, i, &entries[n], count - n, level.next_offset,
                                  queue.next_offset)
                return
            if status == OK and is_ext_address(entries[n].tags_code):
                due = due_of_record(s, i, level.next_offset, &entries[n], at, queue.next_offset)
                if due > s.schedule.clock_ms:
                    level.next_check_ms = s.turn.now_ms + (due - s.schedule.clock_ms)
                    fetch_release(s, i)
                    return
            if status == OK:
                status = deliver_record(s, i, level.next_offset, &entries[n], at, checked)
            else:
                status = repair_or_drop(s, i, queue, level.next_offset, &entries[n],
                                        b"its record cannot be read")
            if status < 0:
                level.next_check_ms = retry_at(s, status)
                return
            record_used(s, i, &entries[n])
            level.next_offset += 1
            messages[0] -= 1
            bytes[0] -= entries[n].size


cdef void deliver_due(DelayService s) noexcept nogil:
    cdef DelayLevel* level
    cdef Topic* topic
    cdef int32_t messages = DELIVER_MAX
    cdef int64_t bytes = DELIVER_BYTES_MAX
    cdef int32_t i, _n
    if s.schedule.count == 0 or s.schedule.clock_unsure or load_acquire_i32(&s.turn.stopping):
        return
    check(0 <= s.schedule.first < s.schedule.count,
          b"delay levels: a turn begins with one that is configured", s.schedule.first,
          s.schedule.count)
    topic = schedule_topic(s)
    i = s.schedule.first
    for _n in range(s.schedule.count):
        level = &s.schedule.levels[i]
        if has_arrival(s, topic, i) if level.next_check_ms == WAIT_FOR_ARRIVAL \
                else level.next_check_ms <= s.turn.now_ms:
            if not is_writable(&s.turn.role) or s.append.log.poisoned():
                level.next_check_ms = s.turn.now_ms + RETRY_MS
            else:
                deliver_level(s, level_queue(s, topic, i), i, &messages, &bytes)
        i = i + 1 if i + 1 < s.schedule.count else 0
    s.schedule.first = i + 1 if i + 1 < s.schedule.count else 0


cdef Step clock_step(DelayService s) noexcept:
    return Step(b"clock", <void*> s, <RunStep> clock_turn, NULL, NULL)


cdef Step schedule_step(DelayService s) noexcept:
    return Step(b"schedule", <void*> s, <RunStep> deliver_due, <NextWait> schedule_wait, NULL)
