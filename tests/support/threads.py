"""Threads of a process by the names that they have: where the kernel tells of them."""

from __future__ import annotations

import contextlib
from pathlib import Path


def thread_named(name: str, pid: int | str = "self") -> Path:
    """Its folder in /proc; there is one of this name."""
    found = []
    for each in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # that thread has just ended
            if (each / "comm").read_text().strip() == name:
                found.append(each)
    (thread,) = found
    return thread
