"""Makes the files below a directory be read from the disk again."""

from __future__ import annotations

import os
from pathlib import Path


def drop_page_cache(directory: Path) -> None:
    """Clean pages only, so all is synced first. A page that is mapped or in use may stay."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
