"""Replacing a small file so that a crash leaves either the old or the new content, whole.

The new content is written beside the file, synced, renamed over it, and the directory is synced, so
that after replace() returns a power cut cannot bring the old content back.

Example: replace(Path("kvConfig.json"), b"{}") goes through "kvConfig.json.new"; a leftover of that
name from a crash is overwritten by the next write and never read.

One writer per file: two at once would share the ".new".
"""

import os
from pathlib import Path

from rmq.base.durable_directory import make_directory, sync_directory


def replace(path: Path, content: bytes) -> None:
    """Makes `content` the content of `path`, whose directory is made if needed; or OSError."""
    make_directory(path.parent)
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)


def read(path: Path) -> bytes | None:
    """The content, or None when there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
