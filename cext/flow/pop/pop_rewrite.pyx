"""A message of a retry topic as clients see it. See pop_rewrite.pxd."""
from libc.string cimport memcpy, strlen

from cext.base.byteorder cimport load_i32, load_i64
from cext.base.status cimport OK
from cext.store.log.record cimport (
    RecordFields,
    RecordView,
    fields_of_record,
    record_finish,
    record_parse,
    record_start,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.properties cimport PROPERTY_SEPARATOR, append_property

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef void extra_info_text(PopService s, char* out, uint32_t capacity, int64_t start_offset,
                          int64_t pop_ms, int64_t invisible_ms, int32_t revive_queue, int32_t flag,
                          const uint8_t* record) noexcept nogil:
    snprintf(out, capacity, b"%lld %lld %lld %d %d %.*s %d %lld", <long long> start_offset,
             <long long> pop_ms, <long long> invisible_ms, revive_queue, flag,
             <int> s.turn.options.broker_name_bytes, s.turn.options.broker_name,
             load_i32(record + 12),
             <long long> load_i64(record + 20))


cdef uint32_t rewrite_record(const uint8_t* at, uint32_t size, const Topic* topic,
                             const char* extra_info, uint8_t* out) noexcept nogil:
    cdef RecordView view
    cdef RecordFields fields
    cdef uint32_t info_bytes = <uint32_t> strlen(extra_info)
    cdef uint8_t* length_at
    cdef uint8_t* properties
    cdef uint32_t length
    if (record_parse(at, size, -1, False, &view) != OK
            or view.properties_bytes + info_bytes + 16 > PROPERTIES_BYTES_MAX):
        memcpy(out, at, size)
        return size
    fields = fields_of_record(&view)
    fields.topic = topic.name
    fields.topic_bytes = topic.name_length
    length_at = record_start(out, &fields)
    properties = length_at + 2
    memcpy(properties, view.properties, view.properties_bytes)
    length = view.properties_bytes
    if length > 0 and properties[length - 1] != PROPERTY_SEPARATOR:
        properties[length] = PROPERTY_SEPARATOR
        length += 1
    length += append_property(properties + length, b"POP_CK", <const uint8_t*> extra_info,
                              info_bytes)
    return record_finish(out, length_at, length)
