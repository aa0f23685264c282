"""Disk use: how full a file system is."""

from __future__ import annotations

import os


def used_part(space: os.statvfs_result) -> float:
    """0..1 of what can be used, as df says it: what is kept for root, or beyond a quota, is no part
    of it. 0 of a file system without blocks, such as /proc."""
    used = space.f_blocks - space.f_bfree
    usable = used + space.f_bavail
    return used / usable if usable > 0 else 0.0
