"""DelayedRetries: asynchronous sends that wait a moment before they are tried again
(failover_grace.py).

    later = DelayedRetries(producer, targets)
    later.add(DelayedRetry(..))                # False: too many wait, or the producer has ended
    later.wait(until_s)                        # until none waits; False: some still do
    later.close()                              # gives up those that still wait

After a pause all sends that wait are tried again together, after one look at the routes of their
topics. They are sent in the order of their first sends, no matter which of the threads that run
callbacks learned of its failure first. As many sends may wait here as may be under way; those that
wait are not counted as under way. With TLS a try makes the connection that it needs. If that fails,
the send waits for the next pause, as a send without TLS does whose try fails later. An exception of
any kind that a hook raises, at the look at the routes or at a try, does not keep back the other
sends.

Example: 500 messages are under way when the only master is killed. All fail within a millisecond
and wait here. Seven pauses later a slave has become master, and takes them in their order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from rmq.base import waits
from rmq.client.producer.base import ProducerBase
from rmq.client.producer.failover_grace import PAUSE_MS
from rmq.client.producer.targets import Targets
from rmq.errors import ClosedError

log = logging.getLogger("rmq.client")


class DelayedRetry(NamedTuple):
    topic: str
    number: int  # of the try that failed; each try that is sent has a higher one
    again: Callable[[], None]  # sends; raises when that is not possible
    lasts: Callable[[Exception], bool]  # whether to wait again after this exception of `again`
    give_up: Callable[[], None]


class DelayedRetries:
    """The delayed retries of one producer; any thread may use it."""

    def __init__(self, producer: ProducerBase, targets: Targets) -> None:
        self._producer = producer
        self._targets = targets
        self._lock = threading.Lock()
        self._waiting: list[DelayedRetry] = []
        self._running = 0  # taken out of the list, not yet under way
        self._is_closed = False

    def __len__(self) -> int:
        with self._lock:  # else one that moves from waiting to running might be missed
            return self._count()

    def _count(self) -> int:
        return len(self._waiting) + self._running

    def add(self, each: DelayedRetry) -> bool:
        return self._add(each, taken=0)

    def _add(self, each: DelayedRetry, taken: int) -> bool:
        """taken: 1 if it is one of those that run, so that it is counted once, and always."""
        try:
            timers = self._producer.instance.timers
        except ClosedError:
            return False
        with self._lock:
            if self._is_closed or self._count() - taken >= self._producer.messages_max:
                return False
            self._running -= taken
            self._waiting.append(each)
            is_first = len(self._waiting) == 1
        if is_first:
            timers.after(PAUSE_MS, self._try_again, chore=True)
        return True

    def _take(self) -> list[DelayedRetry]:
        """Takes all that wait, in the order of their sends. The caller holds the lock."""
        tries, self._waiting = self._waiting, []
        return sorted(tries, key=lambda each: each.number)

    def _try_again(self) -> None:
        with self._lock:
            tries = self._take()
            self._running += len(tries)
        for topic in dict.fromkeys(each.topic for each in tries):
            self._look_again(topic)
        for each in tries:
            self._try(each)

    def _look_again(self, topic: str) -> None:
        try:
            self._targets.look_again(topic)
        except BaseException:  # from a hook: the tries use the route that is known
            log.exception("the route of %s", topic)

    def _try(self, each: DelayedRetry) -> None:
        """Tries one of those that run: it gets under way, waits again, or is given up."""
        waits_on = False
        try:
            each.again()
        except Exception as error:
            waits_on = each.lasts(error) and self._add(each, taken=1)
            if not waits_on:
                each.give_up()
        except BaseException:  # SystemExit from a hook
            log.exception("another try of a send to %s", each.topic)
            each.give_up()
        finally:
            if not waits_on:
                with self._lock:
                    self._running -= 1

    def wait(self, until_s: float) -> bool:
        """Waits until none is left. False: some are left at until_s, by clock.monotonic()."""
        return waits.until(lambda: not len(self), until_s)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            tries = self._take()
        for each in tries:
            each.give_up()
