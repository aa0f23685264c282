"""Recall handles. See recall_handle.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from cext.base.byteorder cimport load_u32
from cext.base.decimal cimport put_decimal
from cext.base.status cimport MALFORMED, OK
from cext.store.log.record cimport RECORD_BYTES_MIN, RecordView, record_parse
from cext.wire.base64url cimport base64url, base64url_read
from cext.wire.properties cimport scan_properties
from cext.wire.system_topics cimport RETRY_PREFIX, RETRY_PREFIX_BYTES, has_prefix
from cext.wire.text cimport Text, text_copy, text_i64, text_of

cdef enum:
    PLAIN_BYTES_MAX = 700       # 936 bytes in base64
    DIGITS_MAX = 15             # of a time
    BLANK = 32


cdef bint has_recall_handle(const SendProperties* p) noexcept nogil:
    cdef const Text* topic = &p.real_topic
    return (p.timer_out_ms.bytes != NULL and topic.bytes != NULL
            and p.uniq_key.bytes != NULL
            and not has_prefix(topic.bytes, topic.length, RETRY_PREFIX, RETRY_PREFIX_BYTES))


cdef uint32_t put(uint8_t* out, uint32_t length, const Text* text) noexcept nogil:
    memcpy(out + length, text.bytes, text.length)
    out[length + text.length] = BLANK
    return length + text.length + 1


cdef uint32_t write_recall_handle(Appender s, int64_t offset, uint8_t* out) noexcept nogil:
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
            or found.real_topic.length + s.turn.options.broker_name_bytes + found.uniq_key.length
            > PLAIN_BYTES_MAX - 32):
        return 0
    memcpy(plain, b"v1 ", 3)
    length = put(plain, length, &found.real_topic)
    name = text_of(s.turn.options.broker_name, s.turn.options.broker_name_bytes)
    length = put(plain, length, &name)
    length = <uint32_t> (put_decimal(plain + length, out_ms + 1) - plain)
    plain[length] = BLANK
    length += 1
    memcpy(plain + length, found.uniq_key.bytes, found.uniq_key.length)
    return base64url(plain, length + found.uniq_key.length, out)


cdef Text next_item(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """The text up to the next blank, or to the end; with bytes NULL when there is none."""
    cdef const uint8_t* begin = at[0]
    cdef const uint8_t* stop
    if begin == NULL:
        return text_of(NULL, 0)
    stop = <const uint8_t*> memchr(begin, BLANK, end - begin)
    at[0] = stop + 1 if stop != NULL else NULL
    return text_of(begin, <uint32_t> ((stop if stop != NULL else end) - begin))


cdef int read_recall_handle(const Text* text, RecallHandle* out) noexcept nogil:
    cdef const uint8_t* at = out.plain
    cdef int32_t length = text_copy(text, out.plain, HANDLE_READ_MAX) \
        if text.bytes != NULL else 0
    cdef Text version, time
    if length < 0:
        return MALFORMED
    length = base64url_read(out.plain, length, out.plain)
    if length < 0:
        return MALFORMED
    version = next_item(&at, out.plain + length)
    out.topic = next_item(&at, out.plain + length)
    out.broker = next_item(&at, out.plain + length)
    time = next_item(&at, out.plain + length)
    out.key = next_item(&at, out.plain + length)
    if version.length != 2 or memcmp(version.bytes, b"v1", 2) != 0 or out.key.length == 0:
        return MALFORMED
    # The texts become properties, in which these two bytes are separators.
    if (memchr(out.key.bytes, 1, out.key.length) != NULL
            or memchr(out.key.bytes, 2, out.key.length) != NULL):
        return MALFORMED
    out.deliver_ms = 0
    if (not 0 < time.length <= DIGITS_MAX or not c"0" <= time.bytes[0] <= c"9"
            or text_i64(&time, &out.deliver_ms) != OK):
        out.deliver_ms = 0
    return OK
