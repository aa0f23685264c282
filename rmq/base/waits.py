"""Waits with a time-out, by the clock of clock.py: a test that drives that clock can end them.

    waits.sleep(0.03)
    with lock:                                              # news = threading.Condition(lock)
        waits.wait_for(news, lambda: self._ready, 3.0)      # returns whether it is ready
    waits.get(answers, 3.0)                                 # from a SimpleQueue; Empty: none came
    waits.get_all(answers, 5, 3.0)                          # whether so many came in that time
    waits.join(thread, 3.0)
    waits.until(lambda: not self._busy, clock.monotonic() + 3.0)    # if nothing signals the change

If nobody drives the clock, each of these but the last is one call of the standard library (get_all
one call for each answer), which sleeps until the end.

A user's main thread waits here, and Ctrl-C raises between any two steps of Python code. `with` on a
Lock or an RLock takes and releases it in C, with no such step in between. `with` on a Condition,
and everything in a Semaphore, an Event or a Future, is Python code: an exception there leaves the
lock taken, and a thread that wants it, perhaps one that close() joins, waits for ever. So `with` is
used on the lock itself, and the Condition only waits and notifies; results are handed over in a
SimpleQueue, which is C. The lock is an RLock: if Ctrl-C comes just when wait() has not taken it
again, releasing it fails with a RuntimeError behind the KeyboardInterrupt, instead of releasing it
for another thread that holds it. So nothing hangs.
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
    """Waits for the predicate. The condition's lock must be held, by `with` on the lock itself."""
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
    """Checks the condition every POLL_S, until it is true or the time `end` (clock.monotonic) has
    come; returns whether it is true."""
    while not (is_so := condition()) and clock.monotonic() < end:
        time.sleep(POLL_S)
    return is_so


def _has_come(comes: Callable[[float], object], timeout_s: float) -> bool:
    """Whether something came in time. `comes`: waits so many seconds by the machine's clock, and
    returns whether it came."""
    if not clock.is_driven():
        return bool(comes(timeout_s))
    end = clock.monotonic() + timeout_s
    while (left := end - clock.monotonic()) > 0:
        if comes(clock.sleep_s(left)):
            return True
    return bool(comes(0))
