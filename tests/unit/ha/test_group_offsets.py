"""Goal: the checker of tests/ha knows which offsets brokers may forget, and names all others.

Method: histories of a few steps of one group in one queue, each of which is good or breaks the rule
that its test is about. Cannot prove: that rounds bring all of them about.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ha.checker import check
from tests.ha.history import AnyEvent, OffsetRead, Settled, Started
from tests.ha.simulation import BROKER, PULLED, TOPIC
from tests.ha.steps import MS, committed, found, held, kill, offset_read, reset, write

OFFSET_CASES: list[tuple[str, list[AnyEvent], bool]] = [
    ("rises", [committed(10, 5), offset_read(20, 5)], True),
    ("falls", [committed(5, 2), committed(10, 5), offset_read(20, 2)], False),
    ("falls by a reset", [committed(10, 5), reset(15, 2), offset_read(20, 2)], True),
    ("falls by a reset that got no answer",
     [committed(10, 5), reset(15, 2, acked=False), offset_read(20, 2)], True),
    ("does not fall by a reset that got no answer",
     [committed(10, 5), reset(15, 2, acked=False), offset_read(20, 5)], True),
    ("a reset that a kill takes back",
     [committed(5, 5), reset(10 * MS, 2), *kill(12 * MS, 4), offset_read(20 * MS, 1)], False),
    ("falls below a reset",
     [committed(5, 1), committed(10, 5), reset(15, 2), offset_read(20, 1)], False),
    ("falls by a kill",
     [committed(5, 2), committed(10 * MS, 5), *kill(12 * MS, 4), offset_read(20 * MS, 2)], True),
    ("falls by more than a kill may take", [committed(5, 2), committed(MS, 5), *kill(12 * MS, 4),
                                            offset_read(20 * MS, 2)], False),
    ("falls before a kill",
     [committed(5, 2), committed(10 * MS, 5), offset_read(11 * MS, 2), *kill(12 * MS, 4)], False),
    ("falls while a kill lasts", [committed(5, 2), *kill(12 * MS, 4, lasts=9 * MS),
                                  committed(14 * MS, 5), offset_read(16 * MS, 2)], True),
    ("falls below what was there before the kill",
     [committed(5, 2), *kill(12 * MS, 4, lasts=9 * MS), committed(14 * MS, 5),
      offset_read(16 * MS, 1)], False),
    ("falls after a kill", [committed(5, 2), *kill(12 * MS, 4, lasts=9 * MS),
                            committed(22 * MS, 5), offset_read(23 * MS, 2)], False),
    ("falls to a reset that its reader did not follow yet",
     [committed(5, 5), reset(10, 2), committed(12, 6), offset_read(20, 2)], True),
    ("falls to a reset that its reader has followed",
     [committed(5, 5), reset(10, 2), committed(12, 3), committed(14, 6), offset_read(20, 2)],
     False),
    ("an answer that never came", [committed(5, 2), committed(10, 5, acked=False),
                                   offset_read(20, 2)], True),
    ("falls after it was read", [committed(5, 2), committed(9, 5, acked=False), offset_read(20, 5),
                                 offset_read(30, 2)], False),
    ("nothing where something was", [committed(10, 5), offset_read(20, -1)], False),
    ("a reset that who answers has not heard of",
     [reset(10 * MS, 2), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=4), offset_read(20 * MS, -1)],
     True),
    ("a reset that is to be there again",
     [reset(10 * MS, 2), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=4), offset_read(22 * MS, -1)],
     False),
    ("a reset of long before", [reset(7 * MS, 2), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=4),
                                offset_read(20 * MS, -1)], False),
    ("falls below what was there before a reset that is not heard of",
     [reset(5 * MS, 3), reset(10 * MS, 4), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=4),
      offset_read(20 * MS, 1)], False),
    ("what each broker had",
     [committed(5, 2), committed(10 * MS, 5), held(11 * MS, 5), *kill(12 * MS, 4),
      offset_read(20 * MS, 2)], False),
    ("what each had before all were killed",
     [committed(5, 2), committed(10 * MS, 5), held(11 * MS, 5), *kill(12 * MS, 4, copies=True),
      offset_read(20 * MS, 2)], True),
    ("what each had while it lasts",
     [committed(5, 2), *kill(12 * MS, 4, lasts=9 * MS), committed(14 * MS, 5), held(15 * MS, 5),
      offset_read(16 * MS, 2)], False),
    ("what who was started again does not have yet",
     [committed(5, 2), committed(10 * MS, 5), held(11 * MS, 5), *kill(12 * MS, 4),
      Started(at=14 * MS, broker="b"), offset_read(15 * MS, 2), Settled(at=16 * MS)], True),
    ("what who was started again has by now",
     [committed(5, 2), committed(10 * MS, 5), held(11 * MS, 5), *kill(12 * MS, 4),
      Started(at=14 * MS, broker="b"), Settled(at=15 * MS), offset_read(16 * MS, 2)], False),
    ("a reset while one after the other is asked",
     [committed(5, 5), reset(15, 2), held(20, 5, asked=10), offset_read(30, 2)], True),
    ("a lower commit while one after the other is asked",
     [committed(5, 5), committed(15, 2), held(20, 5, asked=10), offset_read(30, 2)], True),
    ("falls before all is settled",
     [committed(5, 2), *kill(12 * MS, 4, settles=True), committed(16 * MS, 5),
      Settled(at=18 * MS), offset_read(20 * MS, 2)], True),
    ("falls when all is settled",
     [committed(5, 2), *kill(12 * MS, 4, settles=True), Settled(at=15 * MS),
      committed(16 * MS, 5), offset_read(20 * MS, 2)], False),
    ("falls when it never settles",
     [committed(5, 2), *kill(12 * MS, 4, settles=True), committed(16 * MS, 5),
      offset_read(20 * MS, 2)], True),
    ("a commit of a client that was made before all was settled",
     [committed(5, 2), *kill(12 * MS, 4, settles=True), Settled(at=15 * MS),
      committed(16 * MS, 5, since=14 * MS), offset_read(20 * MS, 2)], True),
    ("a commit of a client that was made then",
     [committed(5, 2), *kill(12 * MS, 4, settles=True), Settled(at=15 * MS),
      committed(17 * MS, 5, since=16 * MS), offset_read(20 * MS, 2)], False),
    ("a question that another broker answers",
     [committed(5, 2), committed(10 * MS, 5), *kill(12 * MS, 4),
      OffsetRead(at=13 * MS, asked=11 * MS, group=PULLED, topic=TOPIC, broker=BROKER, queue_id=0,
                 offset=2)], True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "events", "is_good"), OFFSET_CASES, ids=lambda each: str(each)[:40]
)
def test_offsets_fall_by_a_reset_or_what_a_fault_may_take(
    tmp_path: Path, name: str, events: list[AnyEvent], is_good: bool
) -> None:
    findings = found(tmp_path / "h.jsonl", events)
    assert ("offset-fell" not in findings.broken) is is_good, name


RESET_CASES: list[tuple[str, list[AnyEvent], bool]] = [
    ("where it was", [committed(5, 5), reset(10, 2), offset_read(20, 5)], False),
    ("where it is sent", [committed(5, 5), reset(10, 2), offset_read(20, 2)], True),
    ("further on", [committed(5, 5), reset(10, 2), committed(15, 3), offset_read(20, 3)], True),
    ("there again", [committed(5, 5), reset(10, 2), committed(15, 5), offset_read(20, 5)], True),
    ("where it was, after it went",
     [committed(5, 5), reset(10, 2), offset_read(12, 2), offset_read(20, 5)], False),
    ("where it was, and it had gone on",
     [committed(5, 5), reset(10, 2), committed(15, 3), offset_read(20, 5)], False),
    ("where another reset had sent it", [reset(5, 7), reset(10, 2), offset_read(20, 7)], False),
    ("a commit at that time", [committed(9, 5), reset(10, 2), offset_read(20, 5)], True),
    ("a commit without an answer",
     [committed(5, 5, acked=False), reset(10, 2), offset_read(20, 5)], True),
    ("a reset without an answer",
     [committed(5, 5), reset(10, 2, acked=False), offset_read(20, 5)], True),
    ("lost by a kill", [committed(5, 5), reset(10 * MS, 2), *kill(12 * MS, 4),
                        offset_read(20 * MS, 5)], False),
    ("a reset since the fault, at an old master",
     [committed(5, 5), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=0), reset(14 * MS, 2),
      offset_read(16 * MS, 5)], True),
    ("a reset before the fault, at an old master",
     [committed(5, 5), reset(10 * MS, 2), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=0),
      offset_read(16 * MS, 5)], False),
    ("a reset since the fault, when it is over",
     [committed(5, 5), *kill(12 * MS, 4, lasts=9 * MS, hides_ms=0), reset(14 * MS, 2),
      offset_read(23 * MS, 5)], False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "events", "is_good"), RESET_CASES, ids=lambda each: str(each)[:40]
)
def test_a_group_is_not_back_where_it_was_before_a_reset(
    tmp_path: Path, name: str, events: list[AnyEvent], is_good: bool
) -> None:
    findings = found(tmp_path / "h.jsonl", events)
    assert ("reset-lost" not in findings.broken) is is_good, name


def test_it_is_counted_how_often_offsets_are_judged_after_a_change_of_masters(
    tmp_path: Path,
) -> None:
    before, fault = committed(MS, 2), kill(12 * MS, 4, settles=True)
    later = [Settled(at=15 * MS), committed(16 * MS, 5)]
    reads = [offset_read(11 * MS, 2), offset_read(14 * MS, 2), offset_read(20 * MS, 5)]
    findings = found(tmp_path / "h.jsonl", [before, *fault, *later, *reads])
    assert findings.broken == {}
    assert findings.counts["offsets kept over a fault"] == 1  # the last one is above a newer commit


def test_an_offset_is_known_from_the_first_time_it_was_asked_for(tmp_path: Path) -> None:
    """Whichever file of a history says so first."""
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write(one, [offset_read(20, 3), committed(30, 3)])
    write(other, [reset(10, 3)])
    assert "offset-unknown" not in check([one, other]).broken
    write(other, [reset(25, 3)])
    assert check([one, other]).broken["offset-unknown"] == 1
