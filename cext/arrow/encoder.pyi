from typing import Any

def encode_rows(
    columns: tuple[tuple[Any, Any, Any, int] | None, ...],
    start: int,
    stop: int,
    bytes_max: int,
    key: bytes,
    first_number: int,
) -> tuple[bytes, int]: ...
