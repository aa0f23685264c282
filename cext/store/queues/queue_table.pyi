from os import PathLike

class QueueTable:
    @property
    def directory(self) -> bytes: ...
    @property
    def entries_per_file(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    def __new__(
        cls,
        directory: str | bytes | PathLike[str],
        entries_per_file: int = 300_000,
        pool_chunks: int = 65_536,
        checkpoint_path: str | bytes | PathLike[str] | None = None,
    ) -> QueueTable: ...
    def queue_names(self) -> list[tuple[bytes, int]]: ...
