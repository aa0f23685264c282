"""The latency buckets of the compiled half, compared with their Python twin."""

from hypothesis import given
from hypothesis import strategies as st

from cext.testing.base_probe import latency_counts
from rmq.observe.latency import BUCKETS, edge


def bucket_of(us: int) -> int:
    counts, _ = latency_counts([us])
    ((bucket, count),) = counts.items()
    assert count == 1
    return int(bucket)


def test_the_worked_example_of_the_header() -> None:
    assert latency_counts([5, 1000, 1000]) == ({5: 1, 35: 2}, 2005)
    assert edge(34) == 895
    assert edge(35) == 1023


def test_buckets_are_gapless_and_each_edge_is_its_own_bucket() -> None:
    edges = [edge(bucket) for bucket in range(BUCKETS)]
    assert edges == sorted(set(edges))
    assert [bucket_of(value) for value in edges] == list(range(BUCKETS))
    assert [bucket_of(value + 1) for value in edges[:-1]] == list(range(1, BUCKETS))


@given(st.integers(0, 2**26 - 1))
def test_an_edge_is_at_most_a_quarter_above_the_value(us: int) -> None:
    assert us <= edge(bucket_of(us)) <= us + max(0, us // 4)


def test_what_is_too_long_or_negative_counts_at_the_ends() -> None:
    assert latency_counts([2**40]) == ({BUCKETS - 1: 1}, 2**40)
    assert latency_counts([-5]) == ({0: 1}, 0)
