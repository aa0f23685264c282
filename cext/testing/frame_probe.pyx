"""Frame probe: frames and their headers read, and replies written, as Python values.

    parts = frame_found(data, 1 << 24)
    header_parsed(parts["header"], parts["serialize_type"])
    frames, status = replies_read(data)         as clients read them from a stream
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cext.base.status cimport Status
from cext.memory.arena cimport SharedArena
from cext.wire.frame cimport SERIALIZE_JSON, Frame, find_frame
from cext.wire.header cimport Header, header_find, parse_header
from cext.wire.header_shapes cimport (
    HeaderShapes,
    header_shapes_open,
    header_shapes_arena_bytes,
    parse_header_like,
)
from cext.wire.replies cimport (
    ERROR_REPLY_BYTES_MAX,
    PULL_REPLY_BYTES_MAX,
    PullReply,
    SendReply,
    send_reply_bytes_max,
    write_error_reply,
    write_pull_reply_header,
    write_send_reply,
)
from cext.wire.reply_reader cimport (
    ReplyFrame,
    ReplyReader,
    read_reply,
    read_reply_head,
    reply_bytes,
    reply_number,
    reply_reader_close,
    reply_reader_open,
)
from cext.wire.text cimport Text, text_copy, text_of

cdef extern from "same_shape.h" nogil:
    ctypedef bint (*rmq_same_shape_function)(const uint8_t* bytes, const uint8_t* like,
                                             const uint8_t* fixed, uint32_t length) noexcept nogil
    rmq_same_shape_function* rmq_same_shape_ways
    int rmq_same_shape_way_count


def frame_found(bytes data not None, uint32_t frame_max_bytes) -> dict[str, object]:
    """What find_frame says of these bytes: status, needed, and the parts of a whole frame."""
    cdef Frame frame
    cdef const uint8_t* start = data
    cdef int status = find_frame(start, len(data), frame_max_bytes, &frame)
    answer = {"status": status, "needed": frame.needed}
    if status == Status.OK:
        answer["total_bytes"] = frame.total_bytes
        answer["serialize_type"] = frame.serialize_type
        answer["header"] = (<const char*>frame.header)[:frame.header_bytes]
        answer["body"] = (<const char*>frame.body)[:frame.body_bytes]
    return answer


# ------------------------------------------------------------------- headers

cdef object plain_text(const Text* text):
    """None, bytes, or the status of a broken escape."""
    cdef int32_t length
    if text.bytes == NULL:
        return None
    out = bytearray(text.length)
    length = text_copy(text, <uint8_t*><char*>out, text.length)
    return bytes(out[:length]) if length >= 0 else length


cdef dict header_as_python(const Header* header, int status):
    cdef int i
    answer = {"status": status}
    if status != Status.OK:
        return answer
    answer.update(code=header.code, flag=header.flag, opaque=header.opaque, version=header.version,
                  language=header.language, remark=plain_text(&header.remark))
    answer["fields"] = [
        (plain_text(&header.ext[i].key), plain_text(&header.ext[i].value))
        for i in range(header.ext_count)
    ]
    answer["letters"] = {
        chr(97 + i): header.letters[i] - 1 for i in range(26) if header.letters[i] != 0
    }
    return answer


def header_parsed(bytes data not None, uint8_t serialize_type) -> dict[str, object]:
    """The header as Python values, with `status`; texts as bytes without escapes."""
    cdef Header header
    cdef int status = parse_header(<const uint8_t*>data, <uint32_t>len(data), serialize_type,
                                   &header)
    return header_as_python(&header, status)


def header_field(bytes data not None, uint8_t serialize_type, bytes name not None) -> object:
    """The field of this name, as header_find gives it."""
    cdef Header header
    cdef const Text* text
    cdef int status = parse_header(<const uint8_t*>data, <uint32_t>len(data), serialize_type,
                                   &header)
    if status != Status.OK:
        return None
    text = header_find(&header, name)
    return plain_text(text) if text != NULL else None


def headers_in_turn(list headers not None) -> list[tuple[dict[str, object], bool]]:
    """The headers, read with one HeaderShapes: as header_parsed gives them, and if by shape."""
    cdef HeaderShapes shapes
    cdef Header header
    cdef bytes data
    cdef int status
    cdef SharedArena memory = SharedArena(header_shapes_arena_bytes())
    answers = []
    if header_shapes_open(&shapes, &memory.arena) != Status.OK:
        raise MemoryError("no memory for shapes")
    for data in headers:
        hits = shapes.hits
        status = parse_header_like(&shapes, <const uint8_t*>data, <uint32_t>len(data),
                                   SERIALIZE_JSON, &header)
        answers.append((header_as_python(&header, status), shapes.hits > hits))
    return answers


def same_shape_by_all_ways(bytes data not None, bytes like not None,
                           bytes fixed not None) -> list[bool]:
    """Whether data is like `like`, in each of the ways that this processor can compare."""
    cdef int way
    if not len(data) == len(like) == len(fixed):
        raise ValueError("three strings of one length")
    return [bool(rmq_same_shape_ways[way](<const uint8_t*>data, <const uint8_t*>like,
                                          <const uint8_t*>fixed, <uint32_t>len(data)))
            for way in range(rmq_same_shape_way_count)]


# ------------------------------------------------------------------- replies

cdef Text text_or_none(object value):
    if value is None:
        return text_of(NULL, 0)
    return text_of(<const uint8_t*>(<bytes>value), <uint32_t>len(<bytes>value))


def send_reply(*, int code, int opaque, int queue_id, int64_t queue_offset, uint8_t serialize_type,
               bytes message_ids not None, bytes remark=None, bytes transaction_id=None,
               bytes region=None, bint trace_on=True, bytes recall_handle=None) -> bytes:
    cdef SendReply reply
    memset(&reply, 0, sizeof(reply))
    reply.code = code
    reply.opaque = opaque
    reply.queue_id = queue_id
    reply.queue_offset = queue_offset
    reply.serialize_type = serialize_type
    reply.trace_on = trace_on
    reply.remark = text_or_none(remark)
    reply.message_ids = text_or_none(message_ids)
    reply.transaction_id = text_or_none(transaction_id)
    reply.region = text_or_none(region)
    reply.recall_handle = text_or_none(recall_handle)
    out = bytearray(send_reply_bytes_max(&reply))
    cdef uint32_t written = write_send_reply(<uint8_t*><char*>out, &reply)
    return bytes(out[:written])


def pull_reply_header(*, int code, int opaque, uint8_t serialize_type, int64_t next_begin_offset,
                      int64_t min_offset, int64_t max_offset, int64_t suggested_broker_id,
                      uint32_t body_bytes, bytes remark=None) -> bytes:
    cdef PullReply reply
    cdef uint8_t out[PULL_REPLY_BYTES_MAX]
    memset(&reply, 0, sizeof(reply))
    reply.code = code
    reply.opaque = opaque
    reply.serialize_type = serialize_type
    reply.remark = text_or_none(remark)
    reply.next_begin_offset = next_begin_offset
    reply.min_offset = min_offset
    reply.max_offset = max_offset
    reply.suggested_broker_id = suggested_broker_id
    reply.body_bytes = body_bytes
    cdef uint32_t written = write_pull_reply_header(out, &reply)
    return (<const char*>out)[:written]


def error_reply(int opaque, uint8_t serialize_type, int code, bytes remark=None) -> bytes:
    cdef uint8_t out[ERROR_REPLY_BYTES_MAX]
    cdef Text text = text_or_none(remark)
    cdef uint32_t written = write_error_reply(out, opaque, serialize_type, code, &text)
    return (<const char*>out)[:written]


def replies_read(bytes data not None, uint32_t frame_max_bytes=1 << 24, bint heads=False,
                 bint shapes=True, bytes number=None) -> tuple[list[dict[str, object]], int]:
    """What one reader makes of a stream: its frames one after another, and the status that ended
    them. `heads`: each frame as soon as its header is there; `number`: a field's value or
    status."""
    cdef ReplyReader reader
    cdef ReplyFrame reply
    cdef const uint8_t* start = data
    cdef const uint8_t* text = NULL
    cdef uint64_t at = 0, length = len(data), here
    cdef uint32_t text_length = 0
    cdef int64_t value
    cdef int status = Status.OK
    memset(&reader, 0, sizeof(ReplyReader))
    if shapes and reply_reader_open(&reader) != Status.OK:
        raise MemoryError("no memory for shapes")
    replies: list[dict[str, object]] = []
    while at <= length:
        if heads:
            status = read_reply_head(&reader, start + at, length - at, frame_max_bytes, &reply)
        else:
            status = read_reply(&reader, start + at, length - at, frame_max_bytes, &reply)
        if status != Status.OK:
            break
        here = min(<uint64_t>reply.frame.body_bytes, <uint64_t>(start + length - reply.frame.body))
        answer = {
            "total": reply.frame.total_bytes, "code": reply.header.code,
            "opaque": reply.header.opaque, "response": bool(reply.header.is_response),
            "body": (<const char*>reply.frame.body)[:here],
        }
        if number is not None:
            value = 0
            answer["status"] = reply_number(&reply, number, &value)
            answer["number"] = value
            if reply_bytes(&reply, number, &text, &text_length) == Status.OK:
                answer["bytes"] = (<const char*>text)[:text_length]
        replies.append(answer)
        at += reply.frame.total_bytes
    reply_reader_close(&reader)
    return replies, status
