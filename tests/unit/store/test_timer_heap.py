"""The heap of timers, compared with a sorted list."""

import heapq
import random

from hypothesis import given
from hypothesis import strategies as st

from cext.testing.timer_probe import DrivenHeap

KEYS = st.tuples(st.integers(0, 50), st.integers(0, 50))


@given(st.lists(st.one_of(KEYS, st.none()), max_size=400))
def test_entries_come_out_in_the_order_of_their_keys(steps: list[tuple[int, int] | None]) -> None:
    heap, model = DrivenHeap(400), list[tuple[int, int]]()
    for key in steps:
        if key is not None:
            heap.push(*key)
            heapq.heappush(model, key)
        elif model:
            assert heap.pop() == heapq.heappop(model)
        assert len(heap) == len(model)
    assert [heap.pop() for _ in range(len(heap))] == sorted(model)


@given(st.lists(KEYS, min_size=1, max_size=1000), st.integers(1, 1000))
def test_a_trim_keeps_exactly_what_is_before_the_key_it_gives(
    keys: list[tuple[int, int]], keep: int
) -> None:
    heap = DrivenHeap(1000)
    for key in keys:
        heap.push(*key)
    least = heap.trim(keep)
    kept = [heap.pop() for _ in range(len(heap))]
    assert kept == sorted(key for key in keys if key < least)
    assert least == (2**63 - 1, 0) or least in keys


def test_a_trim_keeps_about_as_many_as_it_is_asked_for() -> None:
    chance = random.Random(7)
    heap = DrivenHeap(100_000)
    for number in range(100_000):
        heap.push(chance.randrange(10**9), number)
    heap.trim(25_000)
    assert 15_000 < len(heap) < 35_000


def test_a_trim_of_one_time_only_goes_by_place() -> None:
    heap = DrivenHeap(1000)
    for number in range(1000):
        heap.push(5, number)
    _, place = heap.trim(250)
    assert 100 < place < 400
    assert [heap.pop() for _ in range(len(heap))] == [(5, n) for n in range(place)]
