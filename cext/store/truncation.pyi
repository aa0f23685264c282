from pathlib import Path
from typing import NamedTuple

class Truncation(NamedTuple):
    offset: int
    timers: tuple[int, int]
    note: bytes

def begin_truncation(
    root: str | Path, offset: int, note: bytes, timers: tuple[int, int]
) -> None: ...
def wanted_truncation(root: str | Path) -> Truncation | None: ...
def truncate_store(
    root: str | Path, commitlog: str, index: str, segment_bytes: int, cut: Truncation
) -> None: ...
def end_truncation(root: str | Path) -> None: ...
