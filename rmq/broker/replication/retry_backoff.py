"""Retry backoff: how soon a question that the controller did not decide is asked again.

A question may fail without a decision: no controller answers, its store does not, or RocketMQ's
controller says that the set is unchanged (2013) while a change whose answer was lost may still take
effect. The question is asked again, at first at each look, and more seldom the longer this lasts:
the pause is an eighth of the time that it has lasted, and at most PAUSE_MS_MAX. So a controller
that was away for two seconds is asked within 0.3 s of its return, and one that gives the same
answer for half a minute is asked some 50 times, not 300.

Other questions are asked at once: for another set, and for any set once the set has changed.

    backoff = RetryBackoff()
    backoff.is_due(members, now)    whether this set was not asked for, or long enough ago
    backoff.undecided(members, now)  notes that it was asked for, without a decision
    backoff.decided()               the controller said yes or no, or has another set
"""

from __future__ import annotations

from typing import NamedTuple

PAUSE_MS_MAX = 1000  # the longest pause; leases are asked for as often
RESET_MS = 10_000  # a question that was not asked for this long begins anew
PAUSE_DIVISOR = 8  # the pause is the time that the question has been open, divided by this


class RetrySpan(NamedTuple):
    """The time in which one question was asked again and again."""

    first_ms: int
    last_ms: int

    @property
    def pause_ms(self) -> int:
        return min((self.last_ms - self.first_ms) // PAUSE_DIVISOR, PAUSE_MS_MAX)


class RetryBackoff:
    """Used for one mastership; owned by one thread. Times are monotonic milliseconds."""

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
