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
