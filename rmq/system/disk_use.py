"""Disk use: how full a file system is."""

from __future__ import annotations

import os
from pathlib import Path


def space_of(path: Path) -> os.statvfs_result:
    """The space of the file system that holds `path`. While `path` is missing, the next directory
    above that exists is asked. OSError when the file system cannot be asked."""
    place = path.absolute()
    while True:
        try:
            return os.statvfs(place)
        except (FileNotFoundError, NotADirectoryError):
            if place == place.parent:
                raise
            place = place.parent


def used_part(space: os.statvfs_result) -> float:
    """The used part, 0..1, of the usable space, as df shows it: space kept for root, or beyond a
    quota, is not usable. 0 for a file system without blocks, such as /proc."""
    used = space.f_blocks - space.f_bfree
    usable = used + space.f_bavail
    return used / usable if usable > 0 else 0.0
