"""Work: whether threads of this process, and of the servers that it has started, are at work now.

    work.servers.add(pid)       # tests wait for answers of this process
    work.under_way()            # what all threads but the calling one do
    work.is_busy()              # in a quarter of the time: whether any of them is not asleep

A thread that could run but gets no processor is at work as well (state R), because it does not wait
for a clock. A look at twenty threads costs up to a millisecond: code that looks often calls
is_busy().
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from enum import Enum

from rmq.system.threads import DISK_SLEEP, RUNS, numbered_thread

STAT_BYTES = 128  # enough: the state follows the name, which has 15 bytes at most

servers: set[int] = set()


class Work(Enum):
    NONE = "all sleep"
    PROCESSOR = "some run, or would"
    DISK = "some wait for a disk"


def under_way() -> Work:
    found = Work.NONE
    for pid, number in _others():
        thread = numbered_thread(pid, number)
        if thread is not None and thread.waits_for_disk:
            return Work.DISK
        if thread is not None and thread.state == RUNS:
            found = Work.PROCESSOR
    return found


def is_busy() -> bool:
    """Whether a thread runs or waits for a disk. Does not see threads that wait for a file system
    in user space (FUSE)."""
    return any(_state(pid, number) in (RUNS, DISK_SLEEP) for pid, number in _others())


def _others() -> Iterator[tuple[int, int]]:
    """(process, thread) of all threads but the calling one."""
    own = threading.get_native_id()
    for pid in (os.getpid(), *servers):
        try:
            numbers = os.listdir(f"/proc/{pid}/task")
        except OSError:  # the process has ended
            continue
        yield from ((pid, int(number)) for number in numbers if int(number) != own)


def _state(pid: int, number: int) -> str:
    """The letter of the thread's state; empty: the thread has ended."""
    try:
        with open(f"/proc/{pid}/task/{number}/stat", "rb", buffering=0) as file:
            text = file.read(STAT_BYTES) or b""
    except OSError:
        return ""
    return text.rpartition(b")")[2][1:2].decode()
