"""What is at work just now: the threads of this process and of the servers that it has started.

    work.servers.add(pid)       # tests wait for its answers
    work.under_way()            # of all threads but the calling one
    work.is_busy()              # the same in a quarter of the time: whether any is not asleep

A thread that is to run and gets no processor is at work as well (state R): it is not a clock that
it waits for, however long that takes. A look at twenty threads costs up to a millisecond: who looks
often takes is_busy().
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from enum import Enum

from rmq.system.threads import DISK_SLEEP, RUNS, numbered_thread

STAT_BYTES = 128  # the state stands behind the name, which has 15 bytes at most

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
    """It does not see who sleeps in a file system of a process (FUSE)."""
    return any(_state(pid, number) in (RUNS, DISK_SLEEP) for pid, number in _others())


def _others() -> Iterator[tuple[int, int]]:
    """(process, thread) but for the calling thread."""
    own = threading.get_native_id()
    for pid in (os.getpid(), *servers):
        try:
            numbers = os.listdir(f"/proc/{pid}/task")
        except OSError:  # it has ended
            continue
        yield from ((pid, int(number)) for number in numbers if int(number) != own)


def _state(pid: int, number: int) -> str:
    """A letter; empty: it has ended."""
    try:
        with open(f"/proc/{pid}/task/{number}/stat", "rb", buffering=0) as file:
            text = file.read(STAT_BYTES) or b""
    except OSError:
        return ""
    return text.rpartition(b")")[2][1:2].decode()
