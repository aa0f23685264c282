"""Revive entry. See revive_entry.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcpy, memset, strlen

from cext.base.decimal cimport put_decimal
from cext.base.status cimport MALFORMED, NOT_FOUND, OK, TOO_LARGE
from cext.wire.text cimport text_copy, text_i32, text_i64, text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


# ------------------------------------------------------------------- writing

cdef uint8_t* put(uint8_t* at, const char* text, uint32_t length) noexcept nogil:
    memcpy(at, text, length)
    return at + length


cdef uint8_t* put_number(uint8_t* at, const char* before, int64_t number) noexcept nogil:
    return put_decimal(put(at, before, <uint32_t> strlen(before)), number)


cdef uint8_t* put_name(uint8_t* at, const char* before, const Text* name) noexcept nogil:
    """Writes a name between quotes; a name longer than 255 bytes is cut."""
    cdef uint32_t i
    at = put(at, before, <uint32_t> strlen(before))
    at[0] = c'"'
    at += 1
    for i in range(name.length if name.length < 255 else 255):
        if name.bytes[i] < 32 or name.bytes[i] == c'"' or name.bytes[i] == c'\\':
            at += snprintf(<char*> at, 8, b"\\u%04x", <unsigned int> name.bytes[i])
        else:
            at[0] = name.bytes[i]
            at += 1
    at[0] = c'"'
    return at + 1


cdef uint8_t* put_list(uint8_t* at, const char* before, const ReviveEntry* e) noexcept nogil:
    cdef int32_t i
    at = put(at, before, <uint32_t> strlen(before))
    for i in range(e.listed):
        if i > 0:
            at[0] = c','
            at += 1
        at = put_decimal(at, e.list[i])
    return put(at, b"]", 1)


cdef uint32_t write_check_point(uint8_t* out, const ReviveEntry* e) noexcept nogil:
    cdef uint8_t* at = put_number(out, b'{"bm":', e.done)
    at = put_name(at, b',"bn":', &e.broker_name)
    at = put_name(at, b',"c":', &e.group)
    at = put_list(at, b',"d":[', e)
    at = put_number(at, b',"it":', e.invisible_ms)
    at = put_number(at, b',"n":', e.count)
    at = put_number(at, b',"pt":', e.pop_ms)
    at = put_number(at, b',"q":', e.queue_id)
    at = put_number(at, b',"ro":0,"so":', e.start_offset)
    at = put_name(at, b',"t":', &e.topic)
    return <uint32_t> (put(at, b"}", 1) - out)


cdef uint32_t write_ack(uint8_t* out, const ReviveEntry* e) noexcept nogil:
    cdef uint8_t* at = put_number(out, b'{"ao":', e.ack_offset)
    if e.listed > 0:
        at = put_list(at, b',"aol":[', e)
    at = put_name(at, b',"bn":', &e.broker_name)
    at = put_name(at, b',"c":', &e.group)
    at = put_number(at, b',"pt":', e.pop_ms)
    at = put_number(at, b',"q":', e.queue_id)
    at = put_number(at, b',"so":', e.start_offset)
    at = put_name(at, b',"t":', &e.topic)
    return <uint32_t> (put(at, b"}", 1) - out)


# ------------------------------------------------------------------- reading

cdef struct Reader:
    const uint8_t* at
    const uint8_t* end


cdef uint8_t next_byte(Reader* r) noexcept nogil:
    """The next byte that is no blank, without taking it; 0 at the end."""
    while r.at < r.end and (r.at[0] == 32 or 9 <= r.at[0] <= 13):
        r.at += 1
    return r.at[0] if r.at < r.end else 0


cdef bint take_byte(Reader* r, uint8_t byte) noexcept nogil:
    if next_byte(r) != byte:
        return False
    r.at += 1
    return True


cdef int take_string(Reader* r, Text* out) noexcept nogil:
    """Takes a string, without its quotes; `out.bytes` is not NULL even when it is empty."""
    cdef const uint8_t* start
    cdef bint escaped = False
    if not take_byte(r, c'"'):
        return MALFORMED
    start = r.at
    while r.at < r.end and r.at[0] != c'"':
        if r.at[0] == c'\\':
            escaped = True
            r.at += 1
        r.at += 1
    if r.at >= r.end:
        return MALFORMED
    out[0] = text_of(start, <uint32_t> (r.at - start))
    out.escaped = escaped
    r.at += 1
    return OK


cdef int take_word(Reader* r, Text* out) noexcept nogil:
    """Takes a number, true, false or null."""
    cdef const uint8_t* start
    next_byte(r)
    start = r.at
    while r.at < r.end and memchr(b",]}: \t\r\n", r.at[0], 8) == NULL:
        r.at += 1
    out[0] = text_of(start, <uint32_t> (r.at - start))
    return OK if out.length > 0 else MALFORMED


cdef int take_list(Reader* r, ReviveEntry* out, bint keep) noexcept nogil:
    cdef Text word
    if not take_byte(r, c'['):
        return MALFORMED
    if take_byte(r, c']'):
        return OK
    while True:
        if take_word(r, &word) != OK:
            return MALFORMED
        if keep:
            if out.listed == LISTED_MAX:
                return TOO_LARGE
            if text_i64(&word, &out.list[out.listed]) != OK:
                return MALFORMED
            out.listed += 1
        if take_byte(r, c']'):
            return OK
        if not take_byte(r, c','):
            return MALFORMED


cdef inline bint is_key(const Text* key, const char* name, uint32_t length) noexcept nogil:
    cdef uint32_t i
    if key.length != length:
        return False
    for i in range(length):
        if key.bytes[i] != <uint8_t> name[i]:
            return False
    return True


cdef int set_text(const Text* key, const Text* value, ReviveEntry* out) noexcept nogil:
    if is_key(key, b"t", 1):
        out.topic = value[0]
    elif is_key(key, b"c", 1):
        out.group = value[0]
    elif is_key(key, b"bn", 2):
        out.broker_name = value[0]
    elif is_key(key, b"r", 1):
        out.retry = value[0]
    elif is_key(key, b"b", 1):
        out.bits = value[0]
    elif is_key(key, b"rp", 2) and text_i32(value, &out.tries) != OK:
        return MALFORMED
    return OK


cdef int set_number(const Text* key, const Text* value, ReviveEntry* out) noexcept nogil:
    cdef int64_t number
    if value.length == 4 and value.bytes[0] == c'n':
        return OK                                   # null: absent
    if text_i64(value, &number) != OK:
        return OK if value.bytes[0] == c't' or value.bytes[0] == c'f' else MALFORMED
    if is_key(key, b"so", 2):
        out.start_offset = number
    elif is_key(key, b"ao", 2):
        out.ack_offset = number
    elif is_key(key, b"pt", 2):
        out.pop_ms = number
    elif is_key(key, b"it", 2):
        out.invisible_ms = number
    elif number < -0x80000000 or number > 0x7FFFFFFF:
        return OK                                   # so it belongs to a field not known here
    elif is_key(key, b"q", 1):
        out.queue_id = <int32_t> number
    elif is_key(key, b"rq", 2):
        out.revive_queue = <int32_t> number
    elif is_key(key, b"n", 1):
        out.count = <int32_t> number
    elif is_key(key, b"bm", 2):
        out.done = <uint32_t> <int32_t> number
    return OK


cdef int take_member(Reader* r, ReviveEntry* out) noexcept nogil:
    cdef Text key, value
    cdef uint8_t first
    if take_string(r, &key) != OK or not take_byte(r, c':'):
        return MALFORMED
    first = next_byte(r)
    if first == c'"':
        if take_string(r, &value) != OK:
            return MALFORMED
        return set_text(&key, &value, out)
    if first == c'[':
        return take_list(r, out, is_key(&key, b"d", 1) or is_key(&key, b"aol", 3))
    if take_word(r, &value) != OK:
        return MALFORMED
    return set_number(&key, &value, out)


cdef int check(const ReviveEntry* e) noexcept nogil:
    """OK when the numbers used in later sums are far from the ends of an int64."""
    if (e.start_offset < 0 or e.start_offset >> 60 or e.pop_ms < 0 or e.pop_ms >> 60
            or e.invisible_ms < 0 or e.invisible_ms >> 60):
        return MALFORMED
    return OK


cdef int take_object(Reader* r, ReviveEntry* out) noexcept nogil:
    cdef int status
    memset(out, 0, sizeof(ReviveEntry))
    out.ack_offset = -1
    out.revive_queue = -1
    if not take_byte(r, c'{'):
        return MALFORMED
    if take_byte(r, c'}'):
        return OK
    while True:
        status = take_member(r, out)
        if status != OK:
            return status
        if take_byte(r, c'}'):
            return check(out)
        if not take_byte(r, c','):
            return MALFORMED


cdef int read_revive_entry(const uint8_t* at, uint32_t length, ReviveEntry* out,
                           uint32_t* used) noexcept nogil:
    cdef Reader r
    cdef int status
    r.at = at
    r.end = at + length
    status = take_object(&r, out)
    used[0] = <uint32_t> (r.at - at)
    return status


cdef int find_acks(Reader* r) noexcept nogil:
    """Moves to the first ack of a request; NOT_FOUND when there is none."""
    cdef Text key, value
    cdef uint8_t first
    if not take_byte(r, c'{'):
        return MALFORMED
    if take_byte(r, c'}'):
        return NOT_FOUND
    while True:
        if take_string(r, &key) != OK or not take_byte(r, c':'):
            return MALFORMED
        first = next_byte(r)
        if first == c'[' and is_key(&key, b"acks", 4):
            r.at += 1
            return NOT_FOUND if next_byte(r) == c']' else OK
        if (take_string(r, &value) if first == c'"' else take_word(r, &value)) != OK:
            return MALFORMED
        if take_byte(r, c'}'):
            return NOT_FOUND
        if not take_byte(r, c','):
            return MALFORMED


cdef int next_batch_ack(const uint8_t* body, uint32_t length, uint32_t* at,
                        ReviveEntry* out) noexcept nogil:
    cdef Reader r
    cdef int status
    r.at = body + at[0]
    r.end = body + length
    if at[0] == 0:
        status = find_acks(&r)
        if status != OK:
            return status
    elif take_byte(&r, c']'):
        return NOT_FOUND
    elif not take_byte(&r, c','):
        return MALFORMED
    status = take_object(&r, out)
    at[0] = <uint32_t> (r.at - body)
    return status


cdef int32_t sextet(uint8_t byte) noexcept nogil:
    if c'A' <= byte <= c'Z':
        return byte - c'A'
    if c'a' <= byte <= c'z':
        return byte - c'a' + 26
    if c'0' <= byte <= c'9':
        return byte - c'0' + 52
    if byte == c'+':
        return 62
    return 63 if byte == c'/' else -1


cdef int32_t read_bits(const Text* text, int32_t* out, int32_t capacity) noexcept nogil:
    cdef uint8_t plain[BITS_TEXT_MAX]
    cdef int32_t length, i, j, value, count = 0
    cdef uint32_t bits = 0, have = 0, done = 0
    if text.bytes == NULL or text.length > sizeof(plain):
        return MALFORMED
    length = text_copy(text, plain, sizeof(plain))      # a slash may be escaped
    for i in range(length):
        if plain[i] == c'=':
            break
        value = sextet(plain[i])
        if value < 0:
            return MALFORMED
        bits = (bits << 6 | <uint32_t> value) & 0xFFFF
        have += 6
        if have >= 8:
            have -= 8
            for j in range(8):
                if bits >> have >> j & 1:
                    if count == capacity:
                        return MALFORMED
                    out[count] = <int32_t> (8 * done + j)
                    count += 1
            done += 1
    return count if length >= 0 else MALFORMED
