from collections.abc import Sequence
from os import PathLike
from typing import Any

from cext.store.log.commit_log import CommitLog
from cext.store.queues.queue_store import QueueStore

DELAY_LEVELS_MS: tuple[int, ...]

def recover(
    log: CommitLog,
    queues: QueueStore,
    root: str | PathLike[str],
    clean: bool,
    delay_levels_ms: Sequence[int] = ...,
    check_crc: bool = True,
    deleted: dict[bytes, tuple[int, int]] | None = None,
) -> dict[str, Any]: ...
