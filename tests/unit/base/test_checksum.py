"""Goal: the checksum is zlib's for every length and alignment, by each method that this processor
has.

Method: all lengths 0..1300 (so every path through folding, narrow and wide, and its tails) and
random ranges are compared with zlib. Not shown here: the aarch64 and the wide method, unless this
runs on such a machine.
"""

import random
import zlib

from hypothesis import given
from hypothesis import strategies as st

from cext.testing.base_probe import (
    body_crc_of,
    crc32_by_all_ways,
    crc32_of,
    wide_parts_in_use_after,
)

DATA = random.Random(7).randbytes(4096)


def test_known_value() -> None:
    assert crc32_of(b"123456789") == 0xCBF43926
    assert body_crc_of(b"123456789") == 0x4BF43926
    assert body_crc_of(b"") == 0


def test_every_length_and_alignment_equals_zlib() -> None:
    for length in range(1301):
        data = DATA[length % 17 : length % 17 + length]
        assert crc32_of(data) == zlib.crc32(data), length
        assert set(crc32_by_all_ways(data)) == {zlib.crc32(data)}, length


@given(st.binary(max_size=2000), st.binary(max_size=300))
def test_continuing_equals_the_whole(first: bytes, second: bytes) -> None:
    assert crc32_of(second, crc32_of(first)) == zlib.crc32(first + second)


def test_wide_registers_are_left_clean() -> None:
    """The wide registers must be left clean: dirty ones once made all SSE instructions of the
    thread slower, and a checksum four times slower."""
    for length in (1, 100, 256, 300, 1024, 1211):
        assert wide_parts_in_use_after(DATA[:length]) <= 0
