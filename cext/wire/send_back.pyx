"""CONSUMER_SEND_MSG_BACK (36). See send_back.pxd."""
from libc.string cimport memset

from cext.base.status cimport Status
from cext.wire.header cimport Header
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
