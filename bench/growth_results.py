"""Growth: what `make bench-growth` found: the machine, and the cost at each size of each dimension.

    found = load(Path("bench/results/growth.json"))
    found.dimensions["queues"].points[2].ratio       Spread(median=1.04, ...), to the smallest size

Each size is measured in turns with the smallest one. So each size also has the smallest one's cost
in the same rounds, and the smallest size has rounds with all the others. Costs are CPU seconds of
the broker for a million messages.
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
    least: list[float] = []  # CPU-s/M of the smallest size, in the same rounds
    rate: list[float] = []  # messages a second
    error: str = ""  # why rounds are missing

    def add(self, own: Slice, smallest: Slice) -> None:
        """Adds a round."""
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
    """Reads a JSON file of results. msgspec.ValidationError: the file is something else, or of
    another version."""
    return msgspec.json.decode(path.read_bytes(), type=Growth)
