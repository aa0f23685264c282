"""Threads: finds the threads of a process in /proc by their names."""

from __future__ import annotations

import contextlib
from pathlib import Path

from support.waiting import wait_until


def thread_named(name: str, pid: int | str = "self") -> Path:
    """The thread's folder in /proc. Waits until exactly one thread has this name: it may not have
    set its name yet, and earlier threads may not have ended."""
    found: list[Path] = []

    def look() -> bool:
        found.clear()
        for each in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # this thread has just ended
                if (each / "comm").read_text().strip() == name:
                    found.append(each)
        return len(found) == 1

    wait_until(look)
    return found[0]
