from typing import final

@final
class CommitLog:
    directory: str
    segment_bytes: int
    max_record_bytes: int
    rolls: int
    writes: int
    pooled: bool
    ring_locked: bool
    def __new__(
        cls,
        directory: str,
        segment_bytes: int = ...,
        ring_bytes: int = ...,
        max_record_bytes: int = ...,
        mappings: int = 16,
        pooled: bool = False,
        warm: bool = False,
        node: int = -1,
        ahead_bytes: int = 0,
    ) -> CommitLog: ...
    def load(self) -> int: ...
    def set_end(self, end: int, zero_rest: bool = True) -> int: ...
    def close(self) -> None: ...
    def forget_pages(self, since: int) -> None: ...
    def path_of(self, start: int) -> str: ...
    def spare_directory(self) -> str: ...
    def poison_cause(self) -> tuple[str, int, str, int] | None: ...
    def read_record(self, offset: int, or_fail: int = 0) -> bytes | None: ...
