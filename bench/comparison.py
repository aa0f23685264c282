"""Comparison: what `make bench-peers` found: the machine, the peers, and rows of turns.

In a row each peer has a turn in each round, at its full speed, and then paced turns, in which all
peers get the same number of messages a second on a schedule. Latencies are those of the paced
turns. Where reads are measured beside a producer, which always has a schedule, latencies are those
of the producer. Turns are kept as they were measured; medians, spreads and ratios are computed from
them when they are shown.

    found = load(Path("bench/results/peers.json"))
    cell = found.rows[0].cells["rmq"]; RATE.spread(cell)       Spread(median=412_000.0, ...)
    ratio(found.rows[0], RATE, "rmq", "apache")                a ratio a round; a Spread of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

MIB = 1 << 20
PERCENTILES = ("p50", "p99", "p99.9")


class Spread(msgspec.Struct, frozen=True):
    """The median, the least and the greatest value of several rounds."""

    median: float
    low: float
    high: float


def spread(values: Iterable[float]) -> Spread | None:
    """The Spread of the values; None when there were no rounds."""
    found = list(values)
    return Spread(median(found), min(found), max(found)) if found else None


class Turn(msgspec.Struct, frozen=True):
    """What one peer did in one turn."""

    seconds: float
    messages: int  # answered, or received
    cpu_seconds: float  # of the peer's server processes
    resident_bytes: int  # of the same, at the end
    failures: dict[str, int] = {}
    latency_us: dict[str, float] = {}  # by name of PERCENTILES; empty: there was no schedule

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_seconds / self.messages * 1e6 if self.messages else 0.0

    @property
    def busy(self) -> float:
        """Processors that the server kept busy."""
        return self.cpu_seconds / self.seconds if self.seconds > 0 else 0.0


class Cell(msgspec.Struct):
    """A peer in a row."""

    turns: list[Turn] = []
    paced: list[Turn] = []
    notes: list[str] = []  # what the peer does in another way than the row says
    error: str = ""  # why turns are missing
    not_offered: str = ""  # why the peer has no such load

    @property
    def failures(self) -> int:
        return sum(sum(turn.failures.values()) for turn in (*self.turns, *self.paced))


class Row(msgspec.Struct):
    """A load, and what each peer made of it."""

    name: str
    title: str
    load: dict[str, int | float | bool | str]  # of the shape: connections, window, body_bytes ...
    cells: dict[str, Cell] = {}
    pace: float = 0.0  # messages a second of the schedule; 0: there was none
    measured: str = ""  # when and at which commit, if an earlier run measured the row

    @property
    def has_error(self) -> bool:
        return any(cell.error for cell in self.cells.values())


class Server(msgspec.Struct):
    """A peer's server as it was measured."""

    title: str
    version: str
    client: str  # the client that loaded it
    promise: str  # what an answer says about the disk with these settings
    settings: dict[str, str] = {}


class Comparison(msgspec.Struct):
    """Everything that was found in one run."""

    machine: dict[str, Any]
    commit: str
    rounds: int
    seconds: float
    servers: dict[str, Server] = {}
    rows: list[Row] = []
    synced: dict[str, Server] = {}  # the servers with their settings in rows of SYNC_FLUSH


class Measure(NamedTuple):
    """A number of each turn."""

    key: str
    title: str
    unit: str
    more_is_better: bool
    of: Callable[[Cell], list[float]]
    paced: bool = False  # the number is one of paced turns

    def spread(self, cell: Cell) -> Spread | None:
        return spread(self.of(cell))


def _latency(percentile: str) -> Measure:
    def of(cell: Cell) -> list[float]:
        return [
            turn.latency_us[percentile]
            for turn in (cell.paced or cell.turns)
            if percentile in turn.latency_us
        ]

    return Measure(percentile, f"latency, {percentile}", "us", False, of, paced=True)


RATE = Measure("rate", "messages a second", "msg/s", True,
               lambda cell: [turn.rate for turn in cell.turns])  # fmt: skip
CPU = Measure("cpu", "CPU seconds of the server for a million messages", "CPU-s/M", False,
              lambda cell: [turn.cpu_per_million for turn in cell.turns])  # fmt: skip
# When this is well below the processors that the server may use, its client limits the rate.
BUSY = Measure("busy", "processors that the server kept busy", "processors", False,
               lambda cell: [turn.busy for turn in cell.turns])  # fmt: skip
MEMORY = Measure("memory", "resident memory of the server", "MiB", False,
                 lambda cell: [turn.resident_bytes / MIB for turn in cell.turns])  # fmt: skip
MEASURES = (RATE, CPU, *(_latency(each) for each in PERCENTILES), MEMORY)


def ratio(row: Row, measure: Measure, first: str, second: str) -> Spread | None:
    """The Spread of first / second, computed for each round. None: one of the two has no value,
    or second has a zero."""
    if first not in row.cells or second not in row.cells:
        return None
    pairs = list(zip(measure.of(row.cells[first]), measure.of(row.cells[second]), strict=False))
    if not all(b for _, b in pairs):
        return None
    return spread(a / b for a, b in pairs)


def common_pace(cells: Iterable[Cell], share: float) -> float:
    """`share` of the slowest peer's median rate, in two digits; 0 when no peer has a rate."""
    rates = [found.median for cell in cells if (found := RATE.spread(cell)) is not None]
    return float(f"{min(rates, default=0.0) * share:.2g}")


def save(found: msgspec.Struct, path: Path) -> None:
    """Writes it as JSON that people can read, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(found), indent=1)
    path.write_bytes(text + b"\n")


def load(path: Path) -> Comparison:
    """Reads what save() wrote. msgspec.ValidationError: the file is something else, or of another
    version."""
    return msgspec.json.decode(path.read_bytes(), type=Comparison)
