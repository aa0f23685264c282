"""The official Go client v2.1.2, unchanged.

Each test is one scenario of go/ (what it checks is written there). All scenarios that this session
selected are given to the Go process at once, which runs four at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from compat.runner import ScenarioRunner
from compat.targets import Target

SCENARIOS = [
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_hash_selector",
    "send_properties",
    "send_sizes",
    "send_to_absent_queue",
    "pull_from",
    "pull_poll",
    "push_one_consumer",
    "push_three_consumers",
    "push_tag_filter",
    "push_from_first",
    "push_broadcasting",
    "push_orderly",
    "orderly_suspend",
    "orderly_hand_over",
    "offset_kept_by_client_restart",
    "admin_topics",
]
# These need a broker with short times (fixture types_target).
TYPES = ["delays", "request_reply", "retry_asked_level", "retry_to_dead_letter", "transaction"]
# Driven by other test files.
ELSEWHERE = {
    "push_sql_filter",
    "offset_before_broker_restart",
    "offset_after_broker_restart",
    "live_open",
    "live_send",
    "live_close",
    "live_counts",
    "ordered_open",
    "ordered_close",
    "trace_send_and_consume",
    "transaction_open",
    "transaction_end",
}


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, go: ScenarioRunner, session_id: str
) -> Callable[[str], dict[str, Any]]:
    """answers(scenario) returns its result; all selected scenarios are started together."""
    futures: dict[str, Future[dict[str, Any]]] = {}
    for item in request.session.items:
        if item.module is request.module and hasattr(item, "callspec"):
            name = item.callspec.params["scenario"]
            fixture = "types_target" if name in TYPES else "target"
            target: Target = request.getfixturevalue(fixture)
            futures[name] = go.submit(
                name, nameServer=target.name_server, broker=target.broker, run=session_id
            )
    return lambda name: go.result(futures[name])


@pytest.mark.parametrize("scenario", SCENARIOS + TYPES)
def test_go_client_finds_what_it_expects(
    scenario: str,
    answers: Callable[[str], dict[str, Any]],
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    for name, value in answers(scenario).items():
        record_testsuite_property(f"go {scenario} {name}", value)


def test_every_go_scenario_is_in_a_test(go: ScenarioRunner) -> None:
    known = set(go.run("list")["scenarios"].split())
    assert known == {*SCENARIOS, *TYPES, *ELSEWHERE}
