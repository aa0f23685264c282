"""Recall handles. See recall_handle.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from cext.base.byteorder cimport load_u32
from cext.base.status cimport OK
from cext.store.record cimport RECORD_BYTES_MIN, RecordView, record_parse
from cext.wire.base64url cimport base64url
from cext.wire.properties cimport SendProperties, scan_properties
from cext.wire.text cimport Text, text_i64, text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    PLAIN_BYTES_MAX = 700       # makes 936 in base64


cdef bint has_recall_handle(const Appended* a) noexcept nogil:
    cdef const Text* topic = &a.properties.real_topic
    return (a.properties.timer_out_ms.bytes != NULL and topic.bytes != NULL
            and a.properties.uniq_key.bytes != NULL
            and not (topic.length > 7 and memcmp(topic.bytes, b"%RETRY%", 7) == 0))


cdef uint32_t put(uint8_t* out, uint32_t length, const Text* text) noexcept nogil:
    memcpy(out + length, text.bytes, text.length)
    out[length + text.length] = 32          # a blank
    return length + text.length + 1


cdef uint32_t write_recall_handle(ShardState s, int64_t offset, uint8_t* out) noexcept nogil:
    cdef uint8_t plain[PLAIN_BYTES_MAX]
    cdef const uint8_t* at = NULL
    cdef RecordView view
    cdef SendProperties found
    cdef Text name
    cdef int64_t out_ms = 0
    cdef uint32_t length = 3
    if s.log.view(offset, RECORD_BYTES_MIN, &at) != OK:
        return 0
    if s.log.view(offset, load_u32(at), &at) != OK or record_parse(
            at, load_u32(at), offset, False, &view) != OK or scan_properties(
                view.properties, view.properties_bytes, &found) != OK:
        return 0
    if (found.timer_out_ms.bytes == NULL or found.real_topic.bytes == NULL
            or found.uniq_key.bytes == NULL or text_i64(&found.timer_out_ms, &out_ms) != OK
            or found.real_topic.length + s.options.broker_name_bytes + found.uniq_key.length
            > PLAIN_BYTES_MAX - 32):
        return 0
    memcpy(plain, b"v1 ", 3)
    length = put(plain, length, &found.real_topic)
    name = text_of(s.options.broker_name, s.options.broker_name_bytes)
    length = put(plain, length, &name)
    length += <uint32_t> snprintf(<char*> plain + length, 24, b"%lld ", <long long> (out_ms + 1))
    memcpy(plain + length, found.uniq_key.bytes, found.uniq_key.length)
    return base64url(plain, length + found.uniq_key.length, out)
