"""RebalanceRetry: when a consumer shares out the queues again, because the last share is not
complete.

    rebalance_retry = RebalanceRetry(timers, rebalance)
    rebalance_retry.within(1_000)    # calls rebalance; of several that are asked for the soonest
    rebalance_retry.cancel()         # first of each round: what was asked for before is this one

One at most is pending: a round asks for the next one for each of its topics, and rounds that grew
by their number would soon have all threads.
"""

from __future__ import annotations

from collections.abc import Callable

from rmq.base import clock
from rmq.client.connection.timers import Timer, Timers


class RebalanceRetry:
    """Owned by one thread at a time."""

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
