"""Waits with a time-out, by the clock of clock.py: a test that drives it ends them.

    waits.sleep(0.03)
    with news:
        waits.wait_for(news, lambda: self._ready, 3.0)      # whether it is so
    waits.acquire(answers, 3.0)                             # of a semaphore; whether it was had
    waits.acquire_all(answers, 5, 3.0)                      # so many, all of them in that time
    waits.join(thread, 3.0)
    waits.result(future, 3.0)
    waits.until(lambda: not self._busy, clock.monotonic() + 3.0)    # of what nobody tells

Where nobody drives the clock each but the last is one call of the standard library (acquire_all one
for each), which sleeps to the end.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from rmq.base import clock

T = TypeVar("T")
LOOK_S = 0.002


def sleep(seconds: float) -> None:
    _has_come(time.sleep, seconds)


def wait_for(
    condition: threading.Condition, predicate: Callable[[], bool], timeout_s: float
) -> bool:
    """With the condition's lock held."""
    if not clock.is_driven():
        return condition.wait_for(predicate, timeout_s)
    end = clock.monotonic() + timeout_s
    while not (is_so := predicate()) and (left := end - clock.monotonic()) > 0:
        condition.wait(clock.sleep_s(left))
    return is_so


def acquire(semaphore: threading.Semaphore, timeout_s: float) -> bool:
    return _has_come(lambda part_s: semaphore.acquire(timeout=part_s), timeout_s)


def acquire_all(semaphore: threading.Semaphore, count: int, timeout_s: float) -> bool:
    end = clock.monotonic() + timeout_s
    return all(acquire(semaphore, max(end - clock.monotonic(), 0)) for _ in range(count))


def join(thread: threading.Thread, timeout_s: float) -> None:
    def has_ended(part_s: float) -> bool:
        thread.join(part_s)
        return not thread.is_alive()

    _has_come(has_ended, timeout_s)


def result(future: Future[T], timeout_s: float) -> T:
    """TimeoutError of concurrent.futures when there is none in time."""
    _has_come(lambda part_s: concurrent.futures.wait([future], part_s).done, timeout_s)
    return future.result(0)


def until(condition: Callable[[], bool], end: float) -> bool:
    """Looks every LOOK_S, until it is so or the time `end` (clock.monotonic); whether it is so."""
    while not (is_so := condition()) and clock.monotonic() < end:
        time.sleep(LOOK_S)
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
