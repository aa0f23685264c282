"""Durations: the counts of a histogram at a moment; a difference has those between two moments.

A histogram's thread goes on counting while the histogram is read: the counts of a moment may lack
the last one or two, which are then in the next moment's.

    later = Durations.of(loop.latency)
    (later - earlier).percentiles_ns([50, 99])         [118_271, 211_967]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cext.load.histogram import SUB_BUCKET_BITS, Histogram
from rmq.observe.percentiles import bucket_ends, percentiles

EMPTY = np.frombuffer(Histogram().counts, np.uint64).astype(np.int64)
ENDS = bucket_ends(SUB_BUCKET_BITS, len(EMPTY))


@dataclass(frozen=True)
class Durations:
    """Counts of durations. A result is 0 when nothing was counted."""

    counts: NDArray[np.int64]
    total_ns: float

    @staticmethod
    def none() -> Durations:
        return Durations(EMPTY, 0.0)

    @staticmethod
    def of(histogram: Histogram) -> Durations:
        counts = np.frombuffer(histogram.counts, np.uint64).astype(np.int64)
        return Durations(counts, histogram.total_ns)

    @staticmethod
    def of_all(histograms: Iterable[Histogram]) -> Durations:
        return sum(map(Durations.of, histograms), Durations.none())

    def __add__(self, other: Durations) -> Durations:
        return Durations(self.counts + other.counts, self.total_ns + other.total_ns)

    def __sub__(self, other: Durations) -> Durations:
        return Durations(self.counts - other.counts, self.total_ns - other.total_ns)

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count if self.count else 0.0

    @property
    def maximum_ns(self) -> int:
        """The longest duration, at most 0.8 % too large."""
        used = np.flatnonzero(self.counts)
        return int(ENDS[used[-1]]) if len(used) else 0

    def percentiles_ns(self, percents: Sequence[float]) -> list[int]:
        found = percentiles(self.counts, ENDS, percents)
        return [0] * len(percents) if found is None else [int(each) for each in found]
