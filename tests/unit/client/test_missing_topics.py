"""A retry topic that does not exist yet is looked for again soon, however often it was looked
for."""

from __future__ import annotations

import pytest
from support.driven_clock import DrivenClock

from rmq.client.push.missing_topics import FIRST_MS, LONGEST_MS, MissingTopics

pytestmark = pytest.mark.still_clock


def test_many_looks_in_a_row_take_the_next_no_further_away(clock: DrivenClock) -> None:
    """Many looks in a row must not make the pause longer: each new member and each changed route
    has all shares computed anew."""
    missing = MissingTopics()
    assert [missing.pause_ms("%RETRY%g") for _ in range(10)] == [FIRST_MS] * 10


def test_the_pause_grows_with_the_time_it_is_missing(clock: DrivenClock) -> None:
    missing, looked_after = MissingTopics(), []
    for _ in range(8):
        pause_ms = missing.pause_ms("%RETRY%g")
        looked_after.append(pause_ms)
        clock.advance(pause_ms / 1000)
    assert looked_after == [1_000, 1_000, 2_000, 4_000, 8_000, 16_000, LONGEST_MS, LONGEST_MS]


def test_one_that_was_found_begins_anew(clock: DrivenClock) -> None:
    missing = MissingTopics()
    missing.pause_ms("%RETRY%g")
    clock.advance(100)
    assert missing.pause_ms("%RETRY%h") == FIRST_MS, "each has a time of its own"
    missing.found("%RETRY%g")
    missing.found("%RETRY%never")
    assert missing.pause_ms("%RETRY%g") == FIRST_MS
