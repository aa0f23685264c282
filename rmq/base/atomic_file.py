"""Atomic file: replaces a small file so that a crash leaves the old or the new content, whole.

    write_synced(new, content)     the content is on the disk, under another name
    rename_synced(new, path)       renamed over the file; then the directory is synced, so that a
                                   power cut cannot bring the old content back
    replace(path, content)         both, through "<name>.new"

Example: replace(Path("kvConfig.json"), b"{}") goes through "kvConfig.json.new"; a leftover of that
name from a crash is overwritten by the next write and never read.

One writer per file: two at once would share the ".new". All raise OSError.
"""

import os
from pathlib import Path

from rmq.base.durable_directory import make_directory, sync_directory

PUBLIC = 0o666


def replace(path: Path, content: bytes) -> None:
    """Makes `content` the content of `path`, whose directory is made if needed."""
    make_directory(path.parent)
    new = path.with_name(path.name + ".new")
    write_synced(new, content)
    rename_synced(new, path)


def write_synced(path: Path, content: bytes, mode: int = PUBLIC) -> None:
    """Writes the file anew; its content is on the disk when this returns, but not yet its name.
    mode: who may read it, minus the umask. A mode other than PUBLIC is set exactly, also for a file
    that exists, before it gets the content."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    with open(path, "wb", opener=opener) as file:
        if mode != PUBLIC:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def rename_synced(old: Path, new: Path) -> None:
    """Renames a file within its directory; a power cut cannot undo that."""
    old.replace(new)
    sync_directory(new.parent)


def read(path: Path) -> bytes | None:
    """The content, or None when there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
