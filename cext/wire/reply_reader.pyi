from typing import Any

def replies_of(
    data: bytes,
    frame_max_bytes: int = ...,
    heads: bool = ...,
    shapes: bool = ...,
    number: bytes | None = ...,
) -> tuple[list[dict[str, Any]], int]: ...
