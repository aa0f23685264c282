"""Report: what the offline check of a store found: problems by file and byte, notes, counts."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Problem(msgspec.Struct):
    file: str
    offset: int  # in the file, bytes
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}: {self.what}"


class Report(msgspec.Struct):
    problems: list[Problem] = []
    notes: list[str] = []
    counts: dict[str, int] = {}

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def problem(self, file: Path, offset: int, what: str) -> None:
        self.problems.append(Problem(str(file), offset, what))
