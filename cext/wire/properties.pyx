"""Properties: the string of name-value pairs that travels with a message and is stored with it.

Format, rules and an example are in properties.pxd, the walk over the pairs is in
property_pairs.pxd. Each name is looked up in a table whose index is the Text's place in
SendProperties, so a new property needs one line there and one here.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset, strlen

from cext.base.decimal cimport put_decimal
from cext.base.status cimport Status
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.name_table cimport NameTable, name_table_add, name_table_find
from cext.wire.property_pairs cimport PairCursor, pairs_next, pairs_start
from cext.wire.text cimport Text, text_i32, text_is_true


cdef enum:
    TAGS = 0                    # index in the table
    FIRST_THAT_MATTERS = 4      # names before it (tags, keys, ..) make no message special

cdef NameTable names                              # in the order of the Texts of SendProperties
name_table_add(&names, b"TAGS")
name_table_add(&names, b"KEYS")
name_table_add(&names, b"UNIQ_KEY")
name_table_add(&names, b"WAIT")
name_table_add(&names, b"DELAY")
name_table_add(&names, b"TRAN_MSG")
name_table_add(&names, b"PGROUP")
name_table_add(&names, b"RETRY_TOPIC")
name_table_add(&names, b"REAL_TOPIC")
name_table_add(&names, b"REAL_QID")
name_table_add(&names, b"ORIGIN_MESSAGE_ID")
name_table_add(&names, b"TIMER_DELAY_SEC")
name_table_add(&names, b"TIMER_DELAY_MS")
name_table_add(&names, b"TIMER_DELIVER_MS")
name_table_add(&names, b"TIMER_DEL_UNIQKEY")
name_table_add(&names, b"MSG_REGION")
name_table_add(&names, b"TRACE_ON")
name_table_add(&names, b"CLUSTER")
name_table_add(&names, b"POP_CK")
name_table_add(&names, b"INNER_MULTI_DISPATCH")
name_table_add(&names, b"INNER_NUM")
name_table_add(&names, b"__BORNHOST")
name_table_add(&names, b"MSG_TYPE")
name_table_add(&names, b"TIMER_OUT_MS")
name_table_add(&names, b"TIMER_ROLL_TIMES")
name_table_add(&names, b"__SHARDINGKEY")


cdef int conclude(SendProperties* out) noexcept nogil:
    if out.delay.bytes != NULL and text_i32(&out.delay, &out.delay_level) != Status.OK:
        return Status.MALFORMED
    out.has_delay = out.delay_level > 0
    out.has_transaction = text_is_true(&out.transaction)
    out.has_timer = (out.timer_delay_sec.bytes != NULL or out.timer_delay_ms.bytes != NULL
                     or out.timer_deliver_ms.bytes != NULL) and out.timer_out_ms.bytes == NULL
    out.wait_store_ok = out.wait.bytes == NULL or text_is_true(&out.wait)
    return Status.OK


cdef int scan_properties(const uint8_t* bytes, uint32_t length, SendProperties* out) noexcept nogil:
    cdef PairCursor pairs
    cdef Text name
    cdef Text value
    cdef Text* first = &out.tags
    cdef int index
    memset(out, 0, sizeof(SendProperties))
    if length > PROPERTIES_BYTES_MAX:
        return Status.TOO_LARGE
    pairs_start(&pairs, bytes, length)
    while pairs_next(&pairs, &name, &value):
        index = name_table_find(&names, name.bytes, name.length)
        if index >= 0:
            first[index] = value
    out.terminated = length == 0 or bytes[length - 1] == PROPERTY_SEPARATOR
    return conclude(out)


cdef int scan_batched(const uint8_t* bytes, uint32_t length, Text* tags, bint* special,
                      bint* reserved) noexcept nogil:
    cdef PairCursor pairs
    cdef SendProperties all
    cdef Text name
    cdef Text value
    cdef int index
    cdef int status
    tags.bytes = NULL
    special[0] = False
    if length > PROPERTIES_BYTES_MAX:
        return Status.TOO_LARGE
    pairs_start(&pairs, bytes, length)
    while pairs_next(&pairs, &name, &value):
        index = name_table_find(&names, name.bytes, name.length)
        if index == TAGS:
            tags[0] = value
        elif index >= FIRST_THAT_MATTERS:       # seldom: then all properties are read
            status = scan_properties(bytes, length, &all)
            tags[0] = all.tags
            special[0] = all.has_delay or all.has_transaction or all.has_timer
            if all.pop_check_point.bytes != NULL:
                reserved[0] = True
            return status
    return Status.OK


cdef bint find_property(const uint8_t* bytes, uint32_t length, const char* name,
                        Text* out) noexcept nogil:
    cdef PairCursor pairs
    cdef Text found
    cdef Text value
    cdef uint32_t name_length = <uint32_t>strlen(name)
    cdef bint seen = False
    if length > 0x7FFFFFFF:
        return False
    pairs_start(&pairs, bytes, length)
    while pairs_next(&pairs, &found, &value):
        if found.length == name_length and memcmp(found.bytes, name, name_length) == 0:
            out[0] = value
            seen = True
    return seen


cdef uint32_t append_named(uint8_t* out, const char* name, uint32_t name_length,
                           const uint8_t* value, uint32_t value_length) noexcept nogil:
    memcpy(out, name, name_length)
    out[name_length] = NAME_VALUE_SEPARATOR
    memcpy(out + name_length + 1, value, value_length)
    out[name_length + 1 + value_length] = PROPERTY_SEPARATOR
    return property_bytes(name_length, value_length)


cdef uint32_t append_named_number(uint8_t* out, const char* name, uint32_t name_length,
                                  int64_t value) noexcept nogil:
    cdef uint8_t digits[24]
    return append_named(out, name, name_length, digits,
                        <uint32_t> (put_decimal(digits, value) - digits))


# ---- tag codes ----

cdef inline int continuation_bytes(uint8_t lead, uint8_t* low, uint8_t* high) noexcept nogil:
    """How many bytes follow this lead byte (0: it cannot lead), and the range of the first of them.

    The ranges exclude overlong forms (E0, F0), surrogates (ED) and points above 10FFFF (F4)."""
    low[0] = 0x80
    high[0] = 0xBF
    if 0xC2 <= lead <= 0xDF:
        return 1
    if 0xE0 <= lead <= 0xEF:
        if lead == 0xE0:
            low[0] = 0xA0
        elif lead == 0xED:
            high[0] = 0x9F
        return 2
    if 0xF0 <= lead <= 0xF4:
        if lead == 0xF0:
            low[0] = 0x90
        elif lead == 0xF4:
            high[0] = 0x8F
        return 3
    return 0


cdef const uint8_t* read_point(const uint8_t* at, const uint8_t* end,
                               uint32_t* point) noexcept nogil:
    """Reads one code point and returns the place after it. A broken sequence, as far as it could
    begin a character, is one U+FFFD."""
    cdef uint8_t low
    cdef uint8_t high
    cdef uint8_t lead = at[0]
    cdef int more
    at += 1
    if lead < 0x80:
        point[0] = lead
        return at
    more = continuation_bytes(lead, &low, &high)
    point[0] = lead & (0x3F >> more)
    if more == 0:
        point[0] = 0xFFFD
    while more > 0:
        if at == end or not low <= at[0] <= high:
            point[0] = 0xFFFD
            return at
        point[0] = point[0] << 6 | (at[0] & 0x3F)
        low = 0x80
        high = 0xBF
        at += 1
        more -= 1
    return at


cdef int64_t tags_code(const uint8_t* utf8, uint32_t length) noexcept nogil:
    cdef const uint8_t* at = utf8
    cdef const uint8_t* end = utf8 + length
    cdef uint32_t code = 0
    cdef uint32_t point
    while at < end:
        if at[0] < 0x80:
            code = code * 31 + at[0]
            at += 1
            continue
        at = read_point(at, end, &point)
        if point >= 0x10000:
            code = code * 31 + (0xD800 + ((point - 0x10000) >> 10))
            point = 0xDC00 + ((point - 0x10000) & 0x3FF)
        code = code * 31 + point
    return <int32_t>code
