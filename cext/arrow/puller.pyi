from collections.abc import Callable
from enum import IntEnum
from typing import final

from cext.arrow.decoder import Decoder

class Outcome(IntEnum):
    BATCH = 0
    END = 1
    NOTHING_THERE = 2
    OFFSET_MOVED = 3
    REFUSED = 4
    LOST = 5
    DAMAGED = 6

@final
class Puller:
    next_offset: int
    end_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    code: int
    remark: bytes
    answers: int
    bytes_received: int
    error: int
    in_step: bool
    def __new__(
        cls,
        decoder: Decoder,
        fd: int,
        request: tuple[bytes, bytes, bytes],
        first_offset: int,
        end_offset: int,
        timeout_ms: int = 120_000,
        receive_into: Callable[[memoryview], int] | None = None,
        send_all: Callable[[bytes], None] | None = None,
        sign: Callable[[int, int], bytes] | None = None,
        rest_ms: int = 1000,
    ) -> Puller: ...
    def fill(self) -> int: ...
    @property
    def moved_to(self) -> int: ...
    def seek(self, offset: int) -> None: ...
