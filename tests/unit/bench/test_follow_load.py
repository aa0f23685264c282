"""Latency from when a message was due until it came; real ones: tests/compat/test_bench_loads."""

import numpy as np
import pytest
from follow_load import due_latency_us


def arrivals(*pairs: tuple[int, int]):
    return np.array(pairs, np.int64).reshape(-1, 2)


def test_latency_counts_from_the_schedule_whatever_the_order() -> None:
    # A thousand a second: the second one was due a millisecond after the start.
    found = due_latency_us(arrivals((8, 3_000_000), (7, 1_500_000)), 7, 1_000_000, 1000.0)
    assert found["p50"] == pytest.approx(750.0)
    assert found["p99.9"] == pytest.approx(1000.0, rel=0.01)


def test_what_was_not_sent_is_an_error() -> None:
    for number in (-1, 6):
        with pytest.raises(ValueError, match="came"):
            due_latency_us(arrivals((number, 1)), 7, 0, 1.0)
    assert due_latency_us(arrivals(), 7, 0, 1.0) == {}
