"""Free memory is touched, and given back."""

import os
import re

from machine import CHUNK_BYTES, free_bytes, touch_free_pages

from rmq.load.cpu import resident_bytes


def test_free_pages_are_touched_but_for_what_is_to_be_kept() -> None:
    before = resident_bytes(os.getpid())
    told = touch_free_pages(free_bytes() - 4 * CHUNK_BYTES)
    found = re.fullmatch(r"([\d,]+) MiB were touched before, in [\d.]+ s", told)
    assert found is not None
    # Other processes take and free memory meanwhile.
    assert 0 <= int(found[1].replace(",", "")) <= 8 * CHUNK_BYTES >> 20
    assert resident_bytes(os.getpid()) < before + CHUNK_BYTES


def test_nothing_is_touched_where_less_is_free() -> None:
    assert touch_free_pages(1 << 62).startswith("0 MiB")
