"""Search of an offset by time, compared with a plain walk over all offsets.

Method: random times that never fall, every time around them, both directions, with unreadable
offsets mixed in. Cannot prove: that store times never fall in a real log (the log ensures that).
"""

import random

import pytest

from rmq.format.time_search import PROBES, search_offset


def walk(times, base, time_ms, upper):
    if upper:
        fitting = [base + i for i, stored in enumerate(times) if stored <= time_ms]
        return fitting[-1] if fitting else base
    fitting = [base + i for i, stored in enumerate(times) if stored >= time_ms]
    return fitting[0] if fitting else base + len(times)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("upper", [False, True])
def test_it_finds_what_a_walk_finds(seed, upper):
    choice = random.Random(seed)
    times = sorted(choice.randrange(1, 60) for _ in range(choice.randrange(0, 80)))
    base = choice.randrange(0, 1000)
    for time_ms in range(0, 62):
        got = search_offset(base, base + len(times), lambda n: times[n - base], time_ms, upper)
        assert got == walk(times, base, time_ms, upper), (times, time_ms)


@pytest.mark.parametrize("time_ms, upper, offset", [
    (20, False, 1), (20, True, 2), (25, False, 3), (25, True, 2), (31, False, 4), (31, True, 3),
    (5, False, 0), (5, True, 0), (10, False, 0), (10, True, 0), (30, True, 3)])  # fmt: skip
def test_the_example_of_its_page(time_ms, upper, offset):
    assert search_offset(0, 4, [10, 20, 20, 30].__getitem__, time_ms, upper) == offset


def test_an_empty_queue_gives_its_end():
    assert search_offset(7, 7, lambda n: 1 // 0, 5) == 7
    assert search_offset(7, 7, lambda n: 1 // 0, 5, upper=True) == 7


def test_blanks_at_the_start_are_passed_over():
    times = [-1] * 50 + list(range(100, 200))
    assert search_offset(0, 150, times.__getitem__, 100) in range(0, 51)
    assert search_offset(0, 150, times.__getitem__, 130) == 80
    assert search_offset(0, 150, times.__getitem__, 130, upper=True) == 80


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_record_never_makes_it_skip_a_readable_one(seed):
    choice = random.Random(seed)
    times = sorted(choice.randrange(1, 60) for _ in range(80))
    for n in choice.sample(range(80), 15):
        times[n] = -1
    for time_ms in range(62):
        got = search_offset(0, 80, times.__getitem__, time_ms)
        # Only unreadable offsets lie between the answer and the first fitting message.
        first = next((n for n in range(80) if times[n] >= time_ms), 80)
        assert got <= first, (times, time_ms)
        assert all(times[n] < 0 for n in range(got, first))


def test_a_long_unreadable_run_counts_as_expired():
    times = [-1] * (PROBES * 8) + [50, 60]
    reads = []

    def read(offset):
        reads.append(offset)
        return times[offset]

    assert search_offset(0, len(times), read, 55) == PROBES * 8 + 1
    assert len(reads) < PROBES * 8
