from typing import Any

def record_encode(
    *,
    topic: bytes,
    body: bytes = b"",
    properties: bytes = b"",
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_timestamp_ms: int = 0,
    born_host: bytes = ...,
    store_timestamp_ms: int = 0,
    store_host: bytes = ...,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
) -> bytes: ...
def record_parse(
    data: bytes, expected_physical_offset: int = -1, check_crc: bool = True
) -> dict[str, Any]: ...
def record_crc_write(data: bytearray) -> None: ...
def record_crc_check(data: bytes) -> int: ...
def index_hash(text: bytes) -> int: ...
def record_has_key(data: bytes, kind: int, topic: bytes, key: bytes) -> bool: ...
def tags_hash(text: bytes) -> int: ...
