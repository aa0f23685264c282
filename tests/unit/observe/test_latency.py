"""Percentiles of latency counts, and the differences of two counts."""

from rmq.observe.latency import edge, percentile, since


def test_a_percentile_is_the_upper_end_of_its_bucket() -> None:
    counts = [0] * 100
    counts[5], counts[35] = 99, 1
    assert percentile(counts, 0.5) == 5
    assert percentile(counts, 0.99) == 5
    assert percentile(counts, 0.991) == edge(35)
    assert percentile(counts, 1.0) == edge(35)


def test_without_events_there_is_no_percentile() -> None:
    assert percentile([0] * 100, 0.99) is None
    assert percentile([], 0.99) is None


def test_the_difference_is_what_happened_between_two_looks() -> None:
    assert since([3, 5], [1, 5]) == [2, 0]


def test_after_a_restart_everything_is_new() -> None:
    assert since([1, 0], [3, 5]) == [1, 0]
    assert since([1, 2, 3], [1]) == [1, 2, 3]
