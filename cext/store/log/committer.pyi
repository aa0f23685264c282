from typing import final

from cext.store.log.commit_log import CommitLog

@final
class Committer:
    def __new__(
        cls,
        log: CommitLog,
        *,
        least_pages: int = 4,
        interval_ms: int = 200,
        thorough_ms: int = 200,
    ) -> Committer: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def hurry(self) -> None: ...
