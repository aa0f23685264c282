"""Keys of a record and their hashes. See index_key.pxd. Any thread, no state."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memset

from cext.wire.codes cimport TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK

cdef extern from "scan.h" nogil:
    ctypedef struct rmq_mark_cursor:
        pass
    uint32_t RMQ_NO_MARK
    void rmq_marks_start(rmq_mark_cursor* cursor, const uint8_t* bytes, uint32_t length,
                         uint32_t start, uint8_t a, uint8_t b) noexcept
    uint32_t rmq_marks_next(rmq_mark_cursor* cursor, uint8_t a, uint8_t b) noexcept
    bint rmq_hash_sixteen(const uint8_t* at, uint32_t* hash) noexcept

cdef enum:
    PROPERTY_END = 2
    SPACE = 0x20


cdef inline uint32_t hash_point(uint32_t hash, uint32_t point) noexcept nogil:
    if point < 0x10000:
        return 31 * hash + point
    point -= 0x10000
    return 31 * (31 * hash + 0xD800 + (point >> 10)) + 0xDC00 + (point & 0x3FF)


cdef inline bint is_tail(const uint8_t* at) noexcept nogil:
    return (at[0] & 0xC0) == 0x80


cdef uint32_t hash_on(uint32_t hash, const uint8_t* utf8, uint32_t length) noexcept nogil:
    cdef const uint8_t* at = utf8
    cdef const uint8_t* end = utf8 + length
    cdef uint32_t code
    while at < end:
        while end - at >= 16 and rmq_hash_sixteen(at, &hash):
            at += 16
        # Four ASCII characters at once, so that the multiplications need not wait for each other.
        while end - at >= 4 and (at[0] | at[1] | at[2] | at[3]) < 0x80:
            hash = (hash * 923521 + <uint32_t> at[0] * 29791 + <uint32_t> at[1] * 961
                    + <uint32_t> at[2] * 31 + at[3])
            at += 4
        if at == end:
            break
        code = at[0]
        if code < 0x80:
            hash = 31 * hash + code
            at += 1
        elif 0xC2 <= code <= 0xDF and end - at >= 2 and is_tail(at + 1):
            hash = hash_point(hash, (code & 0x1F) << 6 | (at[1] & 0x3F))
            at += 2
        elif (code & 0xF0) == 0xE0 and end - at >= 3 and is_tail(at + 1) and is_tail(at + 2):
            hash = hash_point(hash, (code & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F))
            at += 3
        elif (0xF0 <= code <= 0xF4 and end - at >= 4 and is_tail(at + 1) and is_tail(at + 2)
                and is_tail(at + 3)):
            hash = hash_point(hash, (code & 0x07) << 18 | (at[1] & 0x3F) << 12
                              | (at[2] & 0x3F) << 6 | (at[3] & 0x3F))
            at += 4
        else:
            hash = 31 * hash + 0xFFFD           # not UTF-8: U+FFFD, as Java decodes it
            at += 1
    return hash


cdef bint find_key_texts(const RecordView* record, KeyTexts* out) noexcept nogil:
    """One pass; of equal names the last one with a value counts, as in Java."""
    cdef const uint8_t* at = record.properties
    cdef const uint8_t* end = record.properties + record.properties_bytes
    cdef const uint8_t* split
    cdef const uint8_t* stop
    cdef ssize_t name_bytes
    cdef uint32_t value_bytes, mark
    cdef rmq_mark_cursor marks
    memset(out, 0, sizeof(KeyTexts))
    if (record.sys_flag & TRANSACTION_TYPE_MASK) == TRANSACTION_ROLLBACK_TYPE:
        return False
    rmq_marks_start(&marks, record.properties, record.properties_bytes, 0, PROPERTY_END,
                    PROPERTY_END)
    while at < end:
        mark = rmq_marks_next(&marks, PROPERTY_END, PROPERTY_END)
        stop = end if mark == RMQ_NO_MARK else record.properties + mark
        name_bytes = 0
        # The three names have 4 or 8 letters, and byte 01 follows them.
        if stop - at > 5 and at[4] == 1:
            name_bytes = 4
        elif stop - at > 9 and at[8] == 1:
            name_bytes = 8
        split = at + name_bytes
        value_bytes = <uint32_t> (stop - split - 1) if name_bytes else 0
        if name_bytes == 4 and memcmp(at, b"KEYS", 4) == 0:
            out.keys = split + 1
            out.keys_bytes = value_bytes
        elif name_bytes == 4 and memcmp(at, b"TAGS", 4) == 0:
            out.tags = split + 1
            out.tags_bytes = value_bytes
        elif name_bytes == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
            out.unique = split + 1
            out.unique_bytes = value_bytes
        at = stop + 1
    return out.unique != NULL or out.keys != NULL or out.tags != NULL


cdef const uint8_t* next_token(KeyTokens* tokens, uint32_t* length) noexcept nogil:
    cdef const uint8_t* start
    cdef const uint8_t* stop
    while tokens.at < tokens.end and tokens.at[0] == SPACE:
        tokens.at += 1
    if tokens.at >= tokens.end:
        return NULL
    start = tokens.at
    stop = <const uint8_t*> memchr(start, SPACE, <size_t> (tokens.end - start))
    if stop == NULL:
        stop = tokens.end
    length[0] = <uint32_t> (stop - start)
    tokens.at = stop
    return start


cdef inline bint equal(const uint8_t* a, uint32_t a_bytes, const uint8_t* b,
                       uint32_t b_bytes) noexcept nogil:
    return a != NULL and a_bytes == b_bytes and memcmp(a, b, a_bytes) == 0


cdef bint record_has_key(const RecordView* record, int32_t kind, const uint8_t* topic,
                         uint32_t topic_bytes, const uint8_t* key,
                         uint32_t key_bytes) noexcept nogil:
    cdef KeyTexts texts
    cdef KeyTokens tokens
    cdef const uint8_t* token
    cdef uint32_t length = 0
    if not equal(record.topic, record.topic_bytes, topic, topic_bytes):
        return False
    if not find_key_texts(record, &texts):
        return False
    if kind == TAG_KEY:
        return equal(texts.tags, texts.tags_bytes, key, key_bytes)
    if equal(texts.unique, texts.unique_bytes, key, key_bytes):
        return True
    tokens.at = texts.keys
    tokens.end = texts.keys + texts.keys_bytes
    token = next_token(&tokens, &length) if texts.keys != NULL else NULL
    while token != NULL:
        if equal(token, length, key, key_bytes):
            return True
        token = next_token(&tokens, &length)
    return False
