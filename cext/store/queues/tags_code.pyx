"""Tag codes of stored records. See tags_code.pxd. Any thread, no state.

Java hashes UTF-16 code units: h = 31 * h + unit with 32-bit wrap-around. A character above U+FFFF
is two units. Bytes that are no UTF-8 count as U+FFFD, as Java decodes them.
"""
from libc.string cimport memchr, memcmp

from cext.store.log.record cimport RecordView
from cext.wire.system_topics cimport SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES, is_named


cdef int64_t java_hash(const uint8_t* utf8, uint32_t length) noexcept nogil:
    cdef uint32_t h = 0
    cdef uint32_t at = 0
    cdef uint32_t code, more, i
    while at < length:
        code = utf8[at]
        at += 1
        if code < 0x80:
            h = 31 * h + code
            continue
        more = 0
        if 0xC2 <= code <= 0xDF:
            more = 1
            code &= 0x1F
        elif 0xE0 <= code <= 0xEF:
            more = 2
            code &= 0x0F
        elif 0xF0 <= code <= 0xF4:
            more = 3
            code &= 0x07
        if more == 0 or at + more > length:
            h = 31 * h + 0xFFFD
            continue
        for i in range(more):
            code = (code << 6) | (utf8[at + i] & 0x3F)
        at += more
        if code >= 0x10000:
            code -= 0x10000
            h = 31 * h + 0xD800 + (code >> 10)
            h = 31 * h + 0xDC00 + (code & 0x3FF)
        else:
            h = 31 * h + code
    return <int64_t> <int32_t> h


cdef const uint8_t* stored_property(const uint8_t* properties, uint32_t properties_bytes,
                                    const char* name, uint32_t name_bytes,
                                    uint32_t* length) noexcept nogil:
    cdef const uint8_t* at = properties
    cdef const uint8_t* end = properties + properties_bytes
    cdef const uint8_t* split
    cdef const uint8_t* stop
    cdef const uint8_t* found = NULL
    while at < end:
        stop = <const uint8_t*> memchr(at, 2, <size_t> (end - at))
        if stop == NULL:
            stop = end
        split = <const uint8_t*> memchr(at, 1, <size_t> (stop - at))
        if (split != NULL and split - at == name_bytes and stop - split > 1
                and memcmp(at, name, name_bytes) == 0):
            length[0] = <uint32_t> (stop - split - 1)
            found = split + 1
        at = stop + 1
    return found


cdef int64_t tags_code_of(const RecordView* record, const DelayLevels* levels) noexcept nogil:
    cdef uint32_t length = 0
    cdef uint32_t i
    cdef int64_t level = 0
    cdef const uint8_t* value
    if is_named(record.topic, record.topic_bytes, SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES):
        value = stored_property(record.properties, record.properties_bytes, b"DELAY", 5, &length)
        if value != NULL and 0 < length <= 9:
            for i in range(length):
                if value[i] < 48 or value[i] > 57:
                    level = 0
                    break
                level = level * 10 + (value[i] - 48)
            if level > levels.count:
                level = levels.count
            if level > 0:
                return record.store_timestamp_ms + levels.milliseconds[level - 1]
    value = stored_property(record.properties, record.properties_bytes, b"TAGS", 4, &length)
    return 0 if value == NULL else java_hash(value, length)
