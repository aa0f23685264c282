"""Measurements: the results of a run, filled in while it runs, so that an interrupt loses none.

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
    """All figures are those since the start."""

    first: Figures
    at_end: Figures = field(init=False)  # at the end of the measured time
    settled: Figures = field(init=False)  # when no request was open any more
    periods: list[Period] = field(default_factory=list)
    is_interrupted: bool = False
    error: Exception | None = None  # the error that ended the run
    cpu_seconds: float | None = None  # None: no process was given, or one has ended
    unanswered: int = 0
    overdue: int = 0
    behind: int = 0  # messages that consumers did not get

    @property
    def last(self) -> Figures:
        """The figures at the end of the last row."""
        return self.periods[-1].end if self.periods else self.first

    @property
    def whole(self) -> Figures:
        return (self.at_end - self.first).settled(self.settled - self.first)
