from typing import final

from cext.load.signer import Signer

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
        signer: Signer | None = None,
        signed: list[tuple[bytes, int, int]] | None = None,
    ) -> FrameSet: ...
    def render_one(self, index: int, opaque: int, unique: int, number: int = 0) -> bytes: ...
