"""Message append. See message_append.pxd."""
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from cext.base.check cimport debug_check
from cext.base.checksum cimport body_crc
from cext.base.prefetch cimport prefetch
from cext.base.status cimport MALFORMED, NOT_READY, OK, RING_FULL, TOO_LARGE
from cext.flow.append.append_status cimport NOT_MASTER, SPECIAL
from cext.flow.append.appender cimport Dispatch
from cext.flow.context.role cimport is_slave
from cext.flow.context.turn_context cimport SIZE_BUCKETS, Counters
from cext.flow.tables.topic_table cimport KINDS, KIND_DELAY, KIND_FIFO, KIND_TRANSACTION
from cext.store.log.record cimport RecordFields, record_finish, record_start
from cext.store.log.record_crc cimport RECORD_CRC_BYTES, record_crc_strip, record_crc_write
from cext.wire.codes cimport TRANSACTION_TYPE_MASK
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX, write_unique_key
from cext.wire.properties cimport PROPERTY_SEPARATOR, append_property, scan_properties, tags_code
from cext.wire.property_edit cimport copy_without_reserved
from cext.wire.text cimport Text, text_copy, text_of

cdef extern from *:
    int __builtin_clz(unsigned int) noexcept nogil


cdef uint32_t add_own_properties(Appender s, uint8_t* properties, uint32_t length,
                                 SendProperties* scanned) noexcept nogil:
    """Appends the properties that the broker adds to every single send; returns the new length."""
    cdef uint8_t key[MESSAGE_ID_BYTES_MAX]
    cdef uint32_t key_bytes, at
    if length > 0 and properties[length - 1] != PROPERTY_SEPARATOR:
        properties[length] = PROPERTY_SEPARATOR
        length += 1
    if scanned.uniq_key.bytes == NULL and s.turn.options.auto_uniq_key:
        key_bytes = write_unique_key(&s.key_maker, s.turn.wall_ms, key)
        at = length
        length += append_property(properties + length, b"UNIQ_KEY", key, key_bytes)
        scanned.uniq_key = text_of(properties + at + 9, key_bytes)
    memcpy(properties + length, s.turn.options.extra_properties,
           s.turn.options.extra_properties_bytes)
    return length + s.turn.options.extra_properties_bytes


cdef inline int32_t with_checksum(const uint8_t* properties, int32_t length) noexcept nogil:
    """The length of properties with a separator, where one is missing, and the checksum."""
    return (length + RECORD_CRC_BYTES
            + (length > 0 and properties[length - 1] != PROPERTY_SEPARATOR))


cdef inline int32_t without_checksum(const uint8_t* properties, int32_t length) noexcept nogil:
    """The length of properties, and of a separator when they end with a zero: at the end of the log
    a zero could be taken for a byte that was never written (log_scan.pyx)."""
    return length + (length > 0 and properties[length - 1] == 0)


cdef int32_t scanned_bytes(Appender s, const uint8_t* properties, uint32_t length) noexcept nogil:
    length = record_crc_strip(properties, length)
    if s.turn.options.record_crc:
        return with_checksum(properties, length)
    return without_checksum(properties, length)


cdef inline int32_t close_properties(Appender s, const Message* m, uint8_t* properties,
                                     int32_t length, bint* checksum) noexcept nogil:
    """The length with room for the record's checksum, if it has one; the checksum itself is written
    later. Or TOO_LARGE."""
    cdef int32_t closed
    checksum[0] = s.turn.options.record_crc
    if checksum[0]:
        closed = with_checksum(properties, length)
        checksum[0] = closed <= PROPERTIES_BYTES_MAX or not m.stored
        if checksum[0]:
            properties[length] = PROPERTY_SEPARATOR     # the checksum, if any, overwrites it soon
            length = closed
    if not checksum[0]:
        closed = without_checksum(properties, length)
        if closed > length and (closed <= PROPERTIES_BYTES_MAX or not m.stored):
            properties[length] = PROPERTY_SEPARATOR
            length = closed
    return length if length + <int32_t> m.spare <= PROPERTIES_BYTES_MAX else TOO_LARGE


cdef inline int32_t copy_properties(const Text* given, uint8_t* to) noexcept nogil:
    """Returns the length of what is at `to` then, or less than 0, as text_copy(). What was just
    written is read only when it turned out shorter: reading it waits until the log's ring is in the
    cache."""
    cdef int32_t length
    if not given.escaped:
        length = <int32_t> record_crc_strip(given.bytes, given.length)
        memcpy(to, given.bytes, length)
        return length
    length = text_copy(given, to, given.length)
    return length if length < 0 else <int32_t> record_crc_strip(to, length)


cdef int leave_reserved_out(uint8_t* properties, int32_t* length,
                            SendProperties* scanned) noexcept nogil:
    length[0] = <int32_t> copy_without_reserved(properties, length[0], properties)
    return scan_properties(properties, length[0], scanned)


cdef inline void add_dispatch(Appender s, Topic* topic, Queue* queue, const Message* m,
                              const Appended* a) noexcept nogil:
    cdef Dispatch* d = &s.dispatches[s.dispatch_count]
    d.topic = topic
    d.queue = queue
    debug_check(s.dispatch_count < s.dispatch_max,
                b"dispatch: its list has room for what is appended", s.dispatch_count,
                s.dispatch_max)
    debug_check(s.dispatch_count == s.dispatch_first
                or s.dispatches[s.dispatch_count - 1].physical_offset
                + s.dispatches[s.dispatch_count - 1].size <= a.physical_offset,
                b"dispatch: its list is in the order of the log", s.dispatch_count,
                a.physical_offset)
    d.physical_offset = a.physical_offset
    d.size = a.bytes
    if m.own_tags_code:
        d.tags_code = m.tags_code
    elif a.properties.tags.bytes == NULL:
        d.tags_code = 0
    else:
        d.tags_code = tags_code(a.properties.tags.bytes, a.properties.tags.length)
    s.dispatch_count += 1


cdef int32_t message_kind(const Message* m, const SendProperties* p) noexcept nogil:
    if p.has_transaction or m.sys_flag & TRANSACTION_TYPE_MASK:
        return KIND_TRANSACTION
    if p.sharding_key.bytes != NULL:
        return KIND_FIFO
    if p.has_delay or p.has_timer or p.timer_out_ms.bytes != NULL:
        return KIND_DELAY
    return KINDS


cdef int append_message(Appender s, Topic* topic, Queue* queue, const Message* m,
                        Appended* out) noexcept nogil:
    return append_record(s, topic, queue, m, True, KINDS, out)


cdef int append_scanned(Appender s, Topic* topic, Queue* queue, const Message* m, int32_t kind,
                        Appended* out) noexcept nogil:
    return append_record(s, topic, queue, m, False, kind, out)


cdef inline void fill_fields(Appender s, const Topic* topic, const Queue* queue, const Message* m,
                             RecordFields* f) noexcept nogil:
    """Fills everything that stands before the properties."""
    f.queue_id = queue.queue_id
    f.flag = m.flag
    f.queue_offset = queue.next_offset
    f.physical_offset = s.log.marks.appended
    f.sys_flag = m.sys_flag
    f.born_timestamp_ms = m.born_timestamp_ms
    f.born_host = m.born_host
    f.born_host_bytes = m.born_host_bytes
    f.store_timestamp_ms = s.turn.wall_ms
    f.store_host = s.turn.options.store_host
    f.store_host_bytes = s.turn.options.store_host_bytes
    f.reconsume_times = m.reconsume_times
    f.prepared_offset = m.prepared_offset
    f.body = m.body
    f.body_bytes = m.body_bytes
    f.body_crc = body_crc(m.body, m.body_bytes)
    f.topic = topic.name
    f.topic_bytes = topic.name_length


cdef inline int append_record(Appender s, Topic* topic, Queue* queue, const Message* m,
                              bint scan, int32_t kind, Appended* out) noexcept nogil:
    cdef Counters* counters = &s.turn.counters
    cdef RecordFields fields
    cdef uint8_t* at
    cdef uint8_t* length_at
    cdef uint8_t* properties
    cdef int status = OK
    cdef int32_t length = 0
    cdef bint checksum
    if is_slave(&s.turn.role):
        return NOT_MASTER
    at = s.log.reserve(record_bytes_max(m, topic.name_length), &status)
    if at == NULL:
        return status if status != RING_FULL else NOT_READY
    fill_fields(s, topic, queue, m, &fields)
    length_at = record_start(at, &fields)
    properties = length_at + 2
    if m.properties.bytes != NULL:
        length = copy_properties(&m.properties, properties)
        if length < 0:
            return MALFORMED
    if scan and scan_properties(properties, length, &out.properties) != OK:
        return TOO_LARGE if length > PROPERTIES_BYTES_MAX else MALFORMED
    if (scan and out.properties.pop_check_point.bytes != NULL
            and leave_reserved_out(properties, &length, &out.properties) != OK):
        return MALFORMED
    if m.plain_only and (is_special(&out.properties) or m.sys_flag & TRANSACTION_TYPE_MASK):
        return SPECIAL
    if m.add_properties:
        length = add_own_properties(s, properties, length, &out.properties)
    length = close_properties(s, m, properties, length, &checksum)
    if length < 0:
        return length
    out.bytes = record_finish(at, length_at, length)
    if checksum:
        record_crc_write(at, out.bytes - RECORD_CRC_BYTES)
    out.physical_offset = fields.physical_offset
    out.queue_offset = fields.queue_offset
    add_dispatch(s, topic, queue, m, out)
    queue.next_offset += 1
    s.log.commit(out.bytes)
    prefetch(at + out.bytes, out.bytes)     # the next record is about as long
    counters.messages_in += 1
    counters.bytes_in += out.bytes
    counters.sizes[SIZE_BUCKETS - __builtin_clz(<uint32_t> out.bytes)] += 1
    topic.messages_in += 1
    topic.bytes_in += out.bytes
    if scan:
        kind = message_kind(m, &out.properties)
    if kind != KINDS:
        topic.numbers.messages[kind] += 1
        topic.numbers.bytes[kind] += out.bytes
    return OK
