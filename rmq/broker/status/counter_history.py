"""Counter history: rates and day totals, calculated from the core's counters, which only grow.

Every 10 s a sample of all counters is taken; all samples of the last 10 minutes are kept, and one
per minute of the last 24 hours. A rate is the difference of two samples divided by the time between
them. Totals of "this morning" are, as in RocketMQ, the counters at the last midnight, counted since
the start of the process.

Example: counter "puts" 1,000 at 12:00:00 and 3,000 at 12:00:10 gives rate("puts", 10) = 200.0.
"""

import time
from collections import deque
from collections.abc import Mapping

from rmq.base import clock

SAMPLE_S = 10
TOPICS_MAX = 1000  # topics that are sampled one by one
_FINE = 61  # number of samples: those of 10 minutes and one more
_COARSE_S = 60
_COARSE = 24 * 60 + 1


def topic_counter(topic: str, what: str) -> str:
    """The name of a topic's counter; it is unique, because topics contain no blanks."""
    return f"{what} of {topic}"


def group_counter(topic: str, group: str) -> str:
    """The name of the counter of messages that a group has consumed of a topic."""
    return f"consumed of {topic}@{group}"


class CounterHistory:
    """Owned by the control thread; take() is called every SAMPLE_S seconds."""

    def __init__(self) -> None:
        self._fine: deque[tuple[float, dict[str, int]]] = deque(maxlen=_FINE)
        self._coarse: deque[tuple[float, dict[str, int]]] = deque(maxlen=_COARSE)
        self._day = time.localtime().tm_yday
        self.at_midnight: dict[str, int] = {}
        self.at_midnight_before: dict[str, int] = {}

    def take(self, counters: Mapping[str, int]) -> None:
        now, values = clock.monotonic(), dict(counters)
        self._fine.append((now, values))
        if not self._coarse or now - self._coarse[-1][0] >= _COARSE_S:
            self._coarse.append((now, values))
        today = time.localtime().tm_yday
        if today != self._day:
            self._day = today
            self.at_midnight_before, self.at_midnight = self.at_midnight, values

    def over(self, counter: str, seconds: float) -> tuple[int, float]:
        """(growth, in how many seconds) over about the last `seconds`; (0, 0.0) without samples."""
        samples = self._fine if seconds <= (_FINE - 1) * SAMPLE_S else self._coarse
        if not self._fine or not samples:
            return 0, 0.0
        newest_at, newest = self._fine[-1]
        first_at, first = newest_at, newest
        for at, values in reversed(samples):
            if counter not in values:
                break  # the counter was not sampled yet
            first_at, first = at, values
            if newest_at - at >= seconds - SAMPLE_S / 2:
                break
        growth = newest.get(counter, 0) - first.get(counter, 0)
        return max(0, growth), newest_at - first_at

    def rate(self, counter: str, seconds: float) -> float:
        """Growth per second over about the last `seconds`."""
        growth, took = self.over(counter, seconds)
        return growth / took if took > 0 else 0.0

    def three_rates(self, counter: str) -> str:
        """The rates of the last 10 s, 1 minute and 10 minutes, as RocketMQ prints them."""
        return " ".join(f"{self.rate(counter, seconds):.3f}" for seconds in (10, 60, 600))
