from typing import final

from cext.store.log.commit_log import CommitLog

@final
class Indexer:
    flush_us: int
    sync_us: int
    idle_max_ms: int
    def __new__(
        cls,
        log: CommitLog,
        directory: str,
        *,
        slots: int = 5_000_000,
        entries: int = 20_000_000,
        flush_ms: int = 15_000,
        sync_ms: int = 60_000,
        idle_max_ms: int = 500,
        borrows: bool = True,
    ) -> Indexer: ...
    def open(self, trusted: bool, index_ms: int, log_end: int = -1) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def ask(
        self,
        number: int,
        topic: bytes,
        key: bytes,
        kind: int,
        hits_max: int,
        begin_ms: int,
        end_ms: int,
        body_max: int,
    ) -> bool: ...
    def answers(self) -> list[tuple[int, str, list[bytes], int, int]]: ...
    @property
    def answers_fd(self) -> int: ...
    def row(self) -> str: ...
