"""Answers of a broker: frame boundary, code, opaque, numeric fields (reply.pxd says how).

Every length is compared with what is there before it is used: a broken broker must not break the
tool that measures it.

    >>> read_reply_of(frame)
    {'total': 120, 'code': 0, 'opaque': 10000007, 'response': True, 'body': b''}
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cext.base.byteorder cimport load_i32, load_u16, load_u32
from cext.base.status cimport Status
from cext.wire.codes cimport FLAG_RESPONSE

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    void *memmem(const void *, size_t, const void *, size_t);
    """
    void* memmem(const void* hay, size_t hay_bytes, const void* needle,
                 size_t needle_bytes) noexcept nogil

cdef enum:
    BINARY_FIXED = 21            # bytes of a binary header without remark and fields


cdef inline int number_at(const uint8_t* at, const uint8_t* end, int64_t* out) noexcept nogil:
    """Decimal with optional sign; stops at the first other byte, at most 19 digits."""
    cdef int64_t value = 0
    cdef bint negative = False
    cdef int digits = 0
    if at < end and at[0] == 45:
        negative = True
        at += 1
    while at < end and 48 <= at[0] <= 57:
        if digits == 18:
            return Status.MALFORMED
        value = value * 10 + (at[0] - 48)
        digits += 1
        at += 1
    if digits == 0:
        return Status.MALFORMED
    out[0] = -value if negative else value
    return Status.OK


cdef int json_member(const uint8_t* header, uint32_t length, const char* key, uint32_t key_bytes,
                     int64_t* out) noexcept nogil:
    """A member whose value is a bare number; key is given with quotes and colon."""
    cdef const uint8_t* end = header + length
    cdef const uint8_t* at = header
    while True:
        at = <const uint8_t*>memmem(at, end - at, key, key_bytes)
        if at == NULL:
            return Status.MISSING_FIELD
        at += key_bytes
        while at < end and at[0] == 32:
            at += 1
        if at < end and (at[0] == 45 or 48 <= at[0] <= 57):
            return number_at(at, end, out)


cdef int hinted_member(const uint8_t* header, uint32_t length, const char* key, uint32_t key_bytes,
                       uint32_t* back, int64_t* out) noexcept nogil:
    """json_member that looks first where the last answer had it, and remembers where it was."""
    cdef const uint8_t* end = header + length
    cdef const uint8_t* at
    if back[0] >= key_bytes and back[0] < length and memcmp(end - back[0], key, key_bytes) == 0:
        if number_at(end - back[0] + key_bytes, end, out) == Status.OK:
            return Status.OK
    at = <const uint8_t*>memmem(header, length, key, key_bytes)
    back[0] = <uint32_t>(end - at) if at != NULL else 0
    return json_member(header, length, key, key_bytes, out)


cdef int read_json(const uint8_t* header, uint32_t length, ReplyHints* hints,
                   Reply* out) noexcept nogil:
    cdef int64_t code = 0, opaque = 0, flag = 0
    cdef int status
    if length > 8 and memcmp(header, b'{"code":', 8) == 0:
        status = number_at(header + 8, header + length, &code)
    else:
        status = json_member(header, length, b'"code":', 7, &code)
    if status == Status.OK:
        status = hinted_member(header, length, b'"opaque":', 9, &hints.opaque_back, &opaque)
    if status == Status.OK:
        status = hinted_member(header, length, b'"flag":', 7, &hints.flag_back, &flag)
    if status != Status.OK:
        return Status.MALFORMED
    out.code = <int32_t>code
    out.opaque = <int32_t>opaque
    out.flag_response = <int32_t>(flag & FLAG_RESPONSE)
    return Status.OK


cdef int read_reply_head(const uint8_t* bytes, uint64_t available, uint32_t frame_max,
                         ReplyHints* hints, Reply* out) noexcept nogil:
    cdef uint32_t total, word
    if available < 8:
        return Status.NOT_READY
    total = load_u32(bytes)
    if total > frame_max - 4:
        return Status.TOO_LARGE
    word = load_u32(bytes + 4)
    out.header_bytes = word & 0xFFFFFF
    out.binary = <int32_t>(word >> 24)
    if total < 4 or out.header_bytes > total - 4 or out.binary > 1:
        return Status.MALFORMED
    out.total = total + 4
    if available < 8 + <uint64_t> out.header_bytes:
        return Status.NOT_READY
    out.header = bytes + 8
    out.body = bytes + 8 + out.header_bytes
    out.body_bytes = total - 4 - out.header_bytes
    if not out.binary:
        return read_json(out.header, out.header_bytes, hints, out)
    if out.header_bytes < BINARY_FIXED:
        return Status.MALFORMED
    out.code = load_u16(out.header)
    out.opaque = load_i32(out.header + 5)
    out.flag_response = load_i32(out.header + 9) & 1
    return Status.OK


cdef int read_reply(const uint8_t* bytes, uint64_t available, uint32_t frame_max,
                    ReplyHints* hints, Reply* out) noexcept nogil:
    # Not before all is here: a header is searched once.
    if available >= 8 and available - 4 < load_u32(bytes) <= frame_max - 4:
        available = 8
    return read_reply_head(bytes, available, frame_max, hints, out)


cdef int binary_number(const Reply* reply, const char* name, uint32_t name_bytes,
                       int64_t* out) noexcept nogil:
    cdef const uint8_t* at = reply.header + BINARY_FIXED - 4
    cdef const uint8_t* end = reply.header + reply.header_bytes
    cdef uint32_t remark = load_u32(reply.header + 13), key_bytes, value_bytes
    cdef const uint8_t* key
    if remark > reply.header_bytes - BINARY_FIXED:
        return Status.MALFORMED
    at += remark + 4
    while end - at >= 2:
        key_bytes = load_u16(at)
        key = at + 2
        if end - key < <int64_t>key_bytes + 4:
            return Status.MALFORMED
        value_bytes = load_u32(key + key_bytes)
        at = key + key_bytes + 4
        if end - at < <int64_t>value_bytes:
            return Status.MALFORMED
        if key_bytes == name_bytes and memcmp(key, name, name_bytes) == 0:
            return number_at(at, at + value_bytes, out)
        at += value_bytes
    return Status.MISSING_FIELD


cdef int reply_number(const Reply* reply, const char* name, uint32_t name_bytes,
                      int64_t* out) noexcept nogil:
    cdef const uint8_t* at = reply.header
    cdef const uint8_t* end = reply.header + reply.header_bytes
    if reply.binary:
        return binary_number(reply, name, name_bytes, out)
    while True:
        at = <const uint8_t*>memmem(at, end - at, name, name_bytes)
        if at == NULL:
            return Status.MISSING_FIELD
        at += name_bytes
        # Between the name and its digits stand `":"`, perhaps with blanks.
        if at < end and at[0] == 34:
            at += 1
            while at < end and (at[0] == 58 or at[0] == 32 or at[0] == 34):
                at += 1
            return number_at(at, end, out)


cdef int reply_text(const Reply* reply, const char* name, uint32_t name_bytes,
                    const uint8_t** out, uint32_t* length) noexcept nogil:
    cdef const uint8_t* at = reply.header
    cdef const uint8_t* end = reply.header + reply.header_bytes
    if reply.binary:
        return Status.MALFORMED
    at = <const uint8_t*>memmem(at, end - at, name, name_bytes)
    if at == NULL:
        return Status.MISSING_FIELD
    at += name_bytes
    if at < end and at[0] == 34:
        at += 1
    while at < end and (at[0] == 58 or at[0] == 32):
        at += 1
    if at >= end or at[0] != 34:
        return Status.MALFORMED
    out[0] = at + 1
    at += 1
    while at < end and at[0] != 34:
        if at[0] == 92:
            return Status.MALFORMED
        at += 1
    length[0] = <uint32_t>(at - out[0])
    return Status.OK if at < end else Status.MALFORMED


# ---- for tests ----

def read_reply_of(bytes data not None, frame_max=1 << 24):
    """The first frame of data; None when it is incomplete, ValueError when it is broken."""
    cdef Reply reply
    cdef ReplyHints hints = [0, 0]
    cdef const uint8_t* start = <const uint8_t*>data
    cdef int status = read_reply(start, len(data), frame_max, &hints, &reply)
    if status == Status.NOT_READY:
        return None
    if status != Status.OK:
        raise ValueError(f"status {status}")
    body_at = reply.body - start
    return {
        "total": reply.total, "code": reply.code, "opaque": reply.opaque,
        "response": bool(reply.flag_response), "body": data[body_at:body_at + reply.body_bytes],
    }


def reply_number_of(bytes data not None, bytes name not None):
    """The numeric field of the first frame of data; None when it is not there."""
    cdef Reply reply
    cdef ReplyHints hints = [0, 0]
    cdef int64_t value = 0
    cdef int status = read_reply(<const uint8_t*>data, len(data), 1 << 24, &hints, &reply)
    if status == Status.OK:
        status = reply_number(&reply, name, len(name), &value)
    if status == Status.MISSING_FIELD:
        return None
    if status != Status.OK:
        raise ValueError(f"status {status}")
    return value
