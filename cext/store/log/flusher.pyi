from typing import final

from cext.store.log.commit_log import CommitLog

@final
class Flusher:
    def __new__(
        cls,
        log: CommitLog,
        *,
        sync_mode: bool = False,
        interval_ms: int = 500,
        least_pages: int = 4,
        thorough_ms: int = 10000,
    ) -> Flusher: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def flush(self, timeout_s: float = 60.0) -> int: ...
