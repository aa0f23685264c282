"""Goal: a mirror ring's two halves are one memory and bad sizes are refused.

Method: write through one address, read through the other. Cannot prove: behaviour under threads.
"""

import pytest

from cext.testing.memory_probe import ring_is_mirrored


@pytest.mark.parametrize("size", [4096, 1 << 16, 1 << 24])
def test_both_halves_are_the_same_memory(size):
    assert ring_is_mirrored(size) is True


@pytest.mark.parametrize("size", [0, 1, 2048, 4097, 12288])
def test_a_size_that_is_no_power_of_two_of_at_least_a_page_is_refused(size):
    assert ring_is_mirrored(size) is None
