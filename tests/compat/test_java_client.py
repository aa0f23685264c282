"""The official Java clients 5.5.0 and 4.9.8, unchanged, with JSON and with binary headers.

Each test is one scenario of java/ (what it checks is written there). All scenarios of a client that
this session selected are given to its JVM at once, which runs four at a time; each uses topics and
groups of its own. What this cannot show: behaviour under load, and several brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from compat.conftest import JAVA_CLIENTS, SMALL_SEGMENT_BYTES
from compat.runner import ScenarioRunner
from compat.targets import Target

SENDS_AND_PULLS = [
    "send_sync",
    "send_creates_topic",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_selector",
    "send_parallel",
    "send_properties",
    "send_without_wait",
    "size_small_to_1m",
    "size_4m",
    "size_mixed_batch",
    "pull_statuses",
    "pull_tag_filter",
    "pull_holds_until_message",
    "pull_async",
    "view_by_id",
    "search_by_timestamp",
    "push_one_consumer",
    "push_three_consumers",
    "orderly_two_consumers",
    "lite_subscribe",
    "lite_assign_seek",
    "offset_pull_commit",
    "error_body_too_large",
    "error_no_such_queue",
    "error_codes_of_send",
    "error_codes_of_pull",
    "error_codes_of_others",
    "error_unknown_request",
]
THE_REST = [
    "pull_holds_until_timeout",
    "pull_reply_limits",
    "lite_subscribe_tag",
    "lite_commit_and_restart",
    "lite_two_consumers",
    "push_tag_filter",
    "push_broadcasting",
    "push_two_groups",
    "push_large_backlog",
    "push_from_first",
    "push_from_last_young",
    "orderly_one_consumer",
    "orderly_suspend",
    "offset_kept_by_client_restart",
]
# These need a broker with short times (fixture types_target).
NEW_TYPES = [  # 5.x only
    "type_timed",
    "type_recall",
    "offset_by_time",
    "pop_two_consumers",
    "pop_comes_again",
    "pop_taken_over",
    "pop_tag_filter",
]
OLD_TYPES = ["type_timed_by_property"]  # 5.x has methods for it, and refuses these properties
TYPES = [
    "type_delay_levels",
    "type_transaction",
    "transaction_other_producer",
    "transaction_immunity",
    "transaction_given_up",
    "type_retry_to_dead_letter",
    "retry_asked_level",
    "retry_default_limit",
    "retry_gives_up_at_once",
    "retry_own_sends",
    "retry_orderly_gives_up",
    "retry_batch_in_part",
    "request_reply",
    "request_without_reply",
]
# These need a broker with other settings (fixture strict_target).
STRICT = ["push_from_where_old", "error_topic_not_created"]
# Used in pairs by other test files, or by them only.
ELSEWHERE = {
    "writer_open",
    "writer_wait",
    "writer_close",
    "filter_push",
    "filter_pull",
    "filter_lite",
    "filter_wrong",
    "filter_class",
    "filter_evaluate",
    "filter_store_fill",
    "filter_store_read",
    "pop_sql_filter",
    "transaction_open",
    "transaction_end",
    "offset_before_broker_restart",
    "offset_after_broker_restart",
    "error_busy",
    "exchange_fill",
    "exchange_read",
    "exchange_query",
    "live_open",
    "live_send",
    "live_stream",
    "live_stop",
    "live_close",
    "live_counts",
    "retry_group_limits",
    "ordered_open",
    "ordered_send",
    "ordered_close",
    "replica_open",
    "replica_suspend",
    "replica_resume",
    "replica_wait",
    "replica_close",
    "static_send",
    "static_ranges",
    "trace_send_and_consume",
    "admin_call",
    "mqadmin",
}


def scenarios_of(client: str) -> list[str]:
    """Everything with JSON headers; with binary ones what does not repeat the same requests."""
    types = TYPES + (NEW_TYPES if "5.5.0" in client else OLD_TYPES)
    if client.endswith("binary"):
        return SENDS_AND_PULLS + types
    return SENDS_AND_PULLS + THE_REST + STRICT + types


def only_rmq_can(client: str, scenario: str) -> bool:
    """Pops with binary headers: RocketMQ's client cuts their codes to 16 bits, and its broker does
    not know what is left (test_pops.py)."""
    return client.endswith("binary") and scenario.startswith("pop_")


CASES = [(client, scenario) for client in JAVA_CLIENTS for scenario in scenarios_of(client)]


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> Callable[[str, str], dict[str, Any]]:
    """answers(client, scenario): the scenario's result; starts all selected ones of the client."""
    selected = [
        (item.callspec.params["client"], item.callspec.params["scenario"])
        for item in request.session.items
        if item.module is request.module and hasattr(item, "callspec")
    ]
    futures: dict[tuple[str, str], Future[dict[str, Any]]] = {}

    def start(client: str, scenario: str) -> None:
        strict = scenario in STRICT
        types = scenario in TYPES + NEW_TYPES + OLD_TYPES
        fixture = "strict_target" if strict else "types_target" if types else "target"
        try:
            broker: Target = request.getfixturevalue(fixture)
        except RuntimeError as no_broker:  # must fail the scenarios that need it, and no other
            futures[client, scenario] = Future()
            futures[client, scenario].set_exception(no_broker)
            return
        futures[client, scenario] = java(client).submit(
            scenario,
            nameServer=broker.name_server,
            broker=broker.broker,
            keyTopic="SELF_TEST_TOPIC" if strict else "TBW102",
            segmentBytes=SMALL_SEGMENT_BYTES,
            run=f"{session_id}_{client.replace('.', '')}",
        )

    def answer(client: str, scenario: str) -> dict[str, Any]:
        if (client, scenario) not in futures:
            # The slowest first: a broker deletes nothing in its first minute.
            names = [name for owner, name in selected if owner == client]
            for name in sorted(names, key=lambda name: name not in STRICT):
                start(client, name)
        return java(client).result(futures[client, scenario])

    return answer


@pytest.mark.parametrize(("client", "scenario"), CASES, ids=[f"{c}-{s}" for c, s in CASES])
def test_java_client_finds_what_it_expects(
    client: str,
    scenario: str,
    kind: str,
    answers: Callable[[str, str], dict[str, Any]],
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    if kind == "apache" and only_rmq_can(client, scenario):
        pytest.skip("RocketMQ cannot pop with binary headers")
    for name, value in answers(client, scenario).items():
        record_testsuite_property(f"{client} {scenario} {name}", value)


def test_every_java_scenario_is_in_a_test(java: Callable[[str], ScenarioRunner]) -> None:
    known = set(java("java-5.5.0-json").run("list")["scenarios"].split())
    assert known == {
        *SENDS_AND_PULLS,
        *THE_REST,
        *STRICT,
        *TYPES,
        *NEW_TYPES,
        *OLD_TYPES,
        *ELSEWHERE,
    }
