from typing import final

from cext.store.log.commit_log import CommitLog

@final
class DiskReader:
    count: int
    def __new__(cls, log: CommitLog, threads: int = 2) -> DiskReader: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def read_for_tests(
        self,
        wanted: list[tuple[int, int]],
        capacity: int,
        parse: bool = True,
        path: bytes | None = None,
        timeout_s: float = 10.0,
        unsized: bool = False,
    ) -> tuple[int, int, bytes]: ...
