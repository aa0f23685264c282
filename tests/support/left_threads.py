"""Threads that a test leaves behind: they would go on in those after it.

    before = running()
    ...
    assert left_since(before) == []

Each is waited for, so that what is about to end is no fault. Daemons are not: peers that answer end
with their sockets. Those of an executor end with it, and wait for work until then; so do those of
anyio, whose servers (the console's) serve more than one test.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import thread as executors

from support.waiting import HANG_S


def running() -> set[threading.Thread]:
    return set(threading.enumerate())


def left_since(before: set[threading.Thread], timeout_s: float = HANG_S) -> list[str]:
    """The names of those that do not end."""
    found = [each for each in threading.enumerate() if each not in before and _counts(each)]
    end = time.monotonic() + timeout_s
    for each in found:
        each.join(max(0.0, end - time.monotonic()))
    return [each.name for each in found if each.is_alive()]


def _counts(thread: threading.Thread) -> bool:
    is_of_pool = thread in executors._threads_queues or type(thread).__module__.startswith("anyio.")
    return not thread.daemon and not is_of_pool
