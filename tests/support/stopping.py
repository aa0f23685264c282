"""Stopping: stops processes with SIGSTOP, which takes effect some time after it is sent, and sends
signals to processes that may have ended by themselves."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from support.waiting import wait_until


def signal_process(pid: int, number: int) -> None:
    """Sends a signal. Does nothing if the process has ended and its parent has reaped it."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def stand_still(pid: int) -> None:
    """Stops a process; returns when none of its threads runs or is inside a system call. SIGCONT
    lets it continue."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: stands_still(pid))


def stands_still(pid: int) -> bool:
    try:
        return all(_state(stat) in "TZ" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    except OSError:  # a thread ended meanwhile
        return False


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]
