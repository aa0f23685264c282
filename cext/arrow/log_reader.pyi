from collections.abc import Callable, Collection, Sequence
from typing import final

from cext.arrow.decoder import Decoder

@final
class LogReader:
    decoder: Decoder
    position: int
    error: int
    def __new__(
        cls,
        decoder: Decoder,
        fd: int,
        segment_start: int,
        segment_bytes: int,
        start: int,
        end: int,
        decide: Callable[[str], Sequence[tuple[int, int, int]]],
        from_ms: int = 0,
        until_ms: int = 1 << 62,
    ) -> LogReader: ...
    def fill(self) -> bool: ...
    def log_end(self, persisted_ends: Collection[int] = ()) -> int: ...
    def first_stored_ms(self) -> int: ...
