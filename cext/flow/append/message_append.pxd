"""Message append: one message becomes one record at the end of the log.

Used by sends and by the control thread.

The caller has checked sizes and queue. Nobody sees the record before the turn's
write_and_dispatch(): then `marks.written` decides about acks, the consume queue about consumers.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.append.appender cimport Appender
from cext.flow.tables.topic_table cimport Topic
from cext.store.log.record cimport RECORD_FIXED_BYTES_MAX, RecordView
from cext.store.queues.consume_queue cimport Queue
from cext.wire.codes cimport BORNHOST_V6_FLAG, STOREHOSTADDRESS_V6_FLAG
from cext.wire.properties cimport SendProperties
from cext.wire.text cimport Text, text_of

cdef enum:
    # What the broker adds to the properties of a single send: its own (1024), a UNIQ_KEY (66) and
    # a separator. And what it adds to any message's: the record's checksum and a separator.
    ADDED_PROPERTIES_MAX = 1024 + 66 + 1
    CHECKSUM_BYTES_MAX = 20 + 1

cdef struct Message:
    const uint8_t* body
    uint32_t body_bytes
    Text properties             # maybe escaped; unescaped into the record
    int32_t flag
    int32_t sys_flag            # as the client sent it; host bits are set here
    int32_t reconsume_times
    int64_t born_timestamp_ms
    int64_t prepared_offset
    const uint8_t* born_host    # 8 or 20 bytes
    uint32_t born_host_bytes
    bint plain_only             # answer SPECIAL for delayed, timed and half messages
    bint add_properties         # append the broker's own (MSG_REGION, TRACE_ON, CLUSTER, UNIQ_KEY)
    bint own_tags_code          # use tags_code below instead of the hash of TAGS
    int64_t tags_code
    # A copy of a message that is in the log already. If its properties leave no room for the
    # checksum (enabledAppendPropCRC was switched on later), the record is written without one.
    bint stored
    uint32_t spare              # bytes of properties to leave free for later additions

cdef struct Appended:
    int64_t physical_offset
    int64_t queue_offset
    uint32_t bytes
    SendProperties properties   # borrowed from the record

# Call append_room() (turn_room.pxd) before. OK | MALFORMED | TOO_LARGE (properties) | SPECIAL
# (append_status.pxd); the message is appended only when OK. Properties that only the broker may set
# (property_edit.pxd) are left out.
cdef int append_message(Appender s, Topic* topic, Queue* queue, const Message* m,
                        Appended* out) noexcept nogil

# The same for properties that were scanned before (scan_properties said OK): they are taken as they
# are, m.tags_code is used, nothing is added, and out.properties is left alone. `kind`: a
# MessageKind, or KINDS for a normal message. OK, or TOO_LARGE when scanned_bytes() exceeds
# PROPERTIES_BYTES_MAX.
cdef int append_scanned(Appender s, Topic* topic, Queue* queue, const Message* m, int32_t kind,
                        Appended* out) noexcept nogil

# A MessageKind, or KINDS for a normal message; the kinds are tried in RocketMQ's order.
cdef int32_t message_kind(const Message* m, const SendProperties* p) noexcept nogil

# How many bytes such properties take in the record.
cdef int32_t scanned_bytes(Appender s, const uint8_t* properties, uint32_t length) noexcept nogil

# A Message from a stored record, to be appended elsewhere; the caller changes what must differ.
cdef inline void message_of_record(Message* m, const RecordView* view) noexcept nogil:
    m.body = view.body
    m.body_bytes = view.body_bytes
    m.properties = text_of(view.properties, view.properties_bytes)
    m.flag = view.flag
    m.sys_flag = view.sys_flag & ~(BORNHOST_V6_FLAG | STOREHOSTADDRESS_V6_FLAG)
    m.reconsume_times = view.reconsume_times
    m.born_timestamp_ms = view.born_timestamp_ms
    m.prepared_offset = view.prepared_offset
    m.born_host = view.born_host
    m.born_host_bytes = view.born_host_bytes
    m.plain_only = False
    m.add_properties = False
    m.own_tags_code = False
    m.tags_code = 0
    m.stored = True
    m.spare = 0

cdef inline uint32_t record_bytes_max(const Message* m, uint32_t topic_length) noexcept nogil:
    return (RECORD_FIXED_BYTES_MAX + topic_length + m.body_bytes + m.properties.length
            + CHECKSUM_BYTES_MAX + (ADDED_PROPERTIES_MAX if m.add_properties else 0))

cdef inline bint is_special(const SendProperties* p) noexcept nogil:
    return p.has_delay or p.has_transaction or p.has_timer
