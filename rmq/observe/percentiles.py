"""Percentiles of counts in log-linear buckets, for `rmq bench`.

    ends = bucket_ends(2, 100)                  of cext/base/latency.pxd
    ends[[5, 35]]                               array([5, 1023])
    percentiles([0, 3, 1], ends, [50, 100])     array([1, 2])

Values below 2 ** (bits + 1) have a bucket each; above, every power of two is cut into 2 ** bits
equal ones. A percentile is its bucket's upper end, never less than the truth. Brokers and `rmq top`
use latency.py instead, without numpy, whose import takes longer than their work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def bucket_ends(bits: int, buckets: int) -> NDArray[np.int64]:
    """The largest value of each bucket."""
    bucket = np.arange(buckets, dtype=np.int64)
    shift = np.maximum((bucket >> bits) - 1, 0)
    ends: NDArray[np.int64] = ((bucket - (shift << bits) + 1) << shift) - 1
    return ends


def percentiles(
    counts: ArrayLike, ends: NDArray[np.int64], percents: Sequence[float]
) -> NDArray[np.int64] | None:
    """For each percent, the value that so many of the events did not exceed; None without events.

    ValueError: a percent outside 0 .. 100.
    """
    wanted = np.asarray(percents, np.float64)
    if not ((wanted >= 0) & (wanted <= 100)).all():
        raise ValueError(f"percents must lie in 0 .. 100, not {percents}")
    seen = np.cumsum(np.asarray(counts, np.int64))
    if not len(seen) or not seen[-1]:
        return None
    # 99.9 % of 1000 are 999 events, but the product in floating point is a little more.
    ranks = np.ceil(wanted / 100 * seen[-1] - 1e-6)
    found: NDArray[np.int64] = ends[np.searchsorted(seen, np.maximum(ranks, 1))]
    return found
