"""Threads: what one thread of a process does just now, as the kernel shows it.

    thread = named_thread(os.getpid(), REACTOR)     None: there is no such thread
    thread = numbered_thread(os.getpid(), native_id)
    thread.waits_for_disk                           a disk of this machine, or of another one
    thread.is_held_back                             stopped, by a debugger for example
    thread.has_run_since(before)                    it got processor time
    str(thread)                                     "waits for a disk (folio_wait_bit)"

When its process is killed, a thread in a disk call (state D) ends only when the call returns. In a
file system that is a process (FUSE) callers may sleep (state S) in request_wait_answer instead,
with the same effect (request_wait_answer() in the kernel's fs/fuse/dev.c). The kernel shows the
place where a thread waits only to processes that may trace it; to others such a thread looks like
any sleeping one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REACTOR = "rmq-reactor"  # the name of a broker's thread that serves
DISK_SLEEP, RUNS = "D", "R"
DISK_PLACES = ("request_wait_answer", "fuse_", "rpc_wait_bit_killable", "nfs")  # prefixes
_STATES = {RUNS: "runs", "S": "sleeps", DISK_SLEEP: "waits for a disk", "T": "is stopped",
           "t": "is stopped by a debugger"}  # fmt: skip


class Thread(NamedTuple):
    state: str  # a letter of /proc/PID/task/TID/stat
    place: str = ""  # where in the kernel it waits; empty: nowhere, or the kernel does not say
    cpu_ticks: int = 0  # processor time it has had so far, in the kernel's clock ticks

    @property
    def waits_for_disk(self) -> bool:
        if self.state == DISK_SLEEP:
            return True
        return self.state == "S" and self.place.startswith(DISK_PLACES)

    @property
    def is_held_back(self) -> bool:
        return self.state in ("T", "t")

    def has_run_since(self, before: Thread) -> bool:
        return self.cpu_ticks != before.cpu_ticks

    def __str__(self) -> str:
        known = DISK_SLEEP if self.waits_for_disk else self.state
        what = _STATES.get(known, f"is in state {self.state}")
        return f"{what} ({self.place})" if self.place else what


def threads_of(pid: int) -> Iterator[tuple[str, Thread]]:
    """The threads of a process, each with its name, by number; none if the process has ended."""
    try:
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda each: int(each.name))
    except OSError:
        return
    for task in tasks:
        found = _read(task)
        if found is not None:
            yield found


def named_thread(pid: int, name: str) -> Thread | None:
    """The first thread of this name (at most 15 characters)."""
    return next((thread for found, thread in threads_of(pid) if found == name), None)


def numbered_thread(pid: int, native_id: int) -> Thread | None:
    """The thread with this number in the kernel (threading.get_native_id())."""
    found = _read(Path(f"/proc/{pid}/task/{native_id}"))
    return found[1] if found is not None else None


def _read(task: Path) -> tuple[str, Thread] | None:
    """(name, thread); None: the thread has ended."""
    try:
        found, _, rest = (task / "stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = rest.split()  # from the third on, proc_pid_stat(5); 14 and 15 are the times
    thread = Thread(fields[0], _place(task), int(fields[11]) + int(fields[12]))
    return found.partition("(")[2], thread


def _place(task: Path) -> str:
    try:
        place = (task / "wchan").read_text().strip()
    except OSError:  # this process may not read it
        return ""
    return "" if place == "0" else place
