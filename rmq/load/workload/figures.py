"""Figures: what producers and consumers had done at a moment; of a period, the difference of two.

before = rig.figures(); ...; period = rig.figures() - before
period.sent / period.seconds          messages a second
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace

from rmq.load.workload.durations import Durations


@dataclass(frozen=True)
class Figures:
    seconds: float  # by the monotonic clock; of a period, how long it was
    wanted: float  # messages that were due
    sent: int  # and acknowledged
    received: int
    failed_sends: Counter[int]  # by code
    failed_pulls: Counter[int]
    publish: Durations  # from when a message went until its answer
    delay: Durations  # from when a message was due until it went
    due: Durations  # from when a message was due until its answer
    end_to_end: Durations  # from when a message was due until a consumer had it

    def __sub__(self, other: Figures) -> Figures:
        names = [field.name for field in fields(self)]
        return Figures(*(getattr(self, name) - getattr(other, name) for name in names))

    def settled(self, later: Figures) -> Figures:
        """Counts and length as they are; durations and failures as of later, when what was open
        has ended: a stall at the end is among them."""
        return replace(
            later, seconds=self.seconds, wanted=self.wanted, sent=self.sent, received=self.received
        )


@dataclass(frozen=True)
class Period:
    """One row of what is shown."""

    elapsed_s: float
    figures: Figures
    backlog: int  # at its end
    end: Figures  # since the start

    @property
    def rate(self) -> float:
        """Messages a second that were wanted, in the mean."""
        return self.figures.wanted / self.figures.seconds
