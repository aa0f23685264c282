"""Check backs. See check_backs.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport ABSENT, NOT_READY, OK, TOO_LARGE
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.message_append cimport (
    Appended,
    Message,
    append_message,
    message_of_record,
    record_bytes_max,
)
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.call_block cimport block_take
from cext.flow.context.reply_space cimport reply_space_commit, reply_space_take
from cext.flow.context.role cimport is_writable
from cext.flow.fetch.readahead cimport (
    READAHEAD_RECORDS,
    readahead_end,
    readahead_entries,
    readahead_find,
    readahead_is_busy,
    readahead_repair,
    readahead_records,
)
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.flow.transaction.check_table cimport check_table_next
from cext.flow.transaction.open_halves cimport HalfMove, half_is_ended
from cext.flow.transaction.transaction_end cimport move_half
from cext.memory.name_map cimport name_map_find
from cext.net.connection cimport Connection
from cext.store.log.record cimport (
    RecordFields,
    RecordView,
    fields_of_record,
    record_bytes,
    record_finish,
    record_parse,
    record_start,
)
from cext.store.log.record_crc cimport record_crc_strip
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX, write_offset_message_id
from cext.wire.properties cimport SendProperties, append_number, find_property, scan_properties
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.replies cimport CheckFields, check_bytes_max, write_check_header
from cext.wire.system_topics cimport HALF_TOPIC, HALF_TOPIC_BYTES, is_named
from cext.wire.text cimport Text, text_i32, text_i64, text_of

cdef enum:
    SECONDS_MAX = 1000000000        # of an immunity time
    TIMES_BYTES_MAX = 64            # TRANSACTION_CHECK_TIMES and its number
    OPAQUE_MASK = 0x3FFFFFFF
    FETCH_AHEAD_MAX = 1024          # half messages, ended ones included

cdef enum CheckResult:
    ASKED
    UNASKED                         # stored anew, but no producer was connected
    LEFT                            # too young, or left for a later round
    CONTROLS                        # for control, to be given up
    AWAY                            # not now: its record must be read (RECORDS_ON_DISK)
    FULL                            # not now: its producers (PRODUCERS_FULL)
    STUCK                           # not now: the log takes nothing (LOG_FULL)

cdef struct Half:                   # an open half message as it is stored
    RecordView view
    SendProperties found
    int32_t real_queue_id
    int64_t times                   # how often it was checked


# ------------------------------------------------------------------- what is asked about

cdef int64_t number_of(const RecordView* view, const char* name, int64_t otherwise) noexcept nogil:
    """The property as a number from 0 on; `otherwise` when it is not one."""
    cdef Text text
    cdef int64_t number = 0
    if (not find_property(view.properties, view.properties_bytes, name, &text)
            or text_i64(&text, &number) != OK or number < 0):
        return otherwise
    return number


cdef void fetch_from(TransactionService s, Queue* queue, int64_t offset) noexcept nogil:
    """Has the records of the next open half messages fetched."""
    cdef int64_t offsets[READAHEAD_RECORDS]
    cdef int32_t sizes[READAHEAD_RECORDS]
    cdef QueueEntry entry
    cdef int64_t end = min(queue.max_offset, offset + FETCH_AHEAD_MAX)
    cdef int32_t n = 0
    while offset < end and n < READAHEAD_RECORDS:
        if not half_is_ended(&s.halves, offset):
            if s.append.queues.read(queue, offset, 1, &entry) != 1 or entry.size <= 0:
                break
            offsets[n] = entry.physical_offset
            sizes[n] = entry.size
            n += 1
        offset += 1
    readahead_records(&s.checks.readahead, s.fetch.pool, offsets, sizes, n)


cdef CheckResult repair_half(TransactionService s, Queue* queue, int64_t offset,
                             int32_t size) noexcept nogil:
    """AWAY while its entry is made anew, LEFT when that failed for now, CONTROLS: it is lost."""
    cdef int status = readahead_repair(&s.checks.readahead, s.fetch.pool, s.append.queues, queue,
                                       offset, size)
    if status == ABSENT:
        return AWAY
    return LEFT if status == NOT_READY else CONTROLS


cdef CheckResult read_half(TransactionService s, Queue* queue, int64_t offset,
                           Half* half) noexcept nogil:
    """ASKED: its producer may be asked. AWAY, LEFT, or CONTROLS: it is no proper half message."""
    cdef QueueEntry entry
    cdef RecordView* view = &half.view
    cdef const uint8_t* at = NULL
    cdef bint checked = False
    cdef int status
    if readahead_is_busy(&s.checks.readahead):
        return AWAY                         # no round may end before its last fetch
    status = s.append.queues.read(queue, offset, 1, &entry)
    if status == ABSENT:
        readahead_entries(&s.checks.readahead, s.fetch.pool, s.append.queues.reader_files, queue,
                          offset)
        return AWAY
    if status == NOT_READY:
        return LEFT                         # its entry could not be made anew for now
    if status != 1 or entry.size <= 0:
        return CONTROLS
    status = readahead_find(&s.checks.readahead, s.fetch.pool, s.append.log, entry.physical_offset,
                            entry.size, &at, &checked)
    if status == NOT_READY:
        fetch_from(s, queue, offset)
        return AWAY
    if (status != OK
            or record_parse(at, entry.size, entry.physical_offset, not checked, view) != OK
            or view.total_bytes != <uint32_t> entry.size or view.queue_offset != offset
            or not is_named(view.topic, view.topic_bytes, HALF_TOPIC, HALF_TOPIC_BYTES)):
        return repair_half(s, queue, offset, entry.size)
    if (scan_properties(view.properties, view.properties_bytes, &half.found) != OK):
        return CONTROLS
    half.times = number_of(view, b"TRANSACTION_CHECK_TIMES", 0)
    if (half.found.producer_group.bytes != NULL and half.found.real_topic.bytes != NULL
            and 0 < half.found.real_topic.length <= TOPIC_BYTES_MAX
            and text_i32(&half.found.real_queue_id, &half.real_queue_id) == OK
            and half.real_queue_id >= 0 and view.born_timestamp_ms >= 0):
        return ASKED
    return CONTROLS


cdef CheckResult is_due(TransactionService s, const CheckRules* rules,
                        const Half* half) noexcept nogil:
    """ASKED: it is due; or LEFT, or CONTROLS."""
    cdef int64_t age_ms = s.turn.wall_ms - half.view.born_timestamp_ms
    cdef int64_t immune_s
    if half.times >= rules.times_max or age_ms > rules.age_max_ms:
        return CONTROLS
    immune_s = min(number_of(&half.view, b"CHECK_IMMUNITY_TIME_IN_SECONDS", -1),
                   <int64_t> SECONDS_MAX)
    if half.view.store_timestamp_ms >= rules.began_ms:
        return LEFT
    return LEFT if 0 <= age_ms <= (
        rules.young_ms if immune_s < 0 else immune_s * 1000) else ASKED


# ------------------------------------------------------------------- the question

cdef uint32_t write_real(uint8_t* at, const Half* half, const Text* properties,
                         const Appended* a) noexcept nogil:
    """The half message as a record of its real topic, at its new place."""
    cdef RecordFields fields = fields_of_record(&half.view)
    cdef uint8_t* length_at
    fields.queue_id = half.real_queue_id
    fields.queue_offset = a.queue_offset
    fields.physical_offset = a.physical_offset
    fields.prepared_offset = 0
    fields.topic = half.found.real_topic.bytes
    fields.topic_bytes = half.found.real_topic.length
    length_at = record_start(at, &fields)
    memcpy(length_at + 2, properties.bytes, properties.length)
    return record_finish(at, length_at, properties.length)


cdef bint ask(TransactionService s, Connection* to, const Half* half, const Text* properties,
              const Appended* a) noexcept nogil:
    cdef CheckFields fields
    cdef uint8_t message_id[MESSAGE_ID_BYTES_MAX]
    cdef void* block
    cdef uint8_t* at
    cdef uint32_t length
    fields.opaque = <int32_t> (s.checks.asked & OPAQUE_MASK)
    fields.queue_offset = a.queue_offset
    fields.log_offset = a.physical_offset
    fields.unique_key = half.found.uniq_key
    fields.offset_message_id = text_of(message_id, write_offset_message_id(
        message_id, half.view.store_host, half.view.store_host_bytes, a.physical_offset))
    fields.broker_name = text_of(s.turn.options.broker_name, s.turn.options.broker_name_bytes)
    fields.body_bytes = record_bytes(
        half.view.born_host_bytes, half.view.store_host_bytes, half.view.body_bytes,
        half.found.real_topic.length, properties.length)
    at = reply_space_take(s.turn, to, check_bytes_max(&fields) + fields.body_bytes, &block)
    if at == NULL:
        return False
    length = write_check_header(at, &fields)
    write_real(at + length, half, properties, a)
    return reply_space_commit(s.turn, to, at, length + fields.body_bytes, block)


cdef bint next_properties(TransactionService s, const Half* half, Text* out) noexcept nogil:
    """The half message's properties with one more check counted; False: too long for a record."""
    cdef const char* name = b"TRANSACTION_CHECK_TIMES"
    cdef uint8_t* at = s.turn.scratch.after
    cdef uint32_t length = record_crc_strip(half.view.properties, half.view.properties_bytes)
    length = copy_properties_without(half.view.properties, length, &name, 1, at)
    if length > PROPERTIES_BYTES_MAX - TIMES_BYTES_MAX:
        return False
    length += append_number(at + length, name, half.times + 1)
    out[0] = text_of(at, length)
    return True


cdef CheckResult check_half(TransactionService s, const CheckRules* rules, Topic* topic,
                            Queue* queue, int64_t offset, uint64_t* bytes) noexcept nogil:
    cdef Half half
    cdef Message m
    cdef Appended a
    cdef HalfMove move
    cdef Connection* to
    cdef bint full = False
    cdef int status
    cdef CheckResult result = read_half(s, queue, offset, &half)
    if result == ASKED:
        result = is_due(s, rules, &half)
    if result != ASKED:
        return result
    to = check_table_next(&s.checks, s.turn.net, s.auth, half.found.producer_group.bytes,
                          half.found.producer_group.length, &half.found.real_topic, &full)
    if to != NULL and s.turn.net.reply_pool.in_use > s.turn.net.reply_pool.count // 2:
        to = NULL                           # the other half of its output is for answers
        full = True
    if to == NULL and full:
        return LEFT if rules.leave_full else FULL
    message_of_record(&m, &half.view)
    m.prepared_offset = 0
    if not next_properties(s, &half, &m.properties):
        return CONTROLS
    status = append_room(s.append, queue, record_bytes_max(&m, topic.name_length), 1)
    if status == OK:
        status = append_message(s.append, topic, queue, &m, &a)
    if status != OK:        # one too large for the log as it is now holds up no other
        return LEFT if status == TOO_LARGE else STUCK
    bytes[0] += a.bytes
    move.offset = offset
    move.log_offset = half.view.physical_offset
    move.to_offset = a.queue_offset
    move.to_log_offset = a.physical_offset
    move_half(s, &move)
    if to == NULL or to.closing or not ask(s, to, &half, &m.properties, &a):
        s.checks.unasked += 1
        return UNASKED
    s.checks.asked += 1
    return ASKED


# ------------------------------------------------------------------- the call

cdef void check_halves(TransactionService s, CheckHalves* x, Topic* topic, Queue* queue,
                       int64_t end) noexcept nogil:
    """Looks at half messages from x.following on; counts in x; its block gets those for control."""
    cdef int64_t passed = 0, looked = 0, pinned
    cdef uint64_t bytes = 0
    cdef CheckResult result
    cdef bint written = False
    while (x.following < end and passed < PASSED_MAX and looked < LOOKED_MAX
           and bytes < CHECK_BYTES_MAX and x.asked + x.unasked < CHECKS_MAX
           and x.block.length < 8 * CONTROLS_MAX):
        passed += 1
        if half_is_ended(&s.halves, x.following):
            x.following += 1
            continue
        looked += 1
        pinned = s.append.log.pinned_low
        result = check_half(s, &x.rules, topic, queue, x.following, &bytes)
        s.append.log.unpin(pinned)
        if result == STUCK and not written and write_and_dispatch(s.append) == OK:
            written = True                  # between two half messages, when the turn is full
            continue
        written = False
        if result == FULL or result == STUCK or result == AWAY:
            x.check_stop = (PRODUCERS_FULL if result == FULL else
                            LOG_FULL if result == STUCK else RECORDS_ON_DISK)
            return
        if result == ASKED:
            x.asked += 1
        elif result == UNASKED:
            x.unasked += 1
        elif result == CONTROLS:
            memcpy(x.block.bytes + x.block.length, &x.following, 8)
            x.block.length += 8
        x.following += 1


cdef void check_backs_run(TransactionService s, CheckHalves* x) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> HALF_TOPIC,
                                               HALF_TOPIC_BYTES)
    cdef Queue* queue = topic_queue(topic, s.append.queues, 0) if topic != NULL else NULL
    x.status = block_take(&x.block, 8 * CONTROLS_MAX)
    if x.status != OK:
        return
    x.block.length = 0
    x.following = max(x.after, s.halves.first)
    x.asked = x.unasked = 0
    x.check_stop = NOT_STOPPED
    if queue == NULL or not s.halves.started or not is_writable(&s.turn.role):
        x.check_stop = LOG_FULL
        return
    check_halves(s, x, topic, queue, min(x.end, queue.max_offset))
    if x.check_stop != RECORDS_ON_DISK:
        readahead_end(&s.checks.readahead, s.fetch.pool)
    if x.asked + x.unasked > 0 and write_and_dispatch(s.append) != OK:
        x.check_stop = LOG_FULL
