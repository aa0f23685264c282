"""The official Java clients 5.5.0 and 4.9.8, unchanged, with JSON and with binary headers.

Each test is one scenario of java/ (what it checks is written there). All scenarios of a client that
this session selected are given to its JVM at once, which runs four at a time; each uses topics and
groups of its own. Not shown here: behaviour under load, and several brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from compat.conftest import JAVA_CLIENTS, SMALL_SEGMENT_BYTES
from compat.java_scenarios import (
    ELSEWHERE,
    NEW_TYPES,
    OLD_TYPES,
    SENDS_AND_PULLS,
    STRICT,
    THE_REST,
    TYPES,
)
from compat.runner import ScenarioRunner
from compat.targets import Target


def scenarios_of(client: str) -> list[str]:
    """All scenarios with JSON headers; with binary headers only those that do not repeat the same
    requests."""
    types = TYPES + (NEW_TYPES if "5.5.0" in client else OLD_TYPES)
    if client.endswith("binary"):
        return SENDS_AND_PULLS + types
    return SENDS_AND_PULLS + THE_REST + STRICT + types


def only_rmq_can(client: str, scenario: str) -> bool:
    """Whether only rmq can serve it: pops with binary headers, whose codes RocketMQ's client cuts
    to 16 bits; RocketMQ's broker does not know what is left (test_pops.py)."""
    return client.endswith("binary") and scenario.startswith("pop_")


CASES = [(client, scenario) for client in JAVA_CLIENTS for scenario in scenarios_of(client)]


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> Callable[[str, str], dict[str, Any]]:
    """answers(client, scenario) returns the scenario's result; the first call starts all selected
    scenarios of the client."""
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
        # It must fail the scenarios that need this broker, and no others.
        except RuntimeError as no_broker:
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
            # The slowest comes first: a broker deletes nothing in its first minute.
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
