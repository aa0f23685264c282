"""Measured: what a run has found out, as it is filled, until nothing can take it away.

measured = Measured(rig.figures())
measured.periods.append(period)
measured.at_end = rig.figures()
measured.whole.sent
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rmq.load.workload.figures import Figures, Period


@dataclass
class Measured:
    """Figures are those since the start."""

    first: Figures
    at_end: Figures = field(init=False)  # of the measured time
    settled: Figures = field(init=False)  # when nothing was open any more
    periods: list[Period] = field(default_factory=list)
    is_interrupted: bool = False
    error: Exception | None = None  # that ended it
    cpu_seconds: float | None = None  # None: nobody is looked at, or has ended
    unanswered: int = 0
    overdue: int = 0
    behind: int = 0  # that consumers did not get

    @property
    def last(self) -> Figures:
        """Of the last row."""
        return self.periods[-1].end if self.periods else self.first

    @property
    def whole(self) -> Figures:
        return (self.at_end - self.first).settled(self.settled - self.first)
