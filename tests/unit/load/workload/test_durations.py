"""The counts of a period are the difference between two moments."""

from cext.load.histogram import Histogram
from rmq.load.workload.durations import Durations


def test_a_period_is_the_difference_of_two_moments() -> None:
    histogram = Histogram()
    histogram.add(1_000_000_000)
    before = Durations.of(histogram)
    for milliseconds in (1, 2, 3, 4):
        histogram.add(milliseconds * 1_000_000)
    period = Durations.of(histogram) - before
    assert period.count == 4
    assert period.mean_ns == 2_500_000
    for percent, wanted in ((25, 1e6), (50, 2e6), (100, 4e6)):
        assert wanted <= period.percentiles_ns([percent])[0] <= wanted * 1.008
    assert 4e6 <= period.maximum_ns <= 4e6 * 1.008


def test_sums_are_of_both() -> None:
    one, other = Histogram(), Histogram()
    one.add(100)
    other.add(200)
    both = Durations.of(one) + Durations.of(other) + Durations.none()
    assert (both.count, both.mean_ns, both.percentiles_ns([50, 100])) == (2, 150, [100, 200])


def test_nothing_is_zero() -> None:
    nothing = Durations.none()
    assert (nothing.count, nothing.mean_ns, nothing.maximum_ns) == (0, 0, 0)
    assert nothing.percentiles_ns([50, 99]) == [0, 0]
