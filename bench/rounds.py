"""Rounds: interleaved measurements and what they say: median and spread of ratios.

Two programs measured one after the other in fact run on two different machines, when other programs
on the machine come and go. So each round measures both, in alternating order (AB BA AB ...), mostly
in slices of a tenth of a second, and makes a ratio of its own. The median of the rounds' ratios and
their extremes are reported. A row passes when its median does.

    outcome = Outcome("single", "1 connection, window 64: CPU-s/M", 2.0, "<=")
    for _ in range(5): floor, ours = in_slices(20, 0.1, floor_slice, ours_slice); ...
    outcome.values = [1.52, 1.48, 1.55, 1.50, 1.49]; outcome.median, outcome.passed  ->  1.50, True
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

A = TypeVar("A")


@dataclass
class Outcome:
    """One line of the table: the goal, and the measured value of each round."""

    name: str
    title: str
    goal: float | None  # None: shown, not judged
    better: str = "<="  # how the value must compare with the goal
    unit: str = "x"
    possible: float | None = None  # a median beyond this is impossible, hence noise
    values: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def verdict(self) -> str:
        """ok, MISSED, shown, NOISE (the measurement contradicts itself) or error."""
        if self.error or not self.values:
            return "error"
        if self.goal is None:
            return "shown"
        if self.possible is not None and self.median > self.possible:
            return "NOISE"
        good = self.median <= self.goal if self.better == "<=" else self.median >= self.goal
        return "ok" if good else "MISSED"

    @property
    def passed(self) -> bool:
        return self.verdict in ("ok", "shown")

    @property
    def wanted(self) -> str:
        """The goal in words."""
        return "-" if self.goal is None else f"{self.better} {self.goal:g}{self.unit}"

    def row(self) -> list[str]:
        """Title, goal, median, spread, verdict, notes."""
        goal = self.wanted
        if self.error or not self.values:
            return [self.title, goal, "-", "-", "error", self.error or "nothing measured"]
        spread = f"{min(self.values):.2f} .. {max(self.values):.2f}"
        notes = "; ".join(self.notes)
        return [self.title, goal, f"{self.median:.2f}{self.unit}", spread, self.verdict, notes]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "goal": self.wanted,
            "median": self.median if self.values else None,
            "values": self.values,
            "verdict": self.verdict,
            "notes": self.notes,
            "details": self.details,
            "error": self.error,
        }


def in_turns(rounds: int, runs: Sequence[Callable[[], A]]) -> list[list[A]]:
    """The results of all runs, round by round; every other round runs them in reverse order."""
    results = []
    for number in range(rounds):
        found = {which: runs[which]() for which in order(number, len(runs))}
        results.append([found[which] for which in range(len(runs))])
    return results


def order(number: int, count: int) -> list[int]:
    """The order in a round: forwards in even rounds, backwards in odd ones."""
    return list(range(count)) if number % 2 == 0 else list(range(count))[::-1]


def interleaved(rounds: int, first: Callable[[], A], second: Callable[[], A]) -> list[tuple[A, A]]:
    """in_turns() for two runs: their results as pairs."""
    return [(a, b) for a, b in in_turns(rounds, [first, second])]


def middle(values: list[float]) -> float:
    return median(values) if values else 0.0


@dataclass
class Slice:
    """The counts of one slice, or of several together.

    Costs are counted from the end of one slice to the end of the next, so that what a server does
    in the pauses, its write-back for example, is counted, too.
    """

    count: float = 0.0  # answered within the slice
    seconds: float = 0.0
    billed: float = 0.0  # answered since the last slice
    cpu_seconds: float = 0.0  # of the server since the last slice

    def add(self, other: "Slice") -> None:
        self.count += other.count
        self.seconds += other.seconds
        self.billed += other.billed
        self.cpu_seconds += other.cpu_seconds

    @property
    def rate(self) -> float:
        return self.count / self.seconds if self.seconds > 0 else 0.0

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_seconds / self.billed * 1e6 if self.billed > 0 else 0.0


def in_slices(slices: int, seconds: float, *runs: Callable[[float], Slice]) -> list[Slice]:
    """Measures several things that share a machine, each in `slices` short turns.

    A disk that others use changes its speed tenfold within a second, and a CPU that others use
    changes the cost of work by half. So two runs of some seconds, one after the other, in fact run
    on two different machines. Slices of a tenth of a second, taken in turns (forwards, then
    backwards), are affected alike.
    """
    totals = [Slice() for _ in runs]
    for number in range(slices):
        for which in order(number, len(runs)):
            totals[which].add(runs[which](seconds))
    return totals
