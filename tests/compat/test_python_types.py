"""What messages can do, with rmq's Python client against rmq, and with --target=apache against
Apache RocketMQ 5.5.0.

The expected values are the same for both: what a Python user sees does not depend on the broker.
"""

from __future__ import annotations

from compat import type_scenarios as scenarios
from compat.targets import Target


def test_messages_come_when_they_were_told_to_and_can_be_taken_back(
    types_target: Target, session_id: str
) -> None:
    assert scenarios.timed(types_target.name_server, session_id) == {
        "order": ["after", "level", "date", "at"],
        "tags, keys": [("Tag", f"k-{name}") for name in ("after", "level", "date", "at")],
        "not early": True, "not late": True, "handles": ["after", "at", "date", "recalled"],
        "recalled": True, "later": 4, "too late": 604, "four days": 13,
    }  # fmt: skip


def test_transactions_are_asked_about_until_they_end(types_target: Target, session_id: str) -> None:
    assert scenarios.checked(types_target.name_server, session_id) == {
        "states": ["COMMIT", "ROLLBACK", *["UNKNOWN"] * 4],
        "asked": {"unknown commit": 1, "unknown rollback": 1, "unknown unknown commit": 2,
                  "unknown unknown unknown rollback": 3},
        "seen": ["commit", "unknown commit", "unknown unknown commit"],
        "times": {"commit": None, "unknown commit": "1", "unknown unknown commit": "2"},
        "group": {True}, "ids": {True}, "flags": {8}, "tags": {"Tag"}, "prepared": True,
        "later": 3,
    }  # fmt: skip


def test_another_producer_of_the_group_is_asked(types_target: Target, session_id: str) -> None:
    assert scenarios.orphaned(types_target.name_server, session_id) == {
        "asked": {"unknown commit": 1, "unknown rollback": 1},
        "seen": ["commit", "unknown commit"],
    }


def test_every_kind_of_consumer_filters_by_sql(filter_target: Target, session_id: str) -> None:
    assert scenarios.by_sql(filter_target.name_server, session_id) == {
        "pushed": True, "later": True, "pulled": True, "popped": True,
    }  # fmt: skip


def test_wrong_expressions_have_the_same_codes(filter_target: Target, session_id: str) -> None:
    assert scenarios.wrong_sql(filter_target.name_server, session_id) == {
        "a > 5": 0, "a > 'five'": 23, "a BETWEEN 9 AND": 23, "a IN ()": 23, "": 23,
    }  # fmt: skip


BACK = {
    "went": 20, "same as by time": True, "counts": {1: 10, 3: 10}, "three times": list(range(10)),
}  # fmt: skip


def test_groups_go_back_in_time(target: Target, session_id: str) -> None:
    assert scenarios.back_in_time(target.name_server, session_id) == BACK


def test_consumers_that_are_told_go_back_in_time(telling_target: Target, session_id: str) -> None:
    assert scenarios.back_in_time(telling_target.name_server, session_id) == BACK


def test_what_has_gathered_is_skipped(target: Target, session_id: str) -> None:
    assert scenarios.skipped(target.name_server, session_id) == {
        "went": 14, "before": 0, "after": ["0", "1"],
    }  # fmt: skip


def test_consumers_do_what_brokers_hand_on(target: Target, session_id: str) -> None:
    assert scenarios.instructed(target.name_server, session_id) == {
        "code": 0, "type": "CONSUME_PASSIVELY", "subscriptions": [(False, "*"), (True, "A || B")],
        "queues": 2, "stacks": True, "status": (0, 1, 8),
        "direct": [("CR_SUCCESS", False, True), ("CR_LATER", False, True)], "again": 2, "gone": 1,
    }  # fmt: skip


def test_traces_tell_what_became_of_a_message(target: Target, session_id: str) -> None:
    assert scenarios.traced(target.name_server, session_id) == {
        "kinds": ["Pub", "SubAfter", "SubAfter"], "groups": ["traced--p", "traced-", "traced-"],
        "success": [True, False, True], "retries": [None, 0, 1],
        "what": {"tags": "Tag", "keys": "k1", "message_type": "normal"}, "topic": True,
    }  # fmt: skip
