"""Disk use: how full a file system is."""

from __future__ import annotations

import os
from pathlib import Path


def space_of(path: Path) -> os.statvfs_result:
    """Of the file system that holds it, or will: while it is missing, of the next directory above
    that is there. OSError of one that cannot be asked."""
    place = path.absolute()
    while True:
        try:
            return os.statvfs(place)
        except (FileNotFoundError, NotADirectoryError):
            if place == place.parent:
                raise
            place = place.parent


def used_part(space: os.statvfs_result) -> float:
    """0..1 of what can be used, as df says it: what is kept for root, or beyond a quota, is no part
    of it. 0 of a file system without blocks, such as /proc."""
    used = space.f_blocks - space.f_bfree
    usable = used + space.f_bavail
    return used / usable if usable > 0 else 0.0
