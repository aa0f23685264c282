"""Figures: what producers and consumers had done at a moment, or, by difference, in a period.

before = rig.figures(); ...; period = rig.figures() - before
period.sent / period.seconds          messages a second
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace

from rmq.load.workload.durations import Durations


@dataclass(frozen=True)
class Figures:
    seconds: float  # a moment of the monotonic clock; for a period its length
    wanted: float  # messages that were due
    sent: int  # messages that were acknowledged
    received: int
    failed_sends: Counter[int]  # by code
    failed_pulls: Counter[int]
    publish: Durations  # from when a message was sent until its answer
    delay: Durations  # from when a message was due until it was sent
    due: Durations  # from when a message was due until its answer
    end_to_end: Durations  # from when a message was due until a consumer had it

    def __sub__(self, other: Figures) -> Figures:
        names = [field.name for field in fields(self)]
        return Figures(*(getattr(self, name) - getattr(other, name) for name in names))

    def settled(self, later: Figures) -> Figures:
        """These counts and this length with the durations and failures of `later`, when all open
        requests had ended: so they include a stall at the end."""
        return replace(
            later, seconds=self.seconds, wanted=self.wanted, sent=self.sent, received=self.received
        )


@dataclass(frozen=True)
class Period:
    """One row of the shown table."""

    elapsed_s: float
    figures: Figures
    backlog: int  # at its end
    end: Figures  # since the start

    @property
    def rate(self) -> float:
        """The mean of the messages a second that were wanted."""
        return self.figures.wanted / self.figures.seconds
