"""CONSUMER_SEND_MSG_BACK (36). See send_back.pxd."""
from libc.string cimport memset

from cext.base.status cimport Status
from cext.wire.header cimport Header, parse_header
from cext.wire.text cimport Text, text_equals, text_i32, text_i64


cdef const Text* field(const Header* header, const char* name, int length,
                       SendBack* out) noexcept nogil:
    """The value of the last field of this name, or NULL."""
    cdef const Text* found = NULL
    cdef int i
    out.bad_field = name
    for i in range(header.ext_count):
        if text_equals(&header.ext[i].key, name, length):
            found = &header.ext[i].value
    if found != NULL and found.bytes == NULL:
        return NULL
    return found


cdef int read_send_back(const Header* header, SendBack* out) noexcept nogil:
    cdef const Text* text
    memset(out, 0, sizeof(SendBack))
    text = field(header, b"offset", 6, out)
    if text == NULL:
        return Status.MISSING_FIELD
    if text_i64(text, &out.log_offset) != Status.OK:
        return Status.MALFORMED
    text = field(header, b"delayLevel", 10, out)
    if text == NULL:
        return Status.MISSING_FIELD
    if text_i32(text, &out.delay_level) != Status.OK:
        return Status.MALFORMED
    text = field(header, b"maxReconsumeTimes", 17, out)
    out.has_max_times = text != NULL
    if text != NULL and text_i32(text, &out.max_times) != Status.OK:
        return Status.MALFORMED
    text = field(header, b"group", 5, out)
    if text == NULL:
        return Status.MISSING_FIELD
    out.group = text[0]
    text = field(header, b"originTopic", 11, out)
    if text != NULL:
        out.origin_topic = text[0]
    out.bad_field = NULL
    return Status.OK


# for tests

def send_back_of(bytes header not None, int serialize_type) -> dict[str, object]:
    cdef Header parsed
    cdef SendBack out
    cdef int status = parse_header(<const unsigned char*> <char*> header,
                                   <unsigned int> len(header), <unsigned char> serialize_type,
                                   &parsed)
    if status != Status.OK:
        return {"status": status}
    status = read_send_back(&parsed, &out)
    if status != Status.OK:
        return {"status": status, "bad_field": (<bytes> out.bad_field).decode()}
    return {
        "status": status,
        "group": (<const char*> out.group.bytes)[:out.group.length],
        "log_offset": out.log_offset,
        "delay_level": out.delay_level,
        "max_times": out.max_times if out.has_max_times else None,
    }
