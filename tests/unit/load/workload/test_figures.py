"""A period is the difference between two moments, and the total includes what ended after the last
period."""

from collections import Counter

from cext.load.histogram import Histogram
from rmq.load.workload.durations import Durations
from rmq.load.workload.figures import Figures


def counted(*nanoseconds: int) -> Durations:
    histogram = Histogram()
    for each in nanoseconds:
        histogram.add(each)
    return Durations.of(histogram)


def figures(seconds: float, sent: int, failures: dict[int, int], *publish: int) -> Figures:
    return Figures(
        seconds=seconds, wanted=3 * sent, sent=sent, received=2 * sent,
        failed_sends=Counter(failures), failed_pulls=Counter(), publish=counted(*publish),
        delay=counted(), due=counted(*publish), end_to_end=counted(),
    )  # fmt: skip


def test_a_period_has_what_came_in_it() -> None:
    first = figures(100.0, 3, {2: 1}, 10, 20, 20)
    period = figures(102.5, 5, {2: 1, 14: 2}, 10, 20, 20, 40, 50) - first
    assert (period.seconds, period.sent, period.received) == (2.5, 2, 4)
    assert period.failed_sends == Counter({14: 2})
    assert period.publish.count == 2 and period.publish.percentiles_ns([0, 100]) == [40, 50]


def test_what_ended_behind_the_last_moment_is_among_durations_and_not_in_the_rate() -> None:
    whole = figures(2.0, 2, {}, 10, 20).settled(figures(9.0, 3, {-1: 4}, 10, 20, 7_000_000_000))
    assert (whole.seconds, whole.wanted, whole.sent, whole.received) == (2.0, 6, 2, 4)
    assert whole.publish.maximum_ns >= 7_000_000_000
    assert whole.failed_sends == Counter({-1: 4})
