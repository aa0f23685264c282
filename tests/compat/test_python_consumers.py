"""rmq's Python consumers against rmq, and with --target=apache against Apache RocketMQ 5.5.0.

The expected values are the same for both: what a Python user sees does not depend on the broker.
"""

from __future__ import annotations

from pathlib import Path

from compat import consumer_scenarios as scenarios
from compat.targets import Target


def test_members_share_what_their_tag_chooses(target: Target, session_id: str) -> None:
    assert scenarios.pushed(target.name_server, session_id) == {
        "shares": [1, 1, 2], "bodies": True, "tags": {"A"}, "properties": True,
        "committed": True, "members": True,
    }  # fmt: skip


def test_failures_come_again_and_end_as_dead_letters(target: Target, session_id: str) -> None:
    assert scenarios.retried(target.name_server, session_id) == {
        "tries": {"0": 1, "1": 3, "2": 2, "3": 1}, "times": [1, 2], "topics": {True},
        "same id": {True}, "origin": {True}, "tags": {"B"}, "dead": [(b"1", True, "1")],
    }  # fmt: skip


def test_broadcasts_reach_every_member(target: Target, session_id: str, tmp_path: Path) -> None:
    assert scenarios.broadcast(target.name_server, session_id, tmp_path) == {
        "all": [True, True], "rest": ["0", "1", "2"], "later": 3,
    }  # fmt: skip


def test_order_is_kept_through_failures_and_hand_overs(target: Target, session_id: str) -> None:
    assert scenarios.in_order(target.name_server, session_id) == {
        "in order": True, "counts": {1: 299, 2: 1}, "twice": ["7"], "overlaps": [], "later": 0,
    }  # fmt: skip


def test_popped_messages_are_acknowledged_or_come_again(target: Target, session_id: str) -> None:
    assert scenarios.popped(target.name_server, session_id) == {
        "first": True, "again": ["7", "8"], "times": [0, 1, 1], "topics": {True}, "same id": True,
        "rest": 0,
    }  # fmt: skip


def test_members_that_pull_share_commit_and_go_on(target: Target, session_id: str) -> None:
    assert scenarios.pulled(target.name_server, session_id) == {
        "first": True, "in order": True, "committed": ([None, None], [20, 20], 40),
        "shares": [1, 1], "rest": [0, 1, 2, 3],
    }  # fmt: skip


def test_queues_by_hand_are_read_from_anywhere(target: Target, session_id: str) -> None:
    assert scenarios.sought(target.name_server, session_id) == {
        "everything": True, "from 17": [17, 18, 19], "from then": True, "paused": (True, 0),
        "from begin": True, "at end": (20, 0), "committed": 3,
    }  # fmt: skip
