"""Durable directories: their entries survive a power cut.

A file that was synced is not there after a power cut unless the directory that names it was synced
too, and that one's name in its own parent.

Example: make_directory(Path("store/config")) makes both and syncs the directories they are in. The
last one is nobody's but this user's and his group's: messages are in it.
"""

import errno
import os
from pathlib import Path

MODE = 0o750


def sync_directory(path: Path | str) -> None:
    """Makes renames, new names and removals in this directory survive a power cut; or OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = MODE) -> None:
    """Makes the directory and its parents as far as they are missing, all of it durably; or
    OSError: NotADirectoryError where a file has the name of one. A directory that is there keeps
    its mode, and parents get what the umask says."""
    if path.is_dir():
        return
    if path.exists() and not path.is_dir():  # somebody else may make it just now
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    make_directory(path.parent, 0o777)
    path.mkdir(mode, exist_ok=True)
    sync_directory(path.parent)
