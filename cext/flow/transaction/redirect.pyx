"""Sends that are stored under another topic first. See redirect.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from cext.base.clock cimport wall_ms
from cext.base.histogram_buckets cimport histogram_record
from cext.base.status cimport OK
from cext.flow.append.append_status cimport (
    DELETES_ELSEWHERE,
    NOT_STARTED,
    NO_TRANSACTION,
    TIMER_ILLEGAL,
    TIMER_OFF,
    TOO_MANY_OPEN,
)
from cext.flow.append.message_append cimport append_message, append_scanned, record_bytes_max
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.property_scratch cimport PROPERTY_SCRATCH_BYTES
from cext.flow.delay.timer cimport FreshTimer, fresh_timer
from cext.flow.tables.topic_table cimport KINDS, KIND_DELAY, topic_queue
from cext.flow.transaction.open_halves cimport half_fits
from cext.memory.name_map cimport name_map_find
from cext.store.log.record_crc cimport record_crc_strip
from cext.wire.codes cimport TRANSACTION_TYPE_MASK
from cext.wire.properties cimport SendProperties, append_number, append_property, scan_properties
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.system_topics cimport (
    HALF_TOPIC,
    HALF_TOPIC_BYTES,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
    TIMER_TOPIC,
    TIMER_TOPIC_BYTES,
    TOPIC_HALF,
    TOPIC_TIMER,
)
from cext.wire.text cimport Text, text_copy, text_i64, text_of

cdef enum:
    DUE_ALREADY = 1             # from timed(): it is an ordinary message
    TIME_BITS = 50              # of a time in ms: 35,000 years
    # Room a half message needs later: for TRANSACTION_CHECK_TIMES when its producer is asked, and
    # for TIMER_OUT_MS when it is committed and timed.
    HALF_SPARE_BYTES = 36 + 34
    WAIT_BOUNDS = 6

# A minute, 10 minutes, an hour, 12 hours, a day, 3 days.
cdef int64_t[WAIT_BOUNDS] WAIT_BOUNDS_S = [60, 600, 3600, 43200, 86400, 259200]

# Sender's properties that are not kept: a delayed message drops the first six, a half message those
# from the fifth on.
cdef const char* LEFT_OUT[8]
LEFT_OUT[0] = "TIMER_DELAY_SEC"
LEFT_OUT[1] = "TIMER_DELAY_MS"
LEFT_OUT[2] = "TIMER_DELIVER_MS"
LEFT_OUT[3] = "DELAY"
LEFT_OUT[4] = "REAL_TOPIC"
LEFT_OUT[5] = "REAL_QID"
LEFT_OUT[6] = "__transactionId__"
LEFT_OUT[7] = "TRANSACTION_CHECK_TIMES"
# Sender's properties that a timed message does not keep.
cdef const char* NOT_TIMED[4]
NOT_TIMED[0] = "REAL_TOPIC"
NOT_TIMED[1] = "REAL_QID"
NOT_TIMED[2] = "TIMER_OUT_MS"
NOT_TIMED[3] = "TIMER_ROLL_TIMES"


cdef inline void count_timed(Topic* target, const Message* m) noexcept nogil:
    histogram_record(&target.numbers.timed, WAIT_BOUNDS_S, WAIT_BOUNDS,
                     (m.tags_code - m.born_timestamp_ms) // 1000, 1)


cdef inline void note_fresh(TransactionService s, const Message* m, const Appended* stored,
                            bint relative) noexcept nogil:
    """Saves the timers' feed from reading the record."""
    cdef FreshTimer* fresh = fresh_timer(&s.delay.timers, stored.queue_offset)
    fresh.queue_offset = stored.queue_offset
    fresh.physical_offset = stored.physical_offset
    fresh.due_ms = m.tags_code
    fresh.stored_ms = s.turn.wall_ms
    fresh.relative = relative


cdef uint32_t add_target(uint8_t* out, const Topic* topic, const Queue* queue) noexcept nogil:
    cdef uint32_t length = append_property(out, b"REAL_TOPIC", topic.name, topic.name_length)
    return length + append_number(out + length, b"REAL_QID", queue.queue_id)


cdef int delay(TransactionService s, const Topic* topic, const Queue* queue, Message* m,
               const SendProperties* found, uint32_t length, int32_t* queue_id) noexcept nogil:
    """Builds a delayed message's properties; `length` bytes of them are in scratch.before."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef int32_t level = found.delay_level
    cdef uint32_t bytes
    if s.delay.schedule.count == 0:
        return NOT_STARTED
    if level > s.delay.schedule.count:
        level = s.delay.schedule.count
    bytes = copy_properties_without(s.turn.scratch.before, length, LEFT_OUT, 6, out)
    bytes += append_number(out + bytes, b"DELAY", level)
    bytes += add_target(out + bytes, topic, queue)
    m.properties = text_of(out, bytes)
    m.own_tags_code = True
    m.tags_code = s.delay.schedule.clock_ms + s.delay.schedule.levels[level - 1].delay_ms
    queue_id[0] = level - 1
    return OK


cdef int half(TransactionService s, const Topic* topic, const Queue* queue, Message* m,
              const SendProperties* found, uint32_t length) noexcept nogil:
    """Builds a half message's properties; `length` bytes of them are in s.turn.scratch.before."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef uint32_t bytes
    if s.turn.options.reject_transactions or found.producer_group.bytes == NULL:
        return NO_TRANSACTION
    if not s.halves.started:
        return NOT_STARTED
    bytes = copy_properties_without(s.turn.scratch.before, length, LEFT_OUT + 4, 4, out)
    if found.uniq_key.bytes != NULL and found.uniq_key.length <= 64:
        bytes += append_property(out + bytes, b"__transactionId__", found.uniq_key.bytes,
                                 found.uniq_key.length)
    bytes += add_target(out + bytes, topic, queue)
    m.properties = text_of(out, bytes)
    m.spare = HALF_SPARE_BYTES
    m.sys_flag &= ~TRANSACTION_TYPE_MASK
    return OK


cdef int64_t asked_ms(const SendProperties* found, int64_t now_ms) noexcept nogil:
    """When a timed message is due, by the wall clock; -1: its property is no time."""
    cdef int64_t limit = <int64_t> 1 << TIME_BITS
    cdef int64_t value = 0
    if found.timer_delay_sec.bytes != NULL:
        if text_i64(&found.timer_delay_sec, &value) != OK:
            return -1
        value = min(max(value, <int64_t> 0), limit // 1000) * 1000 + now_ms
    elif found.timer_delay_ms.bytes != NULL:
        if text_i64(&found.timer_delay_ms, &value) != OK:
            return -1
        value = min(max(value, <int64_t> 0), limit) + now_ms
    elif text_i64(&found.timer_deliver_ms, &value) != OK:
        return -1
    return max(value, <int64_t> 0)


cdef inline int64_t sent_ms(TransactionService s) noexcept nogil:
    """The time from which a message's delay counts, which may be later than the time at which the
    turn's clock was read. The record gets this time too: a recovery computes the due time from
    it."""
    cdef int64_t wall = wall_ms()
    if wall > s.turn.wall_ms:
        s.turn.wall_ms = wall
    return wall


cdef int check_due(TransactionService s, int64_t due_ms, int64_t now_ms) noexcept nogil:
    """OK, DUE_ALREADY, or why no message may be timed so."""
    if not s.delay.timers.enabled:
        return TIMER_OFF
    if due_ms < 0:
        return TIMER_ILLEGAL
    if due_ms <= now_ms:
        return DUE_ALREADY
    if due_ms - now_ms > s.delay.timers.max_delay_ms:
        return TIMER_ILLEGAL
    if not s.delay.timers.started:
        return NOT_STARTED
    return OK


cdef uint32_t add_due(TransactionService s, uint8_t* out, const Topic* topic, const Queue* queue,
                      Message* m, int64_t due_ms) noexcept nogil:
    """Adds what a timed message has besides its sender's properties; returns the bytes."""
    cdef int64_t precision_ms = s.delay.timers.precision_ms
    cdef uint32_t bytes = append_number(out, b"TIMER_OUT_MS",
                                        (due_ms - 1) // precision_ms * precision_ms)
    m.own_tags_code = True
    m.tags_code = due_ms
    return bytes + add_target(out + bytes, topic, queue)


cdef int timed(TransactionService s, const Topic* topic, const Queue* queue, Message* m,
               const SendProperties* found, uint32_t length) noexcept nogil:
    """Builds a timed message's properties. OK, DUE_ALREADY or why it is refused."""
    cdef uint8_t* out = s.turn.scratch.after
    cdef int64_t now_ms = sent_ms(s)
    cdef int64_t due_ms = asked_ms(found, now_ms)
    cdef int status = check_due(s, due_ms, now_ms)
    cdef uint32_t bytes
    if status == DUE_ALREADY and found.timer_delete_key.bytes != NULL:
        return TIMER_ILLEGAL
    if status != OK:
        return status
    bytes = copy_properties_without(s.turn.scratch.before, length, NOT_TIMED, 4, out)
    bytes += add_due(s, out + bytes, topic, queue, m, due_ms)
    m.properties = text_of(out, bytes)
    return OK


cdef int append_timed(TransactionService s, Topic* topic, Queue* queue, Message* m,
                      uint8_t* properties, uint32_t length, int64_t due_ms,
                      Appended* out) noexcept nogil:
    cdef Topic* target = topic
    cdef int status = check_due(s, due_ms, sent_ms(s))
    if status == OK:
        length += add_due(s, properties + length, topic, queue, m, due_ms)
        topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> TIMER_TOPIC,
                                       TIMER_TOPIC_BYTES)
        queue = topic_queue(topic, s.append.queues, 0) if topic != NULL else NULL
        if queue == NULL:
            return NOT_STARTED
    elif status != DUE_ALREADY:
        return status
    m.properties = text_of(properties, length)
    status = append_room(s.append, queue, record_bytes_max(m, topic.name_length), 1)
    if status != OK:
        return status
    status = append_scanned(s.append, topic, queue, m,
                            KIND_DELAY if topic.kind == TOPIC_TIMER else KINDS, out)
    if status == OK and topic.kind == TOPIC_TIMER:
        count_timed(target, m)
        note_fresh(s, m, out, False)
    return status


cdef bint deletes_elsewhere(const Topic* topic, const SendProperties* found) noexcept nogil:
    """Whoever may send to one topic must not take back what others have sent to another topic."""
    cdef const Text* key = &found.timer_delete_key
    return found.has_timer and key.bytes != NULL and (
        key.length <= topic.name_length or key.bytes[topic.name_length] != c'+'
        or memcmp(key.bytes, topic.name, topic.name_length) != 0)


cdef int append_redirected(TransactionService s, Topic* topic, Queue* queue, Message* m,
                           bint committed,
                           Appended* out) noexcept nogil:
    cdef SendProperties found
    cdef Topic* target = topic
    cdef const char* name = SCHEDULE_TOPIC
    cdef uint32_t name_length = SCHEDULE_TOPIC_BYTES
    cdef int32_t queue_id = 0
    cdef int status
    cdef int32_t length = text_copy(&m.properties, s.turn.scratch.before, PROPERTY_SCRATCH_BYTES) \
        if m.properties.bytes != NULL else 0
    if length < 0:
        return length
    length = <int32_t> record_crc_strip(s.turn.scratch.before, length)
    status = scan_properties(s.turn.scratch.before, length, &found)
    if status != OK:
        return status
    if not committed and not found.has_delay and deletes_elsewhere(topic, &found):
        return DELETES_ELSEWHERE
    if found.has_transaction and not committed and not (m.reconsume_times > 0
                                                        and found.has_delay):
        status = half(s, topic, queue, m, &found, length)
        name = HALF_TOPIC
        name_length = HALF_TOPIC_BYTES
    elif m.sys_flag & TRANSACTION_TYPE_MASK and not committed:
        return NO_TRANSACTION
    elif found.has_delay:
        status = delay(s, topic, queue, m, &found, length, &queue_id)
    else:
        status = timed(s, topic, queue, m, &found, length)
        name = TIMER_TOPIC
        name_length = TIMER_TOPIC_BYTES
        if status == DUE_ALREADY:
            m.plain_only = False
            status = append_room(s.append, queue, record_bytes_max(m, topic.name_length), 1)
            return status if status != OK else append_message(s.append, topic, queue, m, out)
    if status != OK:
        return status
    m.plain_only = False
    topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> name, name_length)
    queue = topic_queue(topic, s.append.queues, queue_id) if topic != NULL else NULL
    if queue == NULL:
        return NOT_STARTED
    if topic.kind == TOPIC_HALF and not half_fits(&s.halves, queue.next_offset):
        return TOO_MANY_OPEN
    status = append_room(s.append, queue, record_bytes_max(m, topic.name_length), 1)
    if status == OK:
        status = append_message(s.append, topic, queue, m, out)
    if status == OK and topic.kind == TOPIC_TIMER and found.has_timer:
        count_timed(target, m)
        if found.timer_delete_key.bytes == NULL:
            note_fresh(s, m, out, found.timer_delay_sec.bytes != NULL
                       or found.timer_delay_ms.bytes != NULL)
    return status
