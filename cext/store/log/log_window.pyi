from typing import final

from cext.store.log.commit_log import CommitLog

@final
class LogWindow:
    def __new__(cls, log: CommitLog, read_bytes: int, borrows: bool = False) -> LogWindow: ...
