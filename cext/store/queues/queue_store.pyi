from os import PathLike
from typing import final

from cext.store.queues.queue_table import QueueTable

@final
class QueueStore(QueueTable):
    run_interval_ms: int
    run_log_bytes: int
    sync_interval_ms: int
    @property
    def persisted_log_offset(self) -> int: ...
    @property
    def synced_log_offset(self) -> int: ...
    def __new__(
        cls,
        directory: str | bytes | PathLike[str],
        entries_per_file: int = 300_000,
        pool_chunks: int = 65_536,
        checkpoint_path: str | bytes | PathLike[str] | None = None,
    ) -> QueueStore: ...
    def use_checkpoint(self, path: str | bytes | PathLike[str]) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def failure(self) -> str: ...
