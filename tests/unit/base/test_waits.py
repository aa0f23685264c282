"""Goal: a wait ends when its time is over by the clock that a test drives, or when what it waits
for comes.

Method: threads that wait for an hour, which passes at once. Not shown here: that nothing waits by
the machine's clock (tests/source/test_time.py reads the sources for that).
"""

import functools
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import pytest
from support.driven_clock import DrivenClock
from support.waiting import HANG_S

from rmq.base import clock as rmq_clock
from rmq.base import waits

HOUR_S = 3_600.0


class Waited:
    """Something to wait for, in each of its forms."""

    def __init__(self) -> None:
        self.has_come = False
        self.lock = threading.RLock()
        self.news = threading.Condition(self.lock)
        self.answer: SimpleQueue[int] = SimpleQueue()
        self.answers: SimpleQueue[None] = SimpleQueue()
        self.gate = threading.Event()
        self.thread = threading.Thread(target=self.gate.wait, args=(HANG_S,), daemon=True)
        self.thread.start()

    def come(self) -> None:
        with self.lock:
            self.has_come = True
            self.news.notify_all()
        self.answer.put(7)
        for _ in range(2):
            self.answers.put(None)
        self.gate.set()

    def is_told(self, timeout_s: float) -> bool:
        with self.lock:
            return waits.wait_for(self.news, lambda: self.has_come, timeout_s)

    def is_got(self, timeout_s: float) -> bool:
        try:
            return waits.get(self.answer, timeout_s) == 7
        except Empty:
            return False

    def are_got(self, timeout_s: float) -> bool:
        return waits.get_all(self.answers, 2, timeout_s)

    def is_joined(self, timeout_s: float) -> bool:
        waits.join(self.thread, timeout_s)
        return not self.thread.is_alive()

    def is_seen(self, timeout_s: float) -> bool:
        return waits.until(lambda: self.has_come, rmq_clock.monotonic() + timeout_s)


Way = Callable[[Waited, float], bool]
WAYS = [Waited.is_told, Waited.is_got, Waited.are_got, Waited.is_joined, Waited.is_seen]


def begun(wait: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Starts the wait in a thread."""
    ends: list[object] = []
    thread = threading.Thread(target=lambda: ends.append(wait()), daemon=True)
    thread.start()
    return thread, ends


@pytest.mark.parametrize("way", WAYS)
def test_an_hour_of_waiting_is_over_when_it_has_passed(clock: DrivenClock, way: Way) -> None:
    waited = Waited()
    thread, ends = begun(lambda: way(waited, HOUR_S))
    clock.advance(HOUR_S / 2)
    thread.join(0.05)
    assert thread.is_alive(), "half an hour is not an hour"
    while thread.is_alive():  # the wait may have begun only after the first half hour had passed
        clock.advance(HOUR_S / 2)
        thread.join(0.02)
    assert ends == [False]
    waited.come()


@pytest.mark.parametrize("is_driven", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_what_comes_ends_it(request: pytest.FixtureRequest, way: Way, is_driven: bool) -> None:
    if is_driven:
        request.getfixturevalue("clock")
    waited = Waited()
    thread, ends = begun(lambda: way(waited, HOUR_S))
    waited.come()
    thread.join(HANG_S)
    assert ends == [True]


@pytest.mark.parametrize("way", WAYS)
def test_without_a_driven_clock_a_wait_ends_in_time(way: Way) -> None:
    waited = Waited()
    began = time.monotonic()
    assert not way(waited, 0.03)
    assert time.monotonic() - began > 0.029
    waited.come()


def test_a_time_that_is_over_already_is_no_error() -> None:
    """A caller's timeout, or the rest of one, may be zero or negative when the wait begins."""
    for timeout_s in (0.0, -1.0):
        waited = Waited()
        assert not waited.is_got(timeout_s) and not waited.are_got(timeout_s)
        waited.come()
        assert waited.is_got(timeout_s) and waited.are_got(timeout_s)


def test_a_sleep_is_over_when_its_time_has_passed(clock: DrivenClock) -> None:
    thread, _ = begun(functools.partial(waits.sleep, HOUR_S))
    while thread.is_alive():
        clock.advance(HOUR_S)
        thread.join(0.02)


def test_nobody_looks_again_but_where_a_test_drives_the_clock() -> None:
    assert rmq_clock.sleep_s(HOUR_S) == HOUR_S


def test_where_a_test_drives_the_clock_a_look_comes_soon(clock: DrivenClock) -> None:
    assert 0 < rmq_clock.sleep_s(HOUR_S) < 0.1
    assert rmq_clock.sleep_s(0.001) == 0.001
