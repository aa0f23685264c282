"""Latency: reads the counts of cext/base/latency.pxd: bucket ends, percentiles, differences.

    edge(5) == 5            the largest number of microseconds that falls into bucket 5
    edge(35) == 1023
    percentile([0, 3, 1], 0.5) == 1

A percentile is its bucket's upper end, so it is at most 25 % more than the truth and never less.
Counts only grow; since(later, earlier) gives the events between two looks. Brokers read their own
counts with this, and `rmq top` those of brokers; percentiles.py is the same for `rmq bench`, with
numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

BUCKETS = 100
SUB_BUCKET_BITS = 2  # every power of two is cut into 4


def edge(bucket: int) -> int:
    """The largest value, in us, that belongs to the bucket; the last bucket has all larger ones,
    too."""
    if bucket < 8:
        return bucket
    shift = (bucket >> 2) - 1
    return ((bucket - (shift << 2) + 1) << shift) - 1


def percentile(counts: Sequence[int], share: float) -> int | None:
    """How many us the quickest `share` (0 to 1) of the events took at most; None without events."""
    wanted = sum(counts) * share
    seen = 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return edge(bucket)
    return None


def since(later: Sequence[int], earlier: Sequence[int]) -> list[int]:
    """The events between two samples; all of the later one if counting has begun anew."""
    grown = [new - old for new, old in zip(later, earlier, strict=False)]
    if len(later) != len(earlier) or any(count < 0 for count in grown):
        return list(later)
    return grown
