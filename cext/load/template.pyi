from typing import final

OPAQUE_FIRST: int
OPAQUE_LAST: int

@final
class FrameSet:
    count: int
    max_bytes: int
    messages: int
    def __new__(
        cls,
        frames: list[tuple[bytes, int, int, int, tuple[int, ...]]],
        body: bytes,
        body_unique_at: list[int],
        binary: bool = False,
        messages: int = 1,
    ) -> FrameSet: ...
    def render_one(self, index: int, opaque: int, unique: int, number: int = 0) -> bytes: ...
