"""Goal: the checker of tests/ha names what may not be of the set of replicas in sync: an epoch with
two sets or two masters, an epoch that falls, and a member that lacks what was acknowledged.

Method: what controllers and brokers of three replicas (a, b, c) say, a few answers for each case.
Cannot prove: what happens between two answers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ha.history import AnyEvent, InSync, LogEnd, Sending, Settled, Started, Stored
from tests.ha.simulation import BROKER, TOPIC
from tests.ha.steps import found, in_sync, log_end

HISTORIES: list[tuple[str, list[AnyEvent], bool]] = [
    ("a set shrinks and grows",
     [in_sync(10, "abc", 1), in_sync(20, "ab", 2), in_sync(30, "abc", 3)], True),
    ("an epoch has two sets", [in_sync(10, "abc", 1), in_sync(20, "ab", 1)], False),
    ("the master is gone", [in_sync(10, "ab", 1), in_sync(20, "ab", 1, "", 2)], True),
    ("another one leads", [in_sync(10, "ab", 1), in_sync(20, "b", 2, "b", 3)], True),
    ("two lead in an epoch", [in_sync(10, "ab", 1), in_sync(20, "ab", 2, "b", 1)], False),
    ("a master that is not in sync", [in_sync(10, "bc", 1)], False),
    ("the set's epoch falls", [in_sync(10, "abc", 2), in_sync(20, "ab", 1)], False),
    ("the master's epoch falls",
     [in_sync(10, "ab", 1, "a", 2), in_sync(20, "ab", 2, "b", 1)], False),
    ("answers that overtake each other",
     [in_sync(20, "abc", 2),
      InSync(at=30, asked=15, broker=BROKER, members=("a", "b"), master="a", master_epoch=1,
             set_epoch=1)], True),
    ("one that falls behind an older one",
     [in_sync(10, "ab", 3), in_sync(20, "a", 2), in_sync(30, "ab", 3)], False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "events", "is_good"), HISTORIES, ids=lambda each: str(each)[:40])
def test_epochs_of_the_set_have_one_set_and_one_master(
    tmp_path: Path, name: str, events: list[AnyEvent], is_good: bool
) -> None:
    findings = found(tmp_path / "h.jsonl", events)
    assert ("set-history" not in findings.broken) is is_good, name


def acknowledged(at: int, log_offset: int) -> list[AnyEvent]:
    name = f"p/{log_offset}"
    return [Sending(at=at - 1, message=name, topic=TOPIC),
            Stored(at=at, message=name, topic=TOPIC, broker=BROKER,
                   log_offset=log_offset)]  # fmt: skip


def look(*, before: InSync, end: LogEnd, after: InSync) -> list[AnyEvent]:
    return [*acknowledged(10, 500), *acknowledged(30, 900), before, end, after]


MEMBERS: list[tuple[str, list[AnyEvent], bool]] = [
    ("it has all", look(before=in_sync(40, "ab"), end=log_end(50, "b", 1000),
                        after=in_sync(60, "ab")), True),
    ("it has none", look(before=in_sync(40, "ab"), end=log_end(50, "b", 0),
                         after=in_sync(60, "ab")), False),
    ("its log ends where the last begins",
     look(before=in_sync(40, "ab"), end=log_end(50, "b", 900), after=in_sync(60, "ab")), False),
    ("what was acknowledged later",
     look(before=in_sync(20, "ab"), end=log_end(30, "b", 600), after=in_sync(60, "ab")), True),
    ("it is the master", look(before=in_sync(40, "ab"), end=log_end(50, "a", 600),
                              after=in_sync(60, "ab")), False),
    ("it is not in sync", look(before=in_sync(40, "ab"), end=log_end(50, "c", 600),
                               after=in_sync(60, "ab")), True),
    ("it left the set meanwhile", look(before=in_sync(40, "ab"), end=log_end(50, "b", 600),
                                       after=in_sync(60, "a", 2)), True),
    ("it joins too early",
     [in_sync(35, "ac", 1), *look(before=in_sync(40, "abc", 2), end=log_end(50, "b", 600),
                                  after=in_sync(60, "abc", 2))], False),
    ("it was started again",
     [Started(at=35, broker="b"), Settled(at=70),
      *look(before=in_sync(40, "ab"), end=log_end(50, "b", 600), after=in_sync(60, "ab"))], True),
    ("another one was started again",
     [Started(at=35, broker="a"), Settled(at=70),
      *look(before=in_sync(40, "ab"), end=log_end(50, "b", 600), after=in_sync(60, "ab"))], False),
    ("it was started again, and all is settled",
     [Started(at=35, broker="b"), Settled(at=45),
      *look(before=in_sync(40, "ab"), end=log_end(50, "b", 600), after=in_sync(60, "ab"))], False),
    ("of another broker name",
     [*acknowledged(10, 500), in_sync(40, "ab"),
      LogEnd(at=50, asked=49, broker="other", address="b", end=0), in_sync(60, "ab")], True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "events", "is_good"), MEMBERS, ids=lambda each: str(each)[:40])
def test_a_member_has_what_was_acknowledged(
    tmp_path: Path, name: str, events: list[AnyEvent], is_good: bool
) -> None:
    findings = found(tmp_path / "h.jsonl", events)
    assert ("behind-member" not in findings.broken) is is_good, name
