"""Header: a remoting command's header, scanned in place. JSON and binary give the same struct.

The format, the struct and an example are in header.pxd.

How JSON is read: a mark cursor (cext/c/scan.h) gives the places of quotes and backslashes. Between
two strings there are only colons, commas and numbers, which are read byte by byte. So in valid
JSON the next mark is always the quote that the reader has arrived at. Unknown nested values are
walked by a slower reader, and the cursor starts again at their end.

Two things are accepted beyond strict JSON: control characters inside strings, and broken escapes in
strings that nobody copies. Everything else, trailing bytes too, is MALFORMED.
"""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset, strlen

from cext.base.byteorder cimport load_i16, load_i32
from cext.base.status cimport Status
from cext.wire.codes cimport LANGUAGE_OTHER
from cext.wire.frame cimport SERIALIZE_BINARY, SERIALIZE_JSON
from cext.wire.name_table cimport (
    NameTable, name_table_add, name_table_find, name_table_find_escaped,
)
from cext.wire.text cimport Text, text_copy, text_equals, text_i32, text_of


cdef extern from "scan.h" nogil:
    ctypedef struct rmq_mark_cursor:
        const uint8_t* bytes
        uint32_t length
    uint32_t RMQ_NO_MARK
    void rmq_marks_start(rmq_mark_cursor* cursor, const uint8_t* bytes, uint32_t length,
                         uint32_t start, uint8_t a, uint8_t b) noexcept
    uint32_t rmq_read_string(rmq_mark_cursor* cursor, uint32_t at, const uint8_t** text,
                             uint32_t* text_length, bint* escaped) noexcept

cdef enum:
    DEPTH_MAX = 64                   # as rmq/format/fastjson.py; the contract tests compare them
    BINARY_FIXED_BYTES = 21     # a header with neither remark nor fields
    HEADER_BYTES_MAX = 0x1000000
    MEMBER_CODE = 0             # the order in which the names are added below
    MEMBER_FLAG = 1
    MEMBER_OPAQUE = 2
    MEMBER_VERSION = 3
    MEMBER_LANGUAGE = 4
    MEMBER_REMARK = 5
    MEMBER_EXT_FIELDS = 6
    QUOTE = 34
    BACKSLASH = 92

cdef NameTable members
cdef NameTable languages

name_table_add(&members, b"code")
name_table_add(&members, b"flag")
name_table_add(&members, b"opaque")
name_table_add(&members, b"version")
name_table_add(&members, b"language")
name_table_add(&members, b"remark")
name_table_add(&members, b"extFields")

name_table_add(&languages, b"JAVA")         # LanguageCode numbers, in order
name_table_add(&languages, b"CPP")
name_table_add(&languages, b"DOTNET")
name_table_add(&languages, b"PYTHON")
name_table_add(&languages, b"DELPHI")
name_table_add(&languages, b"ERLANG")
name_table_add(&languages, b"RUBY")
name_table_add(&languages, b"OTHER")
name_table_add(&languages, b"HTTP")
name_table_add(&languages, b"GO")
name_table_add(&languages, b"PHP")
name_table_add(&languages, b"OMS")
name_table_add(&languages, b"RUST")
name_table_add(&languages, b"NODE_JS")


# ---- JSON: what is between the strings. A place is an offset; RMQ_NO_MARK means broken JSON ----

cdef inline uint32_t skip_space(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    while at < length and bytes[at] <= 32:       # mostly false at once: clients write no blanks
        if bytes[at] != 32 and bytes[at] != 10 and bytes[at] != 13 and bytes[at] != 9:
            break
        at += 1
    return at


cdef inline uint32_t skip_colon(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    """From the end of a key to the first byte of its value, which is inside the header."""
    at = skip_space(bytes, length, at)
    if at >= length or bytes[at] != c':':
        return RMQ_NO_MARK
    at = skip_space(bytes, length, at + 1)
    return at if at < length else RMQ_NO_MARK


cdef uint32_t skip_string(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    at += 1
    while at < length and bytes[at] != QUOTE:
        at += 2 if bytes[at] == BACKSLASH else 1
    return at + 1 if at < length else RMQ_NO_MARK


cdef inline uint32_t skip_digits(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    """The place after the digits; broken when there are none."""
    cdef uint32_t first = at
    while at < length and c'0' <= bytes[at] <= c'9':
        at += 1
    return at if at > first else RMQ_NO_MARK


cdef uint32_t skip_number(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    if bytes[at] == c'-':
        at += 1
    at = skip_digits(bytes, length, at)
    if at < length and bytes[at] == c'.':
        at = skip_digits(bytes, length, at + 1)
    if at < length and (bytes[at] | 32) == c'e':
        at += 1
        if at < length and (bytes[at] == c'+' or bytes[at] == c'-'):
            at += 1
        at = skip_digits(bytes, length, at)
    return at


cdef uint32_t skip_word(const uint8_t* bytes, uint32_t length, uint32_t at, const char* word,
                        uint32_t word_length) noexcept nogil:
    if length - at >= word_length and memcmp(bytes + at, word, word_length) == 0:
        return at + word_length
    return RMQ_NO_MARK


cdef uint32_t skip_nested(const uint8_t* bytes, uint32_t length, uint32_t at,
                          int depth) noexcept nogil:
    """The place after the object or array whose bracket is at `at`."""
    cdef bint is_object = bytes[at] == c'{'
    cdef uint8_t closing = c'}' if is_object else c']'
    if depth > DEPTH_MAX:
        return RMQ_NO_MARK
    at = skip_space(bytes, length, at + 1)
    if at < length and bytes[at] == closing:
        return at + 1
    while at < length:
        if is_object:
            if bytes[at] != QUOTE:
                return RMQ_NO_MARK
            at = skip_colon(bytes, length, skip_string(bytes, length, at))
            if at >= length:
                return RMQ_NO_MARK
        at = skip_space(bytes, length, skip_value(bytes, length, at, depth))
        if at >= length:
            return RMQ_NO_MARK
        if bytes[at] == closing:
            return at + 1
        if bytes[at] != c',':
            return RMQ_NO_MARK
        at = skip_space(bytes, length, at + 1)
    return RMQ_NO_MARK


cdef uint32_t skip_value(const uint8_t* bytes, uint32_t length, uint32_t at,
                         int depth) noexcept nogil:
    """The place after any JSON value that starts at `at` (which is inside the header)."""
    cdef uint8_t first = bytes[at]
    if first == QUOTE:
        return skip_string(bytes, length, at)
    if first == c'{' or first == c'[':
        return skip_nested(bytes, length, at, depth + 1)
    if first == c't':
        return skip_word(bytes, length, at, b"true", 4)
    if first == c'f':
        return skip_word(bytes, length, at, b"false", 5)
    if first == c'n':
        return skip_word(bytes, length, at, b"null", 4)
    return skip_number(bytes, length, at)


# ---- JSON: keys and values ----

cdef uint32_t read_plain(const uint8_t* bytes, uint32_t length, uint32_t at, int depth,
                         Text* out) noexcept nogil:
    """The place after a value that is not a string. `out` is the value as written; absent for null.
    `depth` is the number of objects around it."""
    cdef uint32_t end = skip_value(bytes, length, at, depth)
    out.bytes = NULL
    out.length = 0
    out.escaped = False
    if end <= length and bytes[at] != c'n':
        out.bytes = bytes + at
        out.length = end - at
    return end


cdef inline void note_letter(Header* header, const Text* key) noexcept nogil:
    """Notes the index of a field whose key is one letter, for the V2 names."""
    cdef uint8_t plain[8]
    cdef uint8_t letter = key.bytes[0]
    if key.escaped:
        if text_copy(key, plain, sizeof(plain)) != 1:
            return
        letter = plain[0]
    if c'a' <= letter <= c'z':
        header.letters[letter - 97] = <uint8_t>header.ext_count


cdef int32_t language_number(const Text* value) noexcept nogil:
    """The number of a language given by name, as in JSON, or by number; OTHER when unknown."""
    cdef int32_t language = 0
    if value.escaped:
        return LANGUAGE_OTHER
    language = name_table_find(&languages, value.bytes, value.length)
    if language >= 0:
        return language
    if text_i32(value, &language) == Status.OK and 0 <= language < languages.count:
        return language
    return LANGUAGE_OTHER


cdef inline void forget_fields(Header* header) noexcept nogil:
    """Drops the fields read so far, because another extFields follows, or null."""
    header.too_many = False
    header.ext_count = 0
    memset(header.letters, 0, sizeof(header.letters))


cdef inline int set_member(Header* out, int member, const Text* value) noexcept nogil:
    if value.bytes == NULL:
        if member == MEMBER_EXT_FIELDS:
            forget_fields(out)
        return Status.OK
    if member == MEMBER_CODE:
        return text_i32(value, &out.code)
    if member == MEMBER_FLAG:
        return text_i32(value, &out.flag)
    if member == MEMBER_OPAQUE:
        out.opaque_text = value[0]
        return text_i32(value, &out.opaque)
    if member == MEMBER_VERSION:
        return text_i32(value, &out.version)
    if member == MEMBER_LANGUAGE:
        out.language = language_number(value)
    elif member == MEMBER_REMARK:
        out.remark = value[0]
    elif member == MEMBER_EXT_FIELDS:
        return Status.MALFORMED             # neither an object nor null
    return Status.OK


cdef inline int close_object(const uint8_t* bytes, uint32_t length, uint32_t* place,
                             bint* inside) noexcept nogil:
    """Goes on from place[0], the end of a value. OK: place[0] is now after a comma. CLOSED: the
    header has ended.

    inside: within extFields; the brace that ends them is skipped."""
    cdef uint32_t at = skip_space(bytes, length, place[0])
    if at < length and bytes[at] == c'}' and inside[0]:
        inside[0] = False
        at = skip_space(bytes, length, at + 1)
    if at >= length:
        return Status.MALFORMED
    if bytes[at] == c',':
        place[0] = skip_space(bytes, length, at + 1)
        return Status.OK
    if bytes[at] == c'}' and not inside[0] and skip_space(bytes, length, at + 1) == length:
        return Status.CLOSED
    return Status.MALFORMED


cdef inline int find_member(const Text* key) noexcept nogil:
    if key.escaped:
        return name_table_find_escaped(&members, key)
    return name_table_find(&members, key.bytes, key.length)


cdef int parse_json(const uint8_t* bytes, uint32_t length, Header* out) noexcept nogil:
    """One loop over the pairs of header and extFields, so that the cursor stays in registers."""
    cdef rmq_mark_cursor cursor
    cdef ExtField member                    # the pair being read, outside extFields
    cdef ExtField* pair = &member
    cdef bint inside = False                # within extFields
    cdef int status
    cdef uint32_t at = skip_space(bytes, length, 0)
    if at >= length or bytes[at] != c'{':
        return Status.MALFORMED
    at = skip_space(bytes, length, at + 1)
    if at < length and bytes[at] == c'}':
        return Status.OK if skip_space(bytes, length, at + 1) == length else Status.MALFORMED
    rmq_marks_start(&cursor, bytes, length, at, QUOTE, BACKSLASH)
    while at < length and bytes[at] == QUOTE:
        pair = &member
        if inside:
            if out.ext_count < EXT_FIELDS_MAX:
                pair = &out.ext[out.ext_count]
            else:
                out.too_many = True
        at = rmq_read_string(&cursor, at, &pair.key.bytes, &pair.key.length, &pair.key.escaped)
        at = skip_colon(bytes, length, at)
        if at >= length:
            return Status.MALFORMED
        if bytes[at] == QUOTE:
            at = rmq_read_string(&cursor, at, &pair.value.bytes, &pair.value.length,
                                 &pair.value.escaped)
        elif bytes[at] == c'{' and not inside and find_member(&pair.key) == MEMBER_EXT_FIELDS:
            inside = True
            forget_fields(out)
            at = skip_space(bytes, length, at + 1)
            if at < length and bytes[at] == c'}':
                status = close_object(bytes, length, &at, &inside)
                if status != Status.OK:
                    return Status.OK if status == Status.CLOSED else status
            continue
        else:
            at = read_plain(bytes, length, at, 1 + inside, &pair.value)
            if at <= length and (bytes[at - 1] == c'}' or bytes[at - 1] == c']'):
                # The value may have had quotes in it, so the cursor starts again at its end.
                rmq_marks_start(&cursor, bytes, length, at, QUOTE, BACKSLASH)
        if at >= length:
            return Status.MALFORMED
        if pair != &member:
            out.ext_count += 1
            if pair.key.length == 1 or pair.key.escaped:
                note_letter(out, &pair.key)
        elif not inside and set_member(out, find_member(&pair.key), &pair.value) != Status.OK:
            return Status.MALFORMED
        status = close_object(bytes, length, &at, &inside)
        if status != Status.OK:
            return Status.OK if status == Status.CLOSED else status
    return Status.MALFORMED


# ---- binary ----

cdef int parse_binary_fields(const uint8_t* at, const uint8_t* end, Header* out) noexcept nogil:
    cdef ExtField* field
    cdef ExtField rest                      # a field beyond EXT_FIELDS_MAX: checked, not kept
    cdef int32_t length
    while at < end:
        if out.ext_count < EXT_FIELDS_MAX:
            field = &out.ext[out.ext_count]
        else:
            out.too_many = True
            field = &rest
        if end - at < 2:
            return Status.MALFORMED
        length = load_i16(at)
        at += 2
        if length < 0 or end - at < <ptrdiff_t>length + 4:
            return Status.MALFORMED
        field.key = text_of(at, <uint32_t>length)
        at += length
        length = load_i32(at)
        at += 4
        if length < 0 or end - at < length:
            return Status.MALFORMED
        field.value = text_of(at if length > 0 else NULL, <uint32_t>length)   # empty reads as null
        at += length
        if field == &rest:
            continue
        out.ext_count += 1
        if field.key.length == 1:
            note_letter(out, &field.key)
    return Status.OK


cdef int parse_binary(const uint8_t* bytes, uint32_t length, Header* out) noexcept nogil:
    cdef const uint8_t* at = bytes + 17
    cdef const uint8_t* end = bytes + length
    cdef int32_t part
    if length < BINARY_FIXED_BYTES:
        return Status.MALFORMED
    out.code = load_i16(bytes)
    out.language = bytes[2] if bytes[2] < languages.count else <int32_t>LANGUAGE_OTHER
    out.version = load_i16(bytes + 3)
    out.opaque = load_i32(bytes + 5)
    out.flag = load_i32(bytes + 9)
    part = load_i32(bytes + 13)
    if part < 0 or end - at < <ptrdiff_t>part + 4:
        return Status.MALFORMED
    if part > 0:
        out.remark = text_of(at, <uint32_t>part)
    at += part
    part = load_i32(at)
    at += 4
    if part < 0 or end - at < part:
        return Status.MALFORMED
    return parse_binary_fields(at, at + part, out)


cdef int parse_header(const uint8_t* bytes, uint32_t length, uint8_t serialize_type,
                      Header* out) noexcept nogil:
    cdef int status = Status.MALFORMED
    memset(out, 0, sizeof(Header) - sizeof(out.ext))      # ext is last: its entries are set later
    out.serialize_type = serialize_type
    out.language = LANGUAGE_OTHER
    if length > HEADER_BYTES_MAX:
        return Status.MALFORMED
    if serialize_type == SERIALIZE_JSON:
        status = parse_json(bytes, length, out)
    elif serialize_type == SERIALIZE_BINARY:
        status = parse_binary(bytes, length, out)
    return Status.TOO_LARGE if status == Status.OK and out.too_many else status


cdef const Text* header_find(const Header* header, const char* name) noexcept nogil:
    cdef uint32_t length = <uint32_t>strlen(name)
    cdef int i
    for i in range(header.ext_count - 1, -1, -1):
        if text_equals(&header.ext[i].key, name, length):
            if header.ext[i].value.bytes == NULL:
                return NULL
            return &header.ext[i].value
    return NULL
