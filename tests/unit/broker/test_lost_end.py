"""A replica that lost the end of its log says so until it has the whole log again.

Goal: the report outlives restarts, and ends when the replica has what a master had, not before.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq.broker.replication.controller_heartbeats import ReplicaState
from rmq.broker.replication.epochs import NO_EPOCH
from rmq.broker.replication.lost_end import LostEnd


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rmqLostEnd"


def test_a_log_that_is_whole_has_lost_nothing(path: Path) -> None:
    lost = LostEnd(path)
    lost.follows(7000)
    assert not lost.has_lost(0)
    lost.forget()
    assert not path.exists()


def test_it_is_said_until_the_log_has_what_the_master_had(path: Path) -> None:
    LostEnd(path).note("the log ends at 0 and was on the disk up to 5000")
    lost = LostEnd(path)  # as at a later start
    assert lost.has_lost(9000), "nobody has said what there is to have"
    lost.follows(7000)
    assert lost.has_lost(6999)
    assert not lost.has_lost(7000)
    assert not LostEnd(path).has_lost(0)


def test_what_is_lost_once_more_counts_from_the_next_master(path: Path) -> None:
    lost = LostEnd(path)
    lost.note("first")
    lost.follows(100)
    lost.note("again")
    assert lost.has_lost(100)
    assert path.read_text() == "first\n"


def test_a_file_that_cannot_go_is_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir()  # a directory, which unlink cannot remove
    lost = LostEnd(path)
    lost.follows(7000)
    assert lost.has_lost(7000) and lost.has_lost(7000)
    (said,) = caplog.records
    assert "the file that says otherwise stays" in said.getMessage()


def test_who_leads_all_the_same_has_lost_nothing_any_more(path: Path) -> None:
    lost = LostEnd(path)
    lost.note("first")
    lost.forget()
    assert not lost.has_lost(0) and not LostEnd(path).has_lost(0)


def test_a_log_without_a_byte_is_empty_wherever_it_begins() -> None:
    for start in (0, 3 << 30):
        empty = ReplicaState(NO_EPOCH, start, start, True, NO_EPOCH, False, start)
        assert (empty.lacks, empty.is_empty, empty.has_lost) == ("is empty", True, False)
        begun = ReplicaState(NO_EPOCH, start + 9, start, True, NO_EPOCH, False, start)
        assert (begun.lacks, begun.is_empty) == ("", False)


@pytest.mark.parametrize(
    ("newest", "has_lost_end", "words"),
    [
        (5, False, ""),
        (6, False, "has lost epoch 6 in a power cut"),
        (5, True, "has lost the end of its log"),
        (6, True, "has lost epoch 6 in a power cut"),
    ],
)
def test_the_controller_hears_of_it(newest: int, has_lost_end: bool, words: str) -> None:
    replica_state = ReplicaState(5, 100, 100, True, newest, has_lost_end)
    assert replica_state.lacks == words
    assert replica_state.has_lost == bool(words)
