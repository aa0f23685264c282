"""Percentiles by numpy: the same as a broker's own, and right for known values."""

import random

import numpy as np
import pytest

from cext.testing.base_probe import latency_counts
from rmq.observe.latency import BUCKETS, SUB_BUCKET_BITS, edge, percentile
from rmq.observe.percentiles import bucket_ends, percentiles

ENDS = bucket_ends(SUB_BUCKET_BITS, BUCKETS)


def test_ends_are_those_of_the_brokers_buckets() -> None:
    assert ENDS.tolist() == [edge(bucket) for bucket in range(BUCKETS)]


def test_ends_of_one_bit_can_be_counted_by_hand() -> None:
    """The buckets are 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15, 16-23."""
    assert bucket_ends(1, 9).tolist() == [0, 1, 2, 3, 5, 7, 11, 15, 23]


@pytest.mark.parametrize("number", [1, 2, 99, 100, 1000, 12_345])
def test_they_are_what_a_broker_says(number: int) -> None:
    chance = random.Random(number)
    values = [int(10 ** chance.uniform(0, 7)) for _ in range(number)]
    found, _ = latency_counts(values)
    counts = [found.get(bucket, 0) for bucket in range(BUCKETS)]
    percents = [0.01, 1, 25, 50, 75, 90, 99, 99.9, 100]
    by_numpy = percentiles(counts, ENDS, percents)
    assert by_numpy is not None
    assert by_numpy.tolist() == [percentile(counts, percent / 100) for percent in percents]
    exact = np.percentile(values, percents, method="inverted_cdf")
    assert (exact <= by_numpy).all()
    assert (by_numpy <= exact * 1.25).all()


def test_999_of_1000_are_99_9_percent() -> None:
    """999 of 1000 must count as 99.9 percent, although in floating point they are a little more."""
    counts = [0] * BUCKETS
    counts[0], counts[1] = 999, 1
    assert percentiles(counts, ENDS, [99.9, 99.91]).tolist() == [0, 1]  # type: ignore[union-attr]


def test_without_events_there_is_none() -> None:
    assert percentiles([0] * BUCKETS, ENDS, [99]) is None
    assert percentiles([], ENDS, [99]) is None


@pytest.mark.parametrize("percent", [-0.1, 100.1, float("nan")])
def test_a_percent_outside_0_to_100_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="must lie in 0"):
        percentiles([1], ENDS, [50, percent])
