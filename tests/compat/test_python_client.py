"""rmq's Python client against rmq, and with --target=apache against Apache RocketMQ 5.5.0.

The expected values are the same for both: what a Python user sees does not depend on the broker.
"""

from __future__ import annotations

from typing import Any

from compat import python_scenarios as scenarios
from compat.targets import Target

SHARDS = {"order 1": [2], "order 2": [0], "order 3": [3], "kunde \u00e4": [2], "7": [0]}


def test_every_way_of_sending(target: Target, session_id: str) -> None:
    found = scenarios.ways_of_sending(target.name_server, session_id)
    first = {"body": "one", "flag": 7, "KEYS": "k1 k2", "TAGS": "TagA", "colour": "gr\u00fcn"}
    assert found == {
        "statuses": ["SEND_OK"] * 6,
        "offsets": [0, 1, 2, 3, 4, 5],
        "ids match": True,
        "messages": [
            first,
            *({"body": f"batch{i}", "flag": 0, "TAGS": "TagB"} for i in range(3)),
            {"body": "two", "flag": 0, "KEYS": "k3"},
            {"body": "oneway", "flag": 0},
        ],
        "large": [(12_000, 1)],
        "by key": ["one"],
        "by id": first,
        "times": True,
    }


def test_gathered_sends_arrive_once(target: Target, session_id: str) -> None:
    assert scenarios.many_gathered(target.name_server, session_id) == {
        "ends": {"SEND_OK": 5000}, "found": 5000, "queues used": 4, "doubled": 0,
    }  # fmt: skip


def test_sharding_keys_choose_the_same_queue_everywhere(target: Target, session_id: str) -> None:
    assert scenarios.sharded(target.name_server, session_id, list(SHARDS)) == SHARDS


def test_delayed_messages_come_later(target: Target, session_id: str) -> None:
    assert scenarios.delays(target.name_server, session_id) == {
        "order": ["now", "level", "timer"], "level waits 1 s": True, "timer waits 2 s": True,
        "property": "1",
    }  # fmt: skip


def test_transactions_end_as_they_should(types_target: Target, session_id: str) -> None:
    assert scenarios.transactions(types_target.name_server, session_id) == {
        "states": ["COMMIT", "ROLLBACK", "UNKNOWN"], "seen": ["COMMIT", "UNKNOWN"],
        "asked": ["UNKNOWN"], "tags": ["Tag", "Tag"], "later": 2,
    }  # fmt: skip


def test_requests_are_replied_to(target: Target, session_id: str) -> None:
    assert scenarios.requests(target.name_server, session_id) == {
        "reply": "re: question", "type": "reply",
    }  # fmt: skip


def test_refusals_have_the_same_codes(target: Target, session_id: str) -> None:
    found: dict[str, Any] = scenarios.refusals(target.name_server, session_id)
    assert found == {
        "unknown topic": 17, "unknown code": 3, "no such message": 1, "system topic": 16,
        "min, max": (0, 0), "beyond the end": (21, 0),
    }  # fmt: skip
