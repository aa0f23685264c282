def read(body: bytes) -> dict[str, object] | int: ...
def batch(body: bytes) -> list[dict[str, object]] | int: ...
def bits(text: bytes) -> list[int] | int: ...
def write(
    kind: str,
    *,
    topic: bytes,
    group: bytes,
    broker_name: bytes,
    start_offset: int,
    pop_ms: int,
    invisible_ms: int,
    queue_id: int,
    offsets: list[int],
    ack_offset: int = -1,
) -> bytes: ...
