"""END_TRANSACTION (37). See end_transaction.pxd."""
from libc.string cimport memset

from cext.base.status cimport Status
from cext.wire.header cimport Header
from cext.wire.text cimport Text, text_equals, text_i32, text_i64, text_is_true


cdef const Text* field(const Header* header, const char* name, int length) noexcept nogil:
    """The value of the last field of this name, or NULL."""
    cdef const Text* found = NULL
    cdef int i
    for i in range(header.ext_count):
        if text_equals(&header.ext[i].key, name, length):
            found = &header.ext[i].value
    if found != NULL and found.bytes == NULL:
        return NULL
    return found


cdef int number(const Header* header, const char* name, int length, int64_t* value,
                EndTransaction* out) noexcept nogil:
    cdef const Text* text = field(header, name, length)
    out.bad_field = name
    if text == NULL:
        return Status.MISSING_FIELD
    return text_i64(text, value)


cdef int read_end_transaction(const Header* header, EndTransaction* out) noexcept nogil:
    cdef const Text* text
    cdef int status
    memset(out, 0, sizeof(EndTransaction))
    status = number(header, b"tranStateTableOffset", 20, &out.queue_offset, out)
    if status != Status.OK:
        return status
    status = number(header, b"commitLogOffset", 15, &out.log_offset, out)
    if status != Status.OK:
        return status
    out.bad_field = b"commitOrRollback"
    text = field(header, b"commitOrRollback", 16)
    if text == NULL:
        return Status.MISSING_FIELD
    if text_i32(text, &out.decision) != Status.OK:
        return Status.MALFORMED
    out.bad_field = b"producerGroup"
    text = field(header, b"producerGroup", 13)
    if text == NULL:
        return Status.MISSING_FIELD
    out.producer_group = text[0]
    text = field(header, b"topic", 5)
    if text != NULL:
        out.topic = text[0]
    text = field(header, b"fromTransactionCheck", 20)
    out.from_check = text != NULL and text_is_true(text)
    out.bad_field = NULL
    return Status.OK
