from typing import Any

def frame_found(data: bytes, frame_max_bytes: int) -> dict[str, object]: ...
def header_parsed(data: bytes, serialize_type: int) -> dict[str, object]: ...
def header_field(data: bytes, serialize_type: int, name: bytes) -> bytes | int | None: ...
def headers_in_turn(headers: list[bytes]) -> list[tuple[dict[str, object], bool]]: ...
def same_shape_by_all_ways(data: bytes, like: bytes, fixed: bytes) -> list[bool]: ...
def send_reply(
    *,
    code: int,
    opaque: int,
    queue_id: int,
    queue_offset: int,
    serialize_type: int,
    message_ids: bytes,
    remark: bytes | None = None,
    transaction_id: bytes | None = None,
    region: bytes | None = None,
    trace_on: bool = True,
    recall_handle: bytes | None = None,
) -> bytes: ...
def pull_reply_header(
    *,
    code: int,
    opaque: int,
    serialize_type: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    suggested_broker_id: int,
    body_bytes: int,
    remark: bytes | None = None,
) -> bytes: ...
def error_reply(
    opaque: int, serialize_type: int, code: int, remark: bytes | None = None
) -> bytes: ...
def replies_read(
    data: bytes,
    frame_max_bytes: int = ...,
    heads: bool = ...,
    shapes: bool = ...,
    number: bytes | None = ...,
) -> tuple[list[dict[str, Any]], int]: ...
