"""Acks for one pop's reply (see pop_acks.pxd).

Every number is checked: a faulty broker must not break the tool that measures it.

    >>> rows_of(b"0 1 100", b"0 1 100,103")
    [('0', 1, 100, 2, 'CQ==')]
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset

from cext.base.status cimport Status

cdef extern from *:
    """
    static const char rmq_base64_digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    """
    const char* rmq_base64_digits


cdef int take_number(const uint8_t* text, uint32_t length, uint32_t* at,
                     int64_t* out) noexcept nogil:
    """Reads at most 18 digits."""
    cdef int64_t value = 0
    cdef uint32_t first = at[0]
    while at[0] < length and c'0' <= text[at[0]] <= c'9' and at[0] - first < 18:
        value = value * 10 + (text[at[0]] - c'0')
        at[0] += 1
    out[0] = value
    return Status.OK if at[0] > first else Status.MALFORMED


cdef inline bint take_byte(const uint8_t* text, uint32_t length, uint32_t* at,
                           uint8_t byte) noexcept nogil:
    if at[0] >= length or text[at[0]] != byte:
        return False
    at[0] += 1
    return True


cdef int find_start(const AckTexts* texts, uint32_t key_at, uint32_t key_length,
                    int64_t* out) noexcept nogil:
    """The number after the same "retry queue " in startOffsetInfo."""
    cdef uint32_t at = 0
    while at + key_length < texts.starts_length:
        if memcmp(texts.starts + at, texts.offsets + key_at, key_length) == 0:
            at += key_length
            return take_number(texts.starts, texts.starts_length, &at, out)
        while at < texts.starts_length and texts.starts[at] != c';':
            at += 1
        at += 1
    return Status.MALFORMED


cdef int next_ack_row(AckTexts* texts, AckRow* out) noexcept nogil:
    cdef const uint8_t* text = texts.offsets
    cdef uint32_t length = texts.offsets_length, first = texts.at
    cdef int64_t offset = 0
    if texts.at >= length:
        return Status.NOT_FOUND
    out.retry = text[texts.at]
    texts.at += 1
    if (not c'0' <= out.retry <= c'2' or not take_byte(text, length, &texts.at, c' ')
            or take_number(text, length, &texts.at, &out.queue_id) != Status.OK
            or not take_byte(text, length, &texts.at, c' ')
            or find_start(texts, first, texts.at - first, &out.start) != Status.OK):
        return Status.MALFORMED
    out.count = out.bit_bytes = 0
    memset(out.bits, 0, sizeof(out.bits))
    while True:
        if (take_number(text, length, &texts.at, &offset) != Status.OK or offset < out.start
                or offset - out.start >= ACK_BITS_MAX):
            return Status.MALFORMED
        offset -= out.start
        out.bits[offset >> 3] |= <uint8_t>(1 << (offset & 7))
        out.bit_bytes = max(out.bit_bytes, <uint32_t>(offset >> 3) + 1)
        out.count += 1
        if texts.at >= length or take_byte(text, length, &texts.at, c';'):
            return Status.OK
        if not take_byte(text, length, &texts.at, c','):
            return Status.MALFORMED


cdef void ack_bits_text(const AckRow* row, char* out) noexcept nogil:
    cdef uint32_t i, word, at = 0
    for i in range(0, row.bit_bytes, 3):
        word = <uint32_t>row.bits[i] << 16
        if i + 1 < row.bit_bytes:
            word |= <uint32_t>row.bits[i + 1] << 8
        if i + 2 < row.bit_bytes:
            word |= row.bits[i + 2]
        out[at] = rmq_base64_digits[word >> 18 & 63]
        out[at + 1] = rmq_base64_digits[word >> 12 & 63]
        out[at + 2] = rmq_base64_digits[word >> 6 & 63] if i + 1 < row.bit_bytes else c'='
        out[at + 3] = rmq_base64_digits[word & 63] if i + 2 < row.bit_bytes else c'='
        at += 4
    out[at] = 0
