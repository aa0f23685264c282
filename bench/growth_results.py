"""Growth: what `make bench-growth` found: the machine, and of each dimension the cost at each size.

    found = load(Path("bench/results/growth.json"))
    found.dimensions["queues"].points[2].ratio       Spread(median=1.04, ...), to the smallest size

A size is measured beside the smallest one, in turns; so each has the smallest's cost of its own
rounds, and the smallest has rounds with all the others. Costs are CPU seconds of the broker for a
million messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from comparison import Spread, spread
from rounds import Slice


class Point(msgspec.Struct):
    """One size, round by round."""

    size: int
    cost: list[float] = []  # CPU-s/M
    least: list[float] = []  # of the smallest size, in the same rounds
    rate: list[float] = []  # messages a second
    error: str = ""  # why there is nothing

    def add(self, own: Slice, smallest: Slice) -> None:
        """A round."""
        self.cost.append(own.cpu_per_million)
        self.least.append(smallest.cpu_per_million)
        self.rate.append(own.rate)

    @property
    def ratio(self) -> Spread | None:
        return spread(a / b for a, b in zip(self.cost, self.least, strict=True) if b)


class Grown(msgspec.Struct):
    """A dimension."""

    title: str
    unit: str
    points: list[Point] = []  # the smallest first
    note: str = ""


class Growth(msgspec.Struct):
    machine: dict[str, Any]
    commit: str
    rounds: int
    seconds: float
    dimensions: dict[str, Grown] = {}


def load(path: Path) -> Growth:
    """msgspec.ValidationError: the file is none of ours, or of another version."""
    return msgspec.json.decode(path.read_bytes(), type=Growth)
