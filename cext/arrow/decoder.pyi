from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import final

from cext.arrow.columns import Columns

class DamageMode(IntEnum):
    FAIL_FAST = 0
    PERMISSIVE = 1
    DROP = 2

@final
class Decoder:
    columns: Columns
    damaged: int
    filtered: int
    problem: tuple[int, str] | None
    def __new__(
        cls,
        columns: Columns,
        unpack: Callable[[int, bytes, int], bytes] | None = None,
        tags: Sequence[str] = (),
        mode: int = 0,
        check_crc: bool = True,
        unpacked_max: int = 64 << 20,
    ) -> Decoder: ...
    def damage(self, queue_offset: int, reason: str) -> None: ...
