"""Latency of a run: percentiles of the load generator's histogram, in nanoseconds.

    percentiles_ns(result.latency, [50, 99])        array([118_271, 211_967])
    percentile_ns(result.latency, 99)               211_967

A result is at most 0.8 % above the true value and never above the largest one; 0 when nothing was
measured.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cext.load.histogram import SUB_BUCKET_BITS, Histogram
from rmq.observe.percentiles import bucket_ends, percentiles


def percentiles_ns(latency: Histogram, percents: Sequence[float]) -> NDArray[np.int64]:
    """The percentiles in ns. ValueError: a percent outside 0 .. 100."""
    counts = np.frombuffer(latency.counts, np.uint64)
    found = percentiles(counts, bucket_ends(SUB_BUCKET_BITS, len(counts)), percents)
    if found is None:
        return np.zeros(len(percents), np.int64)
    return np.minimum(found, latency.maximum)


def percentile_ns(latency: Histogram, percent: float) -> int:
    return int(percentiles_ns(latency, [percent])[0])
