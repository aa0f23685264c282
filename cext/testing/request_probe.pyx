"""Request probe: what the readers of requests find in a header, as Python values.

    send_request(header, JSON)                              {"status": 0, "topic": b"t", ..}
    signature_status(header, JSON, b"body", b"secret")      Status.OK
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.base.status cimport OK, Status, raise_status
from cext.memory.arena cimport SharedArena
from cext.wire.batch cimport BatchMessage, batch_next
from cext.wire.header cimport Header, parse_header
from cext.wire.header_shapes cimport (
    HeaderShapes,
    header_shapes_open,
    header_shapes_arena_bytes,
    parse_header_like,
)
from cext.wire.offset_commit cimport OffsetCommit, read_offset_commit
from cext.wire.pop_request cimport (
    ExtraInfo,
    PopRequest,
    pop_code,
    read_extra_info,
    read_pop_request,
)
from cext.wire.pull_request cimport PullRequest, read_pull_request
from cext.wire.send_request cimport SendRequest, read_send_request
from cext.wire.signature cimport (
    SignatureCheck,
    SigningKey,
    signature_check,
    signature_check_open,
    signing_key_set,
)
from cext.wire.subscription cimport parse_tag_subscription
from cext.wire.text cimport Text, text_of


cdef object lying_text(const Text* text):
    return (<const char*>text.bytes)[:text.length] if text.bytes != NULL else None


def send_request(bytes data not None, uint8_t serialize_type) -> dict[str, object]:
    """The request in this header: `status` and `bad_field`, or the fields; texts as they are."""
    cdef Header header
    cdef SendRequest request
    cdef int status = parse_header(<const uint8_t*>data, <uint32_t>len(data), serialize_type,
                                   &header)
    if status != Status.OK:
        return {"status": status, "bad_field": None}
    status = read_send_request(&header, &request)
    if status != Status.OK:
        return {"status": status, "bad_field": (<bytes>request.bad_field).decode()}
    return {
        "status": status,
        "producer_group": lying_text(&request.producer_group),
        "topic": lying_text(&request.topic),
        "default_topic": lying_text(&request.default_topic),
        "properties": lying_text(&request.properties),
        "born_timestamp_ms": request.born_timestamp_ms,
        "default_topic_queue_nums": request.default_topic_queue_nums,
        "queue_id": request.queue_id,
        "sys_flag": request.sys_flag,
        "flag": request.flag,
        "reconsume_times": request.reconsume_times,
        "max_reconsume_times": request.max_reconsume_times if request.has_max_reconsume_times
        else None,
        "unit_mode": bool(request.unit_mode),
        "batch": bool(request.batch),
    }


def pull_request(bytes data not None, uint8_t serialize_type) -> dict[str, object]:
    """The request in this header: `status` and `bad_field`, or the fields; texts as they are."""
    cdef Header header
    cdef PullRequest request
    cdef int status = parse_header(<const uint8_t*>data, <uint32_t>len(data), serialize_type,
                                   &header)
    if status != Status.OK:
        return {"status": status, "bad_field": None}
    status = read_pull_request(&header, &request)
    if status != Status.OK:
        return {"status": status, "bad_field": (<bytes>request.bad_field).decode()}
    return {
        "status": status,
        "consumer_group": lying_text(&request.consumer_group),
        "topic": lying_text(&request.topic),
        "subscription": lying_text(&request.subscription),
        "expression_type": lying_text(&request.expression_type),
        "proxy_client_id": lying_text(&request.proxy_client_id),
        "queue_offset": request.queue_offset,
        "commit_offset": request.commit_offset,
        "suspend_timeout_ms": request.suspend_timeout_ms,
        "sub_version": request.sub_version,
        "queue_id": request.queue_id,
        "max_messages": request.max_messages,
        "sys_flag": request.sys_flag,
        "max_message_bytes": request.max_message_bytes,
        "request_source": request.request_source,
    }


def pop_request(bytes data not None, uint8_t serialize_type) -> dict[str, object]:
    """The request in this header: `status` and `bad_field`, or the fields; texts as they are."""
    cdef Header header
    cdef PopRequest request
    cdef int status = parse_header(<const uint8_t*> data, <uint32_t> len(data), serialize_type,
                                   &header)
    if status == OK:
        request.bad_field = b""
        status = read_pop_request(&header, pop_code(&header), &request)
    if status != OK:
        return {"status": status, "bad_field": (<bytes> request.bad_field).decode()}
    return {
        "status": status,
        "code": pop_code(&header),
        "consumer_group": lying_text(&request.consumer_group),
        "topic": lying_text(&request.topic),
        "expression_type": lying_text(&request.expression_type),
        "expression": lying_text(&request.expression),
        "attempt_id": lying_text(&request.attempt_id),
        "extra_info": lying_text(&request.extra_info),
        "queue_id": request.queue_id,
        "max_messages": request.max_messages,
        "init_mode": request.init_mode,
        "order": request.order,
        "invisible_ms": request.invisible_ms,
        "poll_ms": request.poll_ms,
        "born_ms": request.born_ms,
        "offset": request.offset,
    }


def pop_extra_info(bytes text not None) -> "tuple[int, int, int, int, bytes] | None":
    cdef ExtraInfo out
    cdef Text given = text_of(<const uint8_t*> <char*> text, <uint32_t> len(text))
    if read_extra_info(&given, &out) != OK:
        return None
    return (out.start_offset, out.pop_ms, out.invisible_ms, out.revive_queue,
            lying_text(&out.broker_name))


def offset_commit(bytes header not None, int serialize_type) -> dict[str, object]:
    cdef Header parsed
    cdef OffsetCommit out
    cdef int status = parse_header(<const uint8_t*> header, <uint32_t> len(header),
                                   <uint8_t> serialize_type, &parsed)
    if status == OK:
        status = read_offset_commit(&parsed, &out)
    if status != OK:
        return {"status": status}
    return {
        "status": status,
        "consumer_group": (<const char*> out.consumer_group.bytes)[:out.consumer_group.length],
        "topic": (<const char*> out.topic.bytes)[:out.topic.length],
        "queue_id": out.queue_id,
        "offset": out.offset,
    }


def tag_subscription(bytes expression, bint escaped=False,
                     int capacity=64) -> list[int] | str | int:
    """The codes, "all", or the status."""
    cdef int32_t codes[64]
    cdef bint all_tags = False
    cdef Text text = text_of(NULL, 0)
    cdef int count
    if expression is not None:
        text = text_of(<const uint8_t*>expression, <uint32_t>len(expression))
        text.escaped = escaped
    count = parse_tag_subscription(&text, codes, min(capacity, 64), &all_tags)
    if all_tags:
        return "all"
    return [codes[i] for i in range(count)] if count >= 0 else count


def batch_messages(bytes data not None) -> list[tuple[int, bytes, bytes]] | int:
    """(flag, body, properties) of each message, or the status."""
    cdef const uint8_t* at = data
    cdef const uint8_t* end = at + len(data)
    cdef BatchMessage message
    cdef int status
    found = []
    while at < end:
        status = batch_next(&at, end, &message)
        if status != Status.OK:
            return status
        found.append((message.flag, (<const char*>message.body)[:message.body_bytes],
                      (<const char*>message.properties)[:message.properties_bytes]))
    return found


# One for all requests of the process, as a reactor has it.
cdef SignatureCheck signatures
cdef HeaderShapes shapes
cdef SharedArena memory = SharedArena(header_shapes_arena_bytes())

raise_status(signature_check_open(&signatures), "signature_check_open")
raise_status(header_shapes_open(&shapes, &memory.arena), "header_shapes_open")


def signature_status(bytes header, int serialize_type, bytes body, bytes password) -> int:
    """The status of the signature check of a request with this header."""
    cdef Header parsed
    cdef SigningKey key
    raise_status(parse_header_like(&shapes, header, <uint32_t> len(header),
                                   <uint8_t> serialize_type, &parsed), "no header")
    signing_key_set(&key, password, <uint32_t> len(password))
    return signature_check(&signatures, &key, &parsed, body, <uint32_t> len(body))
