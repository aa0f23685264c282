"""Goal: an arena hands out aligned, disjoint ranges, and counts refusals when full or sealed.

Method: sequences of takes with their offsets. Cannot prove: NUMA placement.
"""

from cext.testing.memory_probe import arena_takes


def test_takes_are_aligned_and_in_order():
    assert arena_takes(1 << 20, [(100, 64), (8, 64), (1, 1), (1, 4096)]) == (
        [0, 128, 136, 4096],
        0,
    )


def test_a_take_that_does_not_fit_is_refused_and_counted():
    assert arena_takes(8192, [(8000, 1), (193, 1), (192, 1)]) == ([0, None, 8000], 1)


def test_a_size_near_the_top_of_the_integers_does_not_wrap():
    assert arena_takes(8192, [(16, 16), (2**64 - 8, 16)]) == ([0, None], 1)


def test_an_alignment_that_is_no_power_of_two_is_refused():
    assert arena_takes(8192, [(16, 0), (16, 24)]) == ([None, None], 2)


def test_a_sealed_arena_refuses_everything():
    assert arena_takes(8192, [(16, 16), (16, 16), (16, 16)], seal_after=1) == (
        [0, None, None],
        2,
    )
