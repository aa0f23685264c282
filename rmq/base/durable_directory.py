"""Durable directories: their entries survive a power cut.

A file that was synced is not there after a power cut unless the directory that names it was synced
too, and that one's name in its own parent.

Example: make_directory(Path("store/config")) makes both and syncs the directories they are in.
"""

import errno
import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Makes renames, new names and removals in this directory survive a power cut; or OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Makes the directory and its parents as far as they are missing, all of it durably; or
    OSError: NotADirectoryError where a file has the name of one."""
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)
