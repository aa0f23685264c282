"""Reply reader: reads a broker's answers from a stream of bytes, for clients.

What is read, and for how long it is valid, is in reply_reader.pxd.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.base.byteorder cimport load_i16, load_i32
from cext.base.status cimport Status
from cext.wire.codes cimport FLAG_RESPONSE
from cext.wire.frame cimport FRAME_PREFIX_BYTES, SERIALIZE_BINARY, Frame, find_frame
from cext.wire.header cimport header_find
from cext.wire.header_shapes cimport SHAPES, HeaderLike, Shape, find_header_like
from cext.wire.text cimport Text, text_i64

cdef enum:
    BINARY_FIXED_BYTES = 21     # a binary header without remark and fields (header.pxd)


cdef int reply_reader_open(ReplyReader* reader) noexcept nogil:
    memset(reader, 0, sizeof(ReplyReader))
    # A client has no arena. These are 270 KB of zeros, and only pages that are used take memory.
    reader.shapes.shapes = <Shape*>calloc(SHAPES, sizeof(Shape))
    return Status.OK if reader.shapes.shapes != NULL else Status.POOL_EMPTY


cdef void reply_reader_close(ReplyReader* reader) noexcept nogil:
    free(reader.shapes.shapes)
    reader.shapes.shapes = NULL


cdef inline int take_header(ReplyReader* reader, ReplyFrame* out) noexcept nogil:
    cdef const uint8_t* at = out.frame.header
    cdef HeaderLike found
    cdef int status
    out.header.room = &reader.parsed
    if out.frame.serialize_type == SERIALIZE_BINARY:
        if out.frame.header_bytes < BINARY_FIXED_BYTES:
            return Status.MALFORMED
        out.header.code = load_i16(at)
        out.header.opaque = load_i32(at + 5)
        out.header.is_response = load_i32(at + 9) & FLAG_RESPONSE != 0
        out.header.like = NULL
        return Status.OK
    status = find_header_like(&reader.shapes, at, out.frame.header_bytes, out.frame.serialize_type,
                              &reader.parsed, &found)
    if status != Status.OK and status != Status.TOO_LARGE:
        return status
    if found.header.opaque_text.bytes == NULL:
        return Status.MALFORMED
    out.header.code = found.header.code
    out.header.opaque = found.opaque
    out.header.is_response = found.header.flag & FLAG_RESPONSE != 0
    out.header.like = found.header
    out.header.shift = found.shift
    return Status.OK


cdef int read_reply(ReplyReader* reader, const uint8_t* bytes, uint64_t available,
                    uint32_t frame_max_bytes, ReplyFrame* out) noexcept nogil:
    cdef int status = find_frame(bytes, available, frame_max_bytes, &out.frame)
    return take_header(reader, out) if status == Status.OK else status


cdef int read_reply_head(ReplyReader* reader, const uint8_t* bytes, uint64_t available,
                         uint32_t frame_max_bytes, ReplyFrame* out) noexcept nogil:
    cdef Frame* frame = &out.frame
    cdef int status = find_frame(bytes, available, frame_max_bytes, frame)
    if status == Status.NOT_READY:
        frame.needed = FRAME_PREFIX_BYTES
        if available >= FRAME_PREFIX_BYTES:
            frame.needed += frame.header_bytes
        if available < frame.needed:
            return Status.NOT_READY
        frame.header = bytes + FRAME_PREFIX_BYTES
        frame.body = frame.header + frame.header_bytes
        frame.body_bytes = frame.total_bytes - frame.needed
        frame.needed = 0
        status = Status.OK
    return take_header(reader, out) if status == Status.OK else status


cdef inline int find_value(ReplyFrame* reply, const char* name, Text* out) noexcept nogil:
    cdef const Text* text
    if reply.header.like == NULL:
        if read_reply_header(&reply.frame, reply.header.room) != Status.OK:
            return Status.MALFORMED
        reply.header.like = reply.header.room
        reply.header.shift = 0
    text = header_find(reply.header.like, name)
    if text == NULL:
        return Status.MISSING_FIELD
    out[0] = text[0]
    out.bytes += reply.header.shift
    return Status.OK


cdef int reply_number(ReplyFrame* reply, const char* name, int64_t* out) noexcept nogil:
    cdef Text text
    cdef int status = find_value(reply, name, &text)
    return text_i64(&text, out) if status == Status.OK else status


cdef int reply_bytes(ReplyFrame* reply, const char* name, const uint8_t** out,
                     uint32_t* length) noexcept nogil:
    cdef Text text
    cdef int status = find_value(reply, name, &text)
    if status != Status.OK:
        return status
    if text.escaped:
        return Status.MALFORMED
    out[0] = text.bytes
    length[0] = text.length
    return Status.OK
