"""From the queue of timed messages to the heaps. See timer_feed.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.base.byteorder cimport load_i64, load_u32
from cext.base.status cimport ABSENT, CORRUPT, NOT_FOUND, NOT_READY, OK
from cext.flow.context.small_replies cimport log_event
from cext.flow.delay.delay_service cimport timer_queue
from cext.flow.delay.recall_table cimport recall_add
from cext.flow.delay.timer cimport (
    CLOCK_STEADY,
    CLOCK_WALL,
    FreshTimer,
    HEAP_ENTRIES,
    TIMER_CLOCKS,
    TimerClock,
    Timers,
    fresh_timer,
)
from cext.flow.fetch.readahead cimport (
    READAHEAD_RECORDS,
    readahead_end,
    readahead_entries,
    readahead_find,
    readahead_for,
    readahead_repair,
    readahead_records,
)
from cext.store.log.record cimport record_parse
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.store.timers.timer_heap cimport (
    RECALL_MS,
    TIMER_FRESH,
    TIMER_MESSAGE,
    TIMER_ROLL,
    TimerEntry,
    TimerKey,
    key_before,
    timer_heap_push,
)
from cext.wire.properties cimport scan_properties
from cext.wire.system_topics cimport TIMER_TOPIC, TIMER_TOPIC_BYTES, is_named
from cext.wire.text cimport Text, text_i64, text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    ENTRIES_AT_ONCE = 64
    RETRY_MS = 100                  # after damage could not be repaired for now
    SECOND_MS = 1000                # the coarsest precision that Apache has
    TIME_BITS = 50                  # of a time in ms: 35,000 years


cdef bint timer_parse(DelayService s, const uint8_t* at, int64_t offset, int32_t size, bint checked,
                      RecordView* view, SendProperties* found) noexcept nogil:
    if record_parse(at, size, offset, not checked, view) != OK or view.total_bytes != \
            <uint32_t> size:
        s.turn.counters.corrupt_records += 1
        return False
    return (is_named(view.topic, view.topic_bytes, TIMER_TOPIC, TIMER_TOPIC_BYTES)
            and scan_properties(view.properties, view.properties_bytes, found) == OK
            and found.timer_out_ms.bytes != NULL)


cdef bint timer_due(const RecordView* view, const SendProperties* found, int64_t tags_code,
                    int64_t* due_ms, bint* relative) noexcept nogil:
    cdef int64_t out_ms = 0, asked = 0
    cdef int64_t limit = <int64_t> 1 << TIME_BITS
    if text_i64(&found.timer_out_ms, &out_ms) != OK or out_ms < 0 or out_ms > limit:
        return False
    relative[0] = found.timer_delay_sec.bytes != NULL or found.timer_delay_ms.bytes != NULL
    if out_ms < tags_code <= out_ms + SECOND_MS:
        due_ms[0] = tags_code
        return True
    if found.timer_delay_sec.bytes != NULL:
        if text_i64(&found.timer_delay_sec, &asked) == OK and asked < limit // SECOND_MS:
            asked = view.store_timestamp_ms + asked * SECOND_MS
    elif found.timer_delay_ms.bytes != NULL:
        if text_i64(&found.timer_delay_ms, &asked) == OK and asked < limit:
            asked += view.store_timestamp_ms
    elif text_i64(&found.timer_deliver_ms, &asked) != OK:
        asked = out_ms + SECOND_MS
    due_ms[0] = min(max(asked, out_ms + 1), out_ms + SECOND_MS)
    return True


cdef void push(DelayService s, int32_t number, TimerEntry* entry, int64_t queue_offset,
               const Text* delete_key) noexcept nogil:
    """Pushes the entry into the heap, unless the last run of the broker delivered it. A deletion
    that the last run passed is added to the recalls: its message may not be delivered yet."""
    cdef TimerClock* clock = &s.timers.clocks[number]
    cdef const TimerKey* before = &s.timers.recovered.before[number]
    if queue_offset >= s.timers.recovered.fed or not key_before(&entry.key, before):
        timer_heap_push(&clock.heap, entry)
    elif (delete_key.bytes == NULL or entry.flags & TIMER_ROLL
            or entry.key.due_ms + RECALL_MS < before.due_ms
            or not recall_add(&clock.recalled, delete_key, entry)):
        return
    clock.unsealed += 1


cdef void push_due(DelayService s, const QueueEntry* of_queue, int64_t queue_offset, int64_t due_ms,
                   int64_t stored_ms, bint relative, const Text* delete_key) noexcept nogil:
    """Pushes an entry for the message into the heap of its clock."""
    cdef Timers* x = &s.timers
    cdef TimerEntry entry
    cdef int64_t wait_ms = due_ms - stored_ms
    cdef bint deletion = delete_key.bytes != NULL
    entry.size = of_queue.size
    entry.flags = TIMER_FRESH
    if wait_ms >= x.roll_ms:
        entry.flags |= TIMER_ROLL
        due_ms = stored_ms + (
            x.roll_ms // 2 if wait_ms - x.roll_ms < x.roll_ms // 3 else x.roll_ms)
    entry.key.place = of_queue.physical_offset | (0 if deletion else TIMER_MESSAGE)
    entry.key.due_ms = due_ms
    if deletion or not relative:
        push(s, CLOCK_WALL, &entry, queue_offset, delete_key)
    entry.key.due_ms = due_ms + x.shift_ms
    # A deletion has its message's time but not its clock, so it goes to both; if it must be stored
    # anew, only once.
    if relative or (deletion and not entry.flags & TIMER_ROLL):
        push(s, CLOCK_STEADY, &entry, queue_offset, delete_key)


cdef bint feed_fresh(DelayService s, const QueueEntry* of_queue,
                     int64_t queue_offset) noexcept nogil:
    """Feeds a message that this process has just stored; False: its record must be read."""
    cdef const FreshTimer* fresh = fresh_timer(&s.timers, queue_offset)
    cdef Text no_key = text_of(NULL, 0)
    if (fresh.due_ms == 0 or fresh.queue_offset != queue_offset
            or fresh.physical_offset != of_queue.physical_offset
            or fresh.due_ms != of_queue.tags_code):
        return False
    push_due(s, of_queue, queue_offset, fresh.due_ms, fresh.stored_ms, fresh.relative, &no_key)
    return True


cdef void feed_one(DelayService s, const QueueEntry* of_queue, int64_t queue_offset,
                   const uint8_t* at, bint checked) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef RecordView view
    cdef SendProperties found
    cdef char line[128]
    cdef int64_t due_ms = 0
    cdef bint relative = False
    if not timer_parse(s, at, of_queue.physical_offset, of_queue.size, checked, &view,
                       &found) or not timer_due(&view, &found, of_queue.tags_code, &due_ms,
                                                &relative):
        x.dropped += 1
        snprintf(line, sizeof(line), b"timed message %lld at log offset %lld is passed: it is "
                 b"damaged or none", <long long> queue_offset,
                 <long long> of_queue.physical_offset)
        log_event(s.turn, NULL, line)
        return
    push_due(s, of_queue, queue_offset, due_ms, view.store_timestamp_ms, relative,
             &found.timer_delete_key)


cdef inline bint is_record_of(const uint8_t* at, const QueueEntry* entry,
                              int64_t queue_offset) noexcept nogil:
    """Whether the record at the place that the queue entry names is the entry's own."""
    return (load_u32(at) == <uint32_t> entry.size and load_i64(at + 20) == queue_offset
            and load_i64(at + 28) == entry.physical_offset)


cdef void fetch(DelayService s, const QueueEntry* entries, int32_t count) noexcept nogil:
    cdef int64_t offsets[READAHEAD_RECORDS]
    cdef int32_t sizes[READAHEAD_RECORDS]
    cdef int32_t i, n = 0
    for i in range(count):
        if entries[i].size > 0 and entries[i].physical_offset >= s.append.log.min_offset():
            offsets[n] = entries[i].physical_offset
            sizes[n] = entries[i].size
            n += 1
    readahead_for(&s.timers.readahead, NULL, &s.timers.feed_again_ms)
    readahead_records(&s.timers.readahead, s.fetch.pool, offsets, sizes, n)


cdef bint has_to_wait(DelayService s, Queue* queue, const QueueEntry* entry) noexcept nogil:
    """A record cannot be read. True: wait for it; False: it is lost, and passed."""
    cdef Timers* x = &s.timers
    cdef int status = readahead_repair(&x.readahead, s.fetch.pool, s.append.queues, queue, x.fed,
                                       entry.size)
    if status == ABSENT:
        return True                         # looked at again when its entry is made anew
    if status == NOT_READY:
        x.feed_again_ms = s.turn.now_ms + RETRY_MS
        readahead_end(&x.readahead, s.fetch.pool)
        return True
    x.dropped += 1
    log_event(s.turn, NULL, b"the record of a timed message cannot be read: passed")
    return False


cdef bint has_room(DelayService s) noexcept nogil:
    cdef const TimerClock* clock
    cdef int32_t i
    for i in range(TIMER_CLOCKS):
        clock = &s.timers.clocks[i]
        if clock.heap.count >= HEAP_ENTRIES or clock.unsealed >= HEAP_ENTRIES // 2:
            return False
    return True


cdef bint timer_feed(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef Queue* queue = timer_queue(s)
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef const uint8_t* at = NULL
    cdef bint checked = False
    cdef int32_t n, fed = 0
    cdef int count, status
    if queue == NULL or x.feed_again_ms > s.turn.now_ms:
        return False
    if x.fed < queue.min_offset:
        x.fed = queue.min_offset
    while x.fed < queue.max_offset and has_room(s):
        if fed >= FEED_MAX:
            return True
        count = s.append.queues.read(queue, x.fed, ENTRIES_AT_ONCE, entries)
        if count == ABSENT:
            readahead_for(&x.readahead, NULL, &x.feed_again_ms)
            readahead_entries(&x.readahead, s.fetch.pool, s.append.queues.reader_files, queue,
                              x.fed)
            return False
        if count == NOT_READY:              # the entry could not be made anew for now
            x.feed_again_ms = s.turn.now_ms + RETRY_MS
            return False
        if count <= 0:
            log_event(s.turn, NULL, b"an entry of rmq_sys_wheel_timer cannot be read and is passed")
            x.dropped += 1
            x.fed += 1
            continue
        for n in range(count):
            if not has_room(s):
                return False
            if entries[n].size > 0 and not feed_fresh(s, &entries[n], x.fed):
                status = readahead_find(&x.readahead, s.fetch.pool, s.append.log,
                                        entries[n].physical_offset,
                                        entries[n].size, &at, &checked)
                if status == NOT_READY:
                    fetch(s, &entries[n], count - n)
                    return False
                if status == OK and not is_record_of(at, &entries[n], x.fed):
                    status = CORRUPT
                if status == OK:
                    feed_one(s, &entries[n], x.fed, at, checked)
                elif status != NOT_FOUND and has_to_wait(s, queue, &entries[n]):
                    return False
            x.fed += 1
            fed += 1
    if x.fed >= queue.max_offset:
        x.ready = True
    return False
