"""Threads of a process by the names that they have: where the kernel tells of them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from support.waiting import wait_until


def thread_named(name: str, pid: int | str = "self") -> Path:
    """Its folder in /proc. There is one of this name, once it has given it to itself, and others of
    before have ended."""
    found: list[Path] = []

    def look() -> bool:
        found.clear()
        for each in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # that thread has just ended
                if (each / "comm").read_text().strip() == name:
                    found.append(each)
        return len(found) == 1

    wait_until(look)
    return found[0]
