"""RebalanceRetry: when a consumer shares out the queues again, because the last round could not do
everything.

    rebalance_retry = RebalanceRetry(timers, rebalance)
    rebalance_retry.within(1_000)    # calls rebalance; if asked several times, at the soonest time
    rebalance_retry.cancel()         # at the beginning of each round, which is the one asked for

At most one call is pending. A round may ask for the next one for each of its topics; if each of
these began a round of its own, rounds would soon take all threads.
"""

from __future__ import annotations

from collections.abc import Callable

from rmq.base import clock
from rmq.client.connection.timers import Timer, Timers


class RebalanceRetry:
    """The pending call of one consumer; used by one thread at a time."""

    def __init__(self, timers: Timers, function: Callable[[], object]) -> None:
        self._timers = timers
        self._function = function
        self._timer: Timer | None = None
        self._due = 0.0  # clock.monotonic()

    def within(self, pause_ms: int) -> None:
        due = clock.monotonic() + pause_ms / 1000
        if self._timer is not None and self._due <= due:
            return
        self.cancel()
        self._due = due
        self._timer = self._timers.after(pause_ms, self._function, chore=True)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
