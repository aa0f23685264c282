"""The histogram keeps its promise: percentiles at most 0.8 % too high, extremes exact.

Method: known values, and random ones against a sorted list.
"""

import random

import pytest

from cext.load.histogram import Histogram
from rmq.load.latency import percentile_ns


def filled(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def test_an_empty_histogram_answers_zero():
    histogram = Histogram()
    assert (histogram.count, percentile_ns(histogram, 99), histogram.maximum, histogram.mean) == (
        0,
    ) * 4


def test_small_values_are_exact():
    histogram = filled(range(1, 101))
    assert [percentile_ns(histogram, p) for p in (1, 50, 90, 99, 100)] == [1, 50, 90, 99, 100]
    assert (histogram.minimum, histogram.maximum, histogram.mean) == (1, 100, 50.5)


@pytest.mark.parametrize("top", [300, 100_000, 10_000_000, 3_000_000_000])
def test_percentiles_stay_within_the_promised_error(top):
    chance = random.Random(top)
    values = [chance.randrange(top) for _ in range(20_000)]
    histogram = filled(values)
    values.sort()
    for percent in (1, 25, 50, 75, 90, 99, 99.9, 99.99, 100):
        exact = values[max(0, round(percent / 100 * len(values) + 0.499999) - 1)]
        assert exact <= percentile_ns(histogram, percent) <= exact * (1 + 1 / 128) + 1


def test_values_out_of_range_are_kept_at_the_ends():
    histogram = filled([-5, 1 << 60])
    assert histogram.minimum == 0
    assert percentile_ns(histogram, 100) == histogram.maximum == (1 << 44) - 1


def test_merge_is_the_same_as_recording_everything_in_one():
    low, high = list(range(0, 5000, 7)), list(range(4000, 900_000, 977))
    merged = filled(low)
    merged.merge(filled(high))
    merged.merge(Histogram())
    whole = filled(low + high)
    assert [percentile_ns(merged, p / 10) for p in range(1001)] == [
        percentile_ns(whole, p / 10) for p in range(1001)
    ]
    assert (merged.count, merged.mean) == (whole.count, whole.mean)
    assert (merged.minimum, merged.maximum) == (whole.minimum, whole.maximum)


@pytest.mark.parametrize("percent", [-0.1, 100.1])
def test_a_percentile_outside_0_to_100_is_refused(percent):
    with pytest.raises(ValueError):
        percentile_ns(filled([1]), percent)
