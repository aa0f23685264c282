"""Waits with a time-out, by the clock of clock.py: a test that drives it ends them.

    waits.sleep(0.03)
    with lock:                                              # news = threading.Condition(lock)
        waits.wait_for(news, lambda: self._ready, 3.0)      # whether it is so
    waits.get(answers, 3.0)                                 # of a SimpleQueue; Empty: none came
    waits.get_all(answers, 5, 3.0)                          # whether so many came in that time
    waits.join(thread, 3.0)
    waits.until(lambda: not self._busy, clock.monotonic() + 3.0)    # of what nobody tells

Where nobody drives the clock each but the last is one call of the standard library (get_all one for
each), which sleeps to the end.

A user's main thread waits here, and Ctrl-C raises between any two steps that Python takes. A `with`
of a Lock or an RLock takes it and gives it back in C, with nothing between. That of a Condition,
and all that a Semaphore, an Event or a Future does, is Python: an exception in there leaves the
lock taken, and a thread that wants it, which close() joins perhaps, waits forever. So `with` has
the lock, and the Condition over it only waits and tells; what is told to whoever waits is put into
a SimpleQueue, which is C. The lock is an RLock: one that wait() has not taken again, as a Ctrl-C
came just then, is not given back in the name of the thread that has it. That is a RuntimeError,
behind a KeyboardInterrupt, and nobody hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from rmq.base import clock

T = TypeVar("T")
POLL_S = 0.002


def sleep(seconds: float) -> None:
    _has_come(time.sleep, seconds)


def wait_for(
    condition: threading.Condition, predicate: Callable[[], bool], timeout_s: float
) -> bool:
    """With the condition's lock held, by `with` of the lock itself."""
    if not clock.is_driven():
        return condition.wait_for(predicate, timeout_s)
    end = clock.monotonic() + timeout_s
    while not (is_so := predicate()) and (left := end - clock.monotonic()) > 0:
        condition.wait(clock.sleep_s(left))
    return is_so


def get(told: SimpleQueue[T], timeout_s: float) -> T:
    found: list[T] = []

    def comes(part_s: float) -> bool:
        try:
            found.append(told.get(timeout=max(part_s, 0.0)))
        except Empty:
            return False
        return True

    if not _has_come(comes, timeout_s):
        raise Empty
    return found[0]


def get_all(told: SimpleQueue[Any], count: int, timeout_s: float) -> bool:
    end = clock.monotonic() + timeout_s
    try:
        for _ in range(count):
            get(told, end - clock.monotonic())
    except Empty:
        return False
    return True


def join(thread: threading.Thread, timeout_s: float) -> None:
    def has_ended(part_s: float) -> bool:
        thread.join(part_s)
        return not thread.is_alive()

    _has_come(has_ended, timeout_s)


def until(condition: Callable[[], bool], end: float) -> bool:
    """Looks every POLL_S, until it is so or the time `end` (clock.monotonic); whether it is so."""
    while not (is_so := condition()) and clock.monotonic() < end:
        time.sleep(POLL_S)
    return is_so


def _has_come(comes: Callable[[float], object], timeout_s: float) -> bool:
    """`comes`: waits for so many seconds by the machine's clock; whether it came."""
    if not clock.is_driven():
        return bool(comes(timeout_s))
    end = clock.monotonic() + timeout_s
    while (left := end - clock.monotonic()) > 0:
        if comes(clock.sleep_s(left)):
            return True
    return bool(comes(0))
