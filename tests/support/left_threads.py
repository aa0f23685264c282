"""Left threads: threads that a test leaves behind, which would run during later tests.

    before = running()
    ...
    assert left_since(before) == []

Each thread is waited for, since it may be about to end. Not counted are daemons, which answer at
sockets and end with them, and the threads of an executor or of anyio, which wait for work until it
ends: a server on anyio (the console's) serves more than one test.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import thread as executors

from support.waiting import HANG_S


def running() -> set[threading.Thread]:
    return set(threading.enumerate())


def left_since(before: set[threading.Thread], timeout_s: float = HANG_S) -> list[str]:
    """The names of the threads that have begun since `before` and do not end."""
    found = [each for each in threading.enumerate() if each not in before and _counts(each)]
    end = time.monotonic() + timeout_s
    for each in found:
        each.join(max(0.0, end - time.monotonic()))
    return [each.name for each in found if each.is_alive()]


def _counts(thread: threading.Thread) -> bool:
    is_of_pool = thread in executors._threads_queues or type(thread).__module__.startswith("anyio.")
    return not thread.daemon and not is_of_pool
