"""Timers: calls functions later, or again and again.

    timers = Timers("rmq-timers", chores=16); timers.start()
    timer = timers.every(30_000, refresh)      # first after 30 s; timers.every(.., first_ms=0)
    timers.after(1_000, retry)
    timers.every(20_000, rebalance, chore=True)
    timers.soon(rebalance); timers.soon(send_all, "broker-a")
    timer.cancel(); timers.stop()

One thread calls the functions that are due. None of them may wait, because all others would wait,
too. A function that asks brokers and waits for their answers is a chore: it runs in one of a few
other threads. Its next time counts from its end, so that it never runs twice at once. A function
given to soon() does not run twice at once either: if it waits for a broker that does not answer,
asking for it again takes no more threads. If a function raises, that is logged, and it is called
again at its next time.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Hashable

from rmq.base import clock
from rmq.client.connection.workers import Workers

log = logging.getLogger("rmq.client")

CHORES_END_S = 1.0

Asked = tuple[Callable[..., object], tuple[Hashable, ...]]  # a function and its arguments


class Timer:
    """One function with its times; any thread may cancel it."""

    def __init__(
        self, function: Callable[[], object], interval_ms: int | None, chore: bool
    ) -> None:
        self.function = function
        self.interval_ms = interval_ms
        self.is_chore = chore
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """The timers' thread with its heap of (due, number, timer), and the threads of the chores."""

    def __init__(self, name: str, chores: int) -> None:
        self._chores = Workers("chores", chores)
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._asked_for: set[Asked] = set()  # by soon(), and not begun yet
        self._running: set[Asked] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the threads, and returns when the function under way has ended, unless that is the
        caller. Chores are waited for at most CHORES_END_S."""
        with self._lock:
            self._stopping = True
            self._news.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self._chores.close(clock.monotonic() + CHORES_END_S, threading.current_thread())

    def every(
        self,
        interval_ms: int,
        function: Callable[[], object],
        first_ms: int | None = None,
        *,
        chore: bool = False,
    ) -> Timer:
        timer = Timer(function, max(interval_ms, 1), chore)
        self._add(interval_ms if first_ms is None else first_ms, timer)
        return timer

    def after(
        self, delay_ms: float, function: Callable[[], object], *, chore: bool = False
    ) -> Timer:
        timer = Timer(function, None, chore)
        self._add(delay_ms, timer)
        return timer

    def soon(self, function: Callable[..., object], *given: Hashable) -> None:
        """Calls the function as a chore, at once. If it is asked for several times before it
        begins, it is called once; if it is asked for while it runs, it is called once more
        afterwards."""
        asked = (function, given)
        with self._lock:
            if asked not in self._asked_for and asked not in self._running:
                self.after(0, functools.partial(self._begin, asked), chore=True)
            # After the line above: if Ctrl-C comes in between, the function is called once too
            # often; the other way round it would never be called again.
            self._asked_for.add(asked)

    def _begin(self, asked: Asked) -> None:
        with self._lock:
            self._asked_for.discard(asked)
            self._running.add(asked)
        function, given = asked
        try:
            function(*given)
        finally:
            with self._lock:
                self._running.remove(asked)
                is_due = asked in self._asked_for
            if is_due:
                self.after(0, functools.partial(self._begin, asked), chore=True)

    def _add(self, delay_ms: float, timer: Timer) -> None:
        with self._lock:
            due = clock.monotonic() + delay_ms / 1000
            heapq.heappush(self._heap, (due, next(self._numbers), timer))
            self._news.notify()

    def _next(self) -> Timer | None:
        """Waits for the next timer that is due; None when the timers are stopped."""
        with self._lock:
            while not self._stopping:
                wait = self._heap[0][0] - clock.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._news.wait(None if wait is None else clock.sleep_s(wait))
        return None

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            if timer.is_chore:
                self._chores.submit(functools.partial(self._do, timer))
            else:
                self._do(timer)

    def _do(self, timer: Timer) -> None:
        if timer.cancelled:
            return
        try:
            timer.function()
        except BaseException:  # SystemExit, too, must end neither the thread nor the timer
            log.exception("%s", timer.function)
        if timer.interval_ms is not None and not timer.cancelled:
            self._add(timer.interval_ms, timer)
