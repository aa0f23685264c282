"""Report: what the offline check of a store found: problems by file and byte, notes, counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# Called while it works: (what is being read, how much is done, of how much).
Progress = Callable[[str, int, int], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """For those who do not want to know."""


@dataclass
class Problem:
    file: str
    offset: int  # in the file, bytes
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}: {self.what}"


@dataclass
class Report:
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def problem(self, file: Path, offset: int, what: str) -> None:
        self.problems.append(Problem(str(file), offset, what))
