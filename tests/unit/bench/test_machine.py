"""Free memory is touched, and given back."""

import re

from machine import CHUNK_BYTES, free_bytes, touch_free_pages


def test_free_pages_are_touched_but_for_what_is_to_be_kept() -> None:
    before = free_bytes()
    wanted = 4 * CHUNK_BYTES
    told = touch_free_pages(before - wanted)
    found = re.fullmatch(r"([\d,]+) MiB were touched before, in [\d.]+ s", told)
    assert found is not None
    # Others take and give memory meanwhile.
    assert int(found[1].replace(",", "")) % (CHUNK_BYTES >> 20) == 0
    assert free_bytes() > before - 64 * CHUNK_BYTES


def test_nothing_is_touched_where_less_is_free() -> None:
    assert touch_free_pages(1 << 62).startswith("0 MiB")
