"""Threads: what one thread of a process does just now, as the kernel has it.

    thread = named_thread(os.getpid(), REACTOR)     None: there is none
    thread.waits_for_disk                           in a call that no signal ends
    str(thread)                                     "waits for a disk (folio_wait_bit)"

A thread in a disk call (state D) ends with its process when the call returns, and not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

REACTOR = "rmq-reactor"  # the name of a broker's thread that serves
DISK_SLEEP = "D"
_STATES = {"R": "runs", "S": "sleeps", DISK_SLEEP: "waits for a disk", "T": "is stopped",
           "t": "is stopped by a debugger"}  # fmt: skip


class Thread(NamedTuple):
    state: str  # a letter of /proc/PID/task/TID/stat
    place: str = ""  # where in the kernel it waits; empty: nowhere, or it is not said

    @property
    def waits_for_disk(self) -> bool:
        return self.state == DISK_SLEEP

    def __str__(self) -> str:
        what = _STATES.get(self.state, f"is in state {self.state}")
        return f"{what} ({self.place})" if self.place else what


def named_thread(pid: int, name: str) -> Thread | None:
    """The first thread of this name (at most 15 characters)."""
    try:
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda each: int(each.name))
    except OSError:
        return None
    for task in tasks:
        try:
            found, _, rest = (task / "stat").read_text().rpartition(")")
        except OSError:  # it has just ended
            continue
        if found.partition("(")[2] == name:
            return Thread(rest.split()[0], _place(task))
    return None


def _place(task: Path) -> str:
    try:
        place = (task / "wchan").read_text().strip()
    except OSError:  # not for everybody
        return ""
    return "" if place == "0" else place
