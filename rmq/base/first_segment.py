"""First segment: sets where a commit log that is still empty begins.

The log of a replica begins where its master's does, whose oldest segments may be gone. The name of
the first segment says where that is; a log without segments begins at 0, where the store makes its
first one.

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
    """Lets a log without segments begin at `start`. ConfigError: no segment can begin there."""
    check_start(start, segment_bytes)
    if start == 0:
        return
    make_directory(directory)
    path = directory / f"{start:0{NAME_DIGITS}d}"
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    new = path.with_suffix(".new")  # so that a crash leaves no segment without its bytes
    with new.open("wb") as file:
        file.truncate(segment_bytes)
        os.fsync(file.fileno())
    new.rename(path)
    sync_directory(directory)


def move_log(directory: Path, start: int, segment_bytes: int) -> None:
    """Lets a log whose segments are empty begin at `start` instead. If the process is killed
    meanwhile, the log has lost segments from its end, has none, or begins there. ConfigError as in
    begin_log(): nothing has happened."""
    check_start(start, segment_bytes)
    for path in reversed(_segments(directory)):  # backwards, so that the rest has no gap
        path.unlink()
        sync_directory(directory)
    begin_log(directory, start, segment_bytes)


def forget_queues(root: Path) -> None:
    """Removes the queues of an earlier log: they do not belong to the log that begins now, and
    would end far below its first message, or above it."""
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
