"""Timed messages that are due. See timer_delivery.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport MALFORMED, NOT_READY, OK, TOO_LARGE
from cext.flow.append.message_append cimport (
    Appended,
    Message,
    append_message,
    append_scanned,
    message_kind,
    message_of_record,
    record_bytes_max,
)
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.control_link cimport WANT_TOPIC, link_push
from cext.flow.context.small_replies cimport log_event
from cext.flow.delay.delay_level cimport LOOKS_A_REQUEST
from cext.flow.delay.delay_service cimport timer_queue
from cext.flow.delay.recall_table cimport recall_add, recall_has
from cext.flow.delay.timer cimport TimerClock
from cext.flow.delay.timer_feed cimport timer_due, timer_parse
from cext.flow.fetch.readahead cimport (
    READAHEAD_RECORDS,
    readahead_find,
    readahead_for,
    readahead_records,
)
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.log.record cimport RecordView
from cext.store.log.record_crc cimport record_crc_strip
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.store.timers.timer_heap cimport (
    TIMER_FRESH,
    TIMER_MESSAGE,
    TIMER_NEVER,
    TIMER_ROLL,
    TimerEntry,
    key_before,
    key_same,
    timer_heap_pop,
    timer_heap_push,
    timer_offset,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, TOPIC_QUEUES_MAX
from cext.wire.properties cimport (
    PROPERTY_SEPARATOR,
    SendProperties,
    append_number,
    tags_code,
)
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.system_topics cimport (
    HALF_TOPIC,
    HALF_TOPIC_BYTES,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
    TIMER_TOPIC,
    TIMER_TOPIC_BYTES,
)
from cext.wire.text cimport text_equals, text_i32, text_i64, text_of
from cext.wire.topic_name cimport is_topic_name

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    PARK_MS = 100               # between looks for a missing topic
    PARKED = 2                  # in `flags`; the bits from 8 on count the looks
    ADDED_BYTES_MAX = 128       # TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES
    PASSED = 1                  # the entry is done, nothing was delivered
    ASIDE = 2                   # its topic is missing: it will be looked at later

# A message that is stored anew may have these from the last time it was; they are replaced.
cdef const char* REPLACED[3]
REPLACED[0] = "TIMER_ROLL_TIMES"
REPLACED[1] = "TIMER_ENQUEUE_MS"
REPLACED[2] = "TIMER_DEQUEUE_MS"


cdef int drop(DelayService s, const TimerEntry* entry, const char* why) noexcept nogil:
    cdef char line[256]
    s.timers.dropped += 1
    snprintf(line, sizeof(line), b"timed message at log offset %lld is passed: %s",
             <long long> timer_offset(entry), why)
    log_event(s.turn, NULL, line)
    return PASSED


cdef void fill_message(DelayService s, const RecordView* view, const SendProperties* found,
                       bint rolled, Message* m) noexcept nogil:
    """Fills `m` from the stored message; properties with the broker's own are in scratch.after."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef uint32_t length = view.properties_bytes
    cdef int64_t times = 0
    if rolled or found.timer_roll_times.bytes != NULL:
        length = copy_properties_without(view.properties, length, REPLACED, 3, out)
    else:
        memcpy(out, view.properties, length)
    length = <uint32_t> record_crc_strip(out, length)
    if length > 0 and out[length - 1] != PROPERTY_SEPARATOR:
        out[length] = PROPERTY_SEPARATOR
        length += 1
    if length + ADDED_BYTES_MAX <= PROPERTIES_BYTES_MAX:
        if found.timer_roll_times.bytes != NULL:
            text_i64(&found.timer_roll_times, &times)
        times = min(max(times, <int64_t> 0), <int64_t> 0x7FFFFFFE)
        if rolled or times > 0:
            length += append_number(out + length, b"TIMER_ROLL_TIMES", times + rolled)
        length += append_number(out + length, b"TIMER_ENQUEUE_MS", view.store_timestamp_ms)
        length += append_number(out + length, b"TIMER_DEQUEUE_MS", s.turn.wall_ms)
    message_of_record(m, view)
    m.properties = text_of(out, length)


cdef int append(DelayService s, Topic* topic, Queue* queue, Message* m,
                const SendProperties* found) noexcept nogil:
    """Appends the message, whose properties are those that were found in the stored one, and the
    broker's own. They are looked at again only if some of them must be left out."""
    cdef Appended appended
    cdef int status = append_room(s.append, queue, record_bytes_max(m, topic.name_length), 1)
    if status != OK:
        return status
    if found.pop_check_point.bytes != NULL:
        return append_message(s.append, topic, queue, m, &appended)
    if not m.own_tags_code:
        m.own_tags_code = True
        m.tags_code = tags_code(found.tags.bytes, found.tags.length) if found.tags.bytes != NULL \
            else 0
    return append_scanned(s.append, topic, queue, m, message_kind(m, found), &appended)


cdef int roll(DelayService s, const TimerEntry* entry, const RecordView* view,
              const SendProperties* found) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> TIMER_TOPIC,
                                               TIMER_TOPIC_BYTES)
    cdef Queue* queue = timer_queue(s)
    cdef QueueEntry of_queue
    cdef Message m
    cdef int64_t stored_code = 0
    cdef bint relative = False
    cdef int status
    if queue == NULL:
        return NOT_READY
    if s.append.queues.read(queue, view.queue_offset, 1, &of_queue) == 1 \
            and of_queue.physical_offset == view.physical_offset:
        stored_code = of_queue.tags_code
    fill_message(s, view, found, True, &m)
    m.own_tags_code = timer_due(view, found, stored_code, &m.tags_code, &relative)
    status = append(s, topic, queue, &m, found)
    s.timers.rolled += status == OK
    return status


cdef int park(DelayService s, TimerClock* clock, const TimerEntry* entry,
              const SendProperties* found, int32_t queue_id) noexcept nogil:
    """The real topic was deleted in between: control makes it again. The message waits aside, also
    while control cannot make it (its disk is full, say)."""
    cdef TimerEntry later = entry[0]
    cdef uint32_t looks = entry.flags >> 8
    if (not is_topic_name(found.real_topic.bytes, found.real_topic.length)
            or queue_id >= TOPIC_QUEUES_MAX):
        return drop(s, entry, b"there can be no such topic and queue")
    if looks == 0:
        link_push(&s.turn.link, WANT_TOPIC, <uint64_t> queue_id + 1, found.real_topic.bytes,
                  found.real_topic.length)
    if not entry.flags & PARKED:
        clock.parked_count += 1
        if key_before(&entry.key, &clock.parked):
            clock.parked = entry.key
    later.key.due_ms = clock.now_ms + PARK_MS
    later.flags = (PARKED | (looks + 1) % LOOKS_A_REQUEST << 8
                   | (entry.flags & (TIMER_ROLL | TIMER_FRESH)))
    timer_heap_pop(&clock.heap)
    timer_heap_push(&clock.heap, &later)
    return ASIDE


cdef int deliver_message(DelayService s, TimerClock* clock, const TimerEntry* entry,
                         const RecordView* view, const SendProperties* found) noexcept nogil:
    cdef Topic* topic
    cdef Queue* queue
    cdef Message m
    cdef int32_t queue_id = -1, queues
    cdef int status
    if (found.real_topic.bytes == NULL or found.real_queue_id.bytes == NULL
            or text_i32(&found.real_queue_id, &queue_id) != OK or queue_id < 0
            or text_equals(&found.real_topic, HALF_TOPIC, HALF_TOPIC_BYTES)
            or text_equals(&found.real_topic, SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES)
            or text_equals(&found.real_topic, TIMER_TOPIC, TIMER_TOPIC_BYTES)):
        return drop(s, entry, b"REAL_TOPIC or REAL_QID name no place to go")
    if clock.recalled.count > 0 and recall_has(&clock.recalled, &found.real_topic,
                                               &found.uniq_key, entry.key.due_ms):
        s.timers.recalled += 1
        return PASSED
    topic = <Topic*> name_map_find(&s.tables.topics, found.real_topic.bytes,
                                   found.real_topic.length)
    if topic == NULL:
        return park(s, clock, entry, found, queue_id)
    queues = topic.write_queues if topic.write_queues > topic.read_queues else topic.read_queues
    queue = topic_queue(topic, s.append.queues, queue_id if queue_id < queues else queues - 1)
    if queue == NULL:
        return drop(s, entry, b"its topic has no queues")
    fill_message(s, view, found, False, &m)
    status = append(s, topic, queue, &m, found)
    s.timers.delivered += status == OK
    topic.numbers.timed_out += status == OK
    return status


cdef int deliver_entry(DelayService s, TimerClock* clock, const TimerEntry* entry,
                       const uint8_t* at, bint checked) noexcept nogil:
    """OK, PASSED, ASIDE, or why the message must wait."""
    cdef RecordView view
    cdef SendProperties found
    if not timer_parse(s, at, timer_offset(entry), entry.size, checked, &view, &found):
        return drop(s, entry, b"its record is damaged or not of a timed message")
    if entry.flags & TIMER_ROLL:
        return roll(s, entry, &view, &found)
    if not entry.key.place & TIMER_MESSAGE:
        if not recall_add(&clock.recalled, &found.timer_delete_key, entry):
            return drop(s, entry, b"too many messages are recalled at once")
        return PASSED
    return deliver_message(s, clock, entry, &view, &found)


cdef void fetch(DelayService s, const TimerClock* clock) noexcept nogil:
    """Fetches the messages on top of the heap, which are due soon, if they are not in memory."""
    cdef int64_t offsets[READAHEAD_RECORDS]
    cdef int32_t sizes[READAHEAD_RECORDS]
    cdef const uint8_t* at = NULL
    cdef bint checked = False
    cdef const TimerEntry* entry
    cdef int32_t i, n = 0
    for i in range(4 * READAHEAD_RECORDS):
        if i >= clock.heap.count or n == READAHEAD_RECORDS:
            break
        entry = &clock.heap.entries[i]
        if entry.key.due_ms <= clock.now_ms and readahead_find(
                &s.timers.readahead, s.fetch.pool, s.append.log, timer_offset(entry), entry.size,
                &at,
                &checked) == NOT_READY:
            offsets[n] = timer_offset(entry)
            sizes[n] = entry.size
            n += 1
    if n > 0:
        readahead_for(&s.timers.readahead, &s.timers.next_check_ms, &s.timers.deliver_again_ms)
        readahead_records(&s.timers.readahead, s.fetch.pool, offsets, sizes, n)


cdef int deliver_clock(DelayService s, int32_t number, const TimerKey* bound, int32_t* messages,
                       int64_t* bytes) noexcept nogil:
    cdef TimerClock* clock = &s.timers.clocks[number]
    cdef TimerEntry entry
    cdef const uint8_t* at = NULL
    cdef bint checked = False
    cdef int status
    while clock.heap.count > 0:
        entry = clock.heap.entries[0]
        if entry.key.due_ms > clock.now_ms or not key_before(&entry.key, bound):
            return OK
        if messages[0] <= 0 or bytes[0] <= 0:
            return OK
        if key_same(&entry.key, &clock.last):
            timer_heap_pop(&clock.heap)
            continue
        status = readahead_find(&s.timers.readahead, s.fetch.pool, s.append.log,
                                timer_offset(&entry),
                                entry.size, &at, &checked)
        if status == NOT_READY:
            fetch(s, clock)
            return NOT_READY
        if status == OK:
            status = deliver_entry(s, clock, &entry, at, checked)
        else:
            status = drop(s, &entry, b"its record cannot be read, or was deleted with its file")
        if status == TOO_LARGE or status == MALFORMED:
            status = drop(s, &entry, b"it is larger than the log takes by now (half of "
                          b"rmqRingBytes), or its properties are malformed")
        if status < 0:
            return status
        messages[0] -= 1
        bytes[0] -= entry.size
        if status == ASIDE:
            continue
        if entry.flags & PARKED:
            clock.parked_count -= 1
            if clock.parked_count == 0:
                clock.parked.due_ms = TIMER_NEVER
        clock.last = entry.key
        timer_heap_pop(&clock.heap)
    return OK
