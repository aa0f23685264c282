"""Retry backoff: how soon the controller is asked again what it did not decide.

A question may fail and settle nothing: no controller answers, its store does not, or RocketMQ's
says that the set is what it was (2013) where a lost answer may still come true. It is asked again,
at first at each look; and the longer that lasts the more seldom, with a pause of an eighth of the
time that it has lasted, and PAUSE_MS_MAX at most. So a controller that was away for two seconds is
asked within 0.3 s of its return, and one that says the same for half a minute hears it some 50
times, not 300.

What differs from what failed is asked at once: another set, and all once the set has changed.

    backoff = RetryBackoff()
    backoff.is_due(members, now)    nobody asked for these, or long enough ago
    backoff.undecided(members, now)  it was asked, and that settled nothing
    backoff.decided()               the controller said yes or no, or has another set
"""

from __future__ import annotations

from typing import NamedTuple

PAUSE_MS_MAX = 1000  # the longest pause; the controller is asked for leases as often
RESET_MS = 10_000  # a question that was not asked for so long begins anew
PAUSE_DIVISOR = 8  # of the time that a question has been open: the pause before it is asked again


class RetrySpan(NamedTuple):
    """In which one question was asked again and again."""

    first_ms: int
    last_ms: int

    @property
    def pause_ms(self) -> int:
        return min((self.last_ms - self.first_ms) // PAUSE_DIVISOR, PAUSE_MS_MAX)


class RetryBackoff:
    """Of one mastership; owned by one thread. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._spans: dict[frozenset[int], RetrySpan] = {}

    def is_due(self, members: frozenset[int], now: int) -> bool:
        span = self._spans.get(members)
        return span is None or now - span.last_ms >= span.pause_ms

    def undecided(self, members: frozenset[int], now: int) -> None:
        span = self._spans.get(members)
        goes_on = span is not None and now - span.last_ms <= RESET_MS
        self._spans[members] = RetrySpan(span.first_ms if span and goes_on else now, now)

    def decided(self) -> None:
        self._spans.clear()
