"""Encoder: rows of Arrow columns become the body of a batch send, without an object for each row.

    size i32, magic 0, crc 0, flag 0, body length i32, body, properties length i16, properties

Properties are UNIQ_KEY (a prefix of 24 characters and the row's number in hex), and TAGS and KEYS
if the row has them. Columns come as (validity or None, offsets, data, first row): the buffers of a
string or binary array with 32-bit offsets. What only some sinks need (other properties, topics and
queues for each row) is made row by row in rmq/spark/sink.

    encode_rows((bodies, tags, None), 0, 1000, 256 << 10, b"A" * 24, 0) -> (bytes of a batch, 243)
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memset

from cext.arrow.byte_buffer cimport ByteBuffer, buffer_append, buffer_free
from cext.base.byteorder cimport store_u16, store_u32
from cext.wire.limits cimport PROPERTIES_BYTES_MAX

cdef enum:
    COLUMNS = 3                     # body, tags, keys
    BUFFERS = 9
    KEY_PREFIX = 24
    ROWS_MAX = 8192                 # brokers refuse batches of many more messages

cdef struct Texts:
    const uint8_t* valid            # NULL: every row has a value
    const int32_t* offsets
    const uint8_t* data
    int64_t rows                    # for which there are offsets
    int64_t data_bytes
    int64_t valid_bytes
    int64_t first


cdef struct Value:
    const uint8_t* bytes            # NULL: the row has no value
    uint32_t length


cdef bint value_of(const Texts* texts, int64_t row, Value* out) noexcept nogil:
    """False: the column's buffers have no such row."""
    cdef int64_t at = texts.first + row
    cdef int32_t start, end
    out.bytes = NULL
    out.length = 0
    if texts.offsets == NULL:
        return True
    if at < 0 or at >= texts.rows:
        return False
    if texts.valid != NULL:
        if at >> 3 >= texts.valid_bytes:
            return False
        if not texts.valid[at >> 3] >> (at & 7) & 1:
            return True
    start = texts.offsets[at]
    end = texts.offsets[at + 1]
    if start < 0 or end < start or end > texts.data_bytes:
        return False
    out.bytes = texts.data + start
    out.length = <uint32_t> (end - start)
    return True


cdef inline bint is_plain(const Value* value) noexcept nogil:
    return (memchr(value.bytes, 1, value.length) == NULL
            and memchr(value.bytes, 2, value.length) == NULL)


cdef bint append_pair(ByteBuffer* to, const char* name, uint32_t name_bytes,
                      const Value* value) noexcept nogil:
    if value.bytes == NULL or value.length == 0:
        return True
    return (buffer_append(to, name, name_bytes) and buffer_append(to, b"\x01", 1)
            and buffer_append(to, value.bytes, value.length) and buffer_append(to, b"\x02", 1))


cdef bint append_message(ByteBuffer* to, const Value* values, const char* key,
                         uint32_t number) noexcept nogil:
    """Appends one message; False: no memory."""
    cdef uint8_t head[20]
    cdef uint8_t length[2]
    cdef uint64_t start = to.size, properties
    cdef const char* digits = b"0123456789ABCDEF"
    cdef char text[8]
    cdef int i
    for i in range(8):
        text[i] = digits[number >> (28 - 4 * i) & 15]
    memset(head, 0, sizeof(head))
    memset(length, 0, sizeof(length))
    store_u32(head + 16, values[0].length)
    if not (buffer_append(to, head, 20)
            and buffer_append(to, values[0].bytes, values[0].length)
            and buffer_append(to, length, 2)):
        return False
    properties = to.size
    if not (buffer_append(to, b"UNIQ_KEY\x01", 9) and buffer_append(to, key, KEY_PREFIX)
            and buffer_append(to, text, 8) and buffer_append(to, b"\x02", 1)
            and append_pair(to, b"TAGS", 4, &values[1])
            and append_pair(to, b"KEYS", 4, &values[2])):
        return False
    store_u16(to.bytes + properties - 2, <uint16_t> (to.size - properties))
    store_u32(to.bytes + start, <uint32_t> (to.size - start))
    return True


cdef int64_t append_rows(ByteBuffer* to, const Texts* columns, int64_t start, int64_t stop,
                         uint64_t bytes_max, const char* key, uint32_t number) noexcept nogil:
    """The row behind the last one taken; -1: a row is not a plain message, -2: no memory."""
    cdef Value values[COLUMNS]
    cdef int64_t row = start
    cdef uint64_t size
    cdef int i
    while row < stop:
        for i in range(COLUMNS):
            if not value_of(&columns[i], row, &values[i]):
                return -1
            if i > 0 and values[i].bytes != NULL and not is_plain(&values[i]):
                return -1
        if values[0].bytes == NULL or values[0].length == 0:
            return -1
        size = 22 + 42 + <uint64_t> values[0].length + values[1].length + values[2].length + 12
        if <uint64_t> values[1].length + values[2].length + 54 > PROPERTIES_BYTES_MAX:
            return -1
        if row > start and (to.size + size > bytes_max or row - start == ROWS_MAX):
            break
        if not append_message(to, values, key, number + <uint32_t> (row - start)):
            return -2
        row += 1
    return row


def encode_rows(tuple columns not None, int64_t start, int64_t stop, uint64_t bytes_max,
                bytes key not None, uint32_t first_number):
    """(body of a batch, next row): takes rows from `start`, as many as fit, but at least one.
    ValueError when a row cannot be a message of this kind."""
    cdef Py_buffer views[BUFFERS]
    cdef Texts texts[COLUMNS]
    cdef ByteBuffer out
    cdef int taken = 0, i
    cdef int64_t following
    cdef const char* key_at = key
    if len(columns) != COLUMNS or len(key) != KEY_PREFIX or columns[0] is None:
        raise ValueError("columns (body, tags, keys) and a key prefix of 24 characters")
    memset(texts, 0, sizeof(texts))
    memset(&out, 0, sizeof(out))
    try:
        for i in range(COLUMNS):
            if columns[i] is None:
                continue
            valid, offsets, data, first = columns[i]
            texts[i].first = first
            PyObject_GetBuffer(offsets, &views[taken], PyBUF_SIMPLE)
            taken += 1
            texts[i].offsets = <const int32_t*> views[taken - 1].buf
            texts[i].rows = views[taken - 1].len // 4 - 1
            PyObject_GetBuffer(data if data is not None else b"", &views[taken], PyBUF_SIMPLE)
            taken += 1
            texts[i].data = <const uint8_t*> views[taken - 1].buf
            texts[i].data_bytes = views[taken - 1].len
            if valid is not None:
                PyObject_GetBuffer(valid, &views[taken], PyBUF_SIMPLE)
                taken += 1
                texts[i].valid = <const uint8_t*> views[taken - 1].buf
                texts[i].valid_bytes = views[taken - 1].len
        with nogil:
            following = append_rows(&out, texts, start, stop, bytes_max, key_at, first_number)
        if following == -2:
            raise MemoryError("no memory for a batch")
        if following < 0:
            raise ValueError("a row that is no plain message")
        return PyBytes_FromStringAndSize(<char*> out.bytes, <Py_ssize_t> out.size), following
    finally:
        buffer_free(&out)
        for i in range(taken):
            PyBuffer_Release(&views[i])
