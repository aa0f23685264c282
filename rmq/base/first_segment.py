"""First segment: where a commit log that holds nothing yet begins.

The log of a replica begins where its master's does, whose oldest segments may be gone. The name of
the first segment says where that is; a log without segments begins at 0, where the store makes one.

Example: begin_log(directory, 3221225472, 1 << 30) makes commitlog/00000000003221225472, all zeros.
"""

import errno
import os
import re
import shutil
from pathlib import Path

from rmq.base.durable_directory import make_directory, sync_directory
from rmq.errors import ConfigError

NAME_DIGITS = 20
NAME = re.compile(rf"[0-9]{{{NAME_DIGITS}}}")


def has_segments(directory: Path) -> bool:
    return bool(_segments(directory))


def begin_log(directory: Path, start: int, segment_bytes: int) -> None:
    """A log without segments begins at `start`. ConfigError: no segment can begin there."""
    check_start(start, segment_bytes)
    if start == 0:
        return
    make_directory(directory)
    path = directory / f"{start:0{NAME_DIGITS}d}"
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    new = path.with_suffix(".new")  # an entry without its bytes would be no segment after all
    with new.open("wb") as file:
        file.truncate(segment_bytes)
        os.fsync(file.fileno())
    new.rename(path)
    sync_directory(directory)


def move_log(directory: Path, start: int, segment_bytes: int) -> None:
    """A log whose segments hold nothing begins at `start` instead. Killed on the way, it has no
    segments, or begins there. ConfigError, as begin_log(): nothing has happened."""
    check_start(start, segment_bytes)
    for path in reversed(_segments(directory)):  # what is left has no gap
        path.unlink()
        sync_directory(directory)
    begin_log(directory, start, segment_bytes)


def forget_queues(root: Path) -> None:
    """Those of a log that was here before are none of the one that begins: they would end far below
    its first message, or above it."""
    for name in ("queueEnds", "queueEnds.synced"):
        (root / name).unlink(missing_ok=True)
    shutil.rmtree(root / "consumequeue", ignore_errors=True)
    sync_directory(root)


def check_start(start: int, segment_bytes: int) -> None:
    if start < 0 or start % segment_bytes:
        raise ConfigError(
            f"mappedFileSizeCommitLog={segment_bytes}: the master's log begins at {start}, which "
            "is no start of such a file; set it as the master has it"
        )


def _segments(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(
        path for path in directory.iterdir() if NAME.fullmatch(path.name) and path.is_file()
    )
