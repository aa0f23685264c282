"""Processes that stand still, by SIGSTOP, which takes effect later than it is sent; and signals for
those that may have ended by themselves."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from support.waiting import wait_until


def signal_process(pid: int, number: int) -> None:
    """Nothing where it has ended, and whoever is its parent has seen to it."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def stand_still(pid: int) -> None:
    """Returns when no thread of it runs, nor is inside a system call; SIGCONT lets it go on."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: stands_still(pid))


def stands_still(pid: int) -> bool:
    try:
        return all(_state(stat) in "TZ" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    except OSError:  # a thread has ended meanwhile
        return False


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]
