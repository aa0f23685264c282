"""Durable directories: their entries survive a power cut.

A file that was synced may be missing after a power cut, unless the directory that names it was
synced, too, and likewise that directory's name in its parent.

Example: make_directory(Path("store/config")) makes both and syncs the directories they are in. Only
this user and his group may use the last one, because it holds messages.
"""

import errno
import os
from pathlib import Path

MODE = 0o750


def sync_directory(path: Path | str) -> None:
    """Syncs the directory, so that renames, new names and removals in it survive a power cut;
    OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = MODE) -> None:
    """Makes the directory and its missing parents, durably; OSError, which is NotADirectoryError if
    a file has the name of one. An existing directory keeps its mode; parents get their mode from
    the umask."""
    if path.is_dir():
        return
    if path.exists() and not path.is_dir():  # another process may make it at this moment
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    make_directory(path.parent, 0o777)
    path.mkdir(mode, exist_ok=True)
    sync_directory(path.parent)
