from enum import IntFlag
from typing import Any

class RecordProblem(IntFlag):
    NO_PROBLEM = 0
    AT_END = 1
    AT_BLANK = 2
    BAD_MAGIC = 3
    BAD_SIZE = 4
    BAD_LENGTHS = 5
    BAD_POSITION = 6
    BAD_BODY_CRC = 7

def encode_for_tests(
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
def parse_for_tests(
    data: bytes, expected_physical_offset: int = -1, check_crc: bool = True
) -> dict[str, Any]: ...
