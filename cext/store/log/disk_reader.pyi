from typing import final

from cext.store.log.commit_log import CommitLog

@final
class DiskReader:
    count: int
    def __new__(cls, log: CommitLog, threads: int = 2) -> DiskReader: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
