"""The official Java client 5.5.0 on a broker of two shards: it notices nothing but their names.

The scenarios are those of test_java_client.py, which are told that there are two brokers: a topic
then has its queues on each. With --target=apache the same runs against a cluster of two Apache
brokers. The last tests kill shards while clients go on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from compat.java_scenarios import NEW_TYPES, SENDS_AND_PULLS, THE_REST, TYPES
from compat.runner import ScenarioRunner
from compat.targets import Target

from shards.command_client import CommandClient
from shards.messages import ShardStatus, Status, StatusReply

CLIENT = "java-5.5.0-json"
SCENARIOS = SENDS_AND_PULLS + THE_REST + TYPES + NEW_TYPES
KILLS = 6


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest,
    two_shards: Target,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> Callable[[str], dict[str, Any]]:
    """answers(scenario) returns its result; all scenarios that this session selected are started at
    once."""
    futures: dict[str, Future[dict[str, Any]]] = {}

    def answer(scenario: str) -> dict[str, Any]:
        if not futures:
            for item in request.session.items:
                if item.module is request.module and "scenario" in getattr(
                    getattr(item, "callspec", None), "params", {}
                ):
                    name = item.callspec.params["scenario"]  # type: ignore[attr-defined]
                    futures[name] = java(CLIENT).submit(
                        name,
                        nameServer=two_shards.name_server,
                        broker=two_shards.broker,
                        allBrokers=",".join(two_shards.brokers),
                        brokers=2,
                        run=f"{session_id}_two",
                    )
        return java(CLIENT).result(futures[scenario])

    return answer


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_client_finds_on_two_shards_what_it_expects(
    scenario: str, answers: Callable[[str], dict[str, Any]]
) -> None:
    answers(scenario)


class Killer:
    """Kills shards of a broker one after the other, each when the one before serves again."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def shards(self) -> list[ShardStatus]:
        with CommandClient(self.store) as bus:
            return bus.ask(Status(), StatusReply).shards

    def kill(self, index: int) -> float:
        """Kills a shard; returns the seconds until it serves again."""
        pid = self.shards()[index].pid
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        while True:
            shard = self.shards()[index]
            if shard.state == "serving" and shard.pid != pid:
                return time.monotonic() - began
            assert time.monotonic() - began < 30, shard
            time.sleep(0.02)


@pytest.mark.parametrize("listener", ["concurrent", "orderly"])
def test_java_clients_produce_and_consume_through_kills_of_shards(
    kind: str,
    two_shards: Target,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
    listener: str,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    if kind != "rmq":
        pytest.skip("shards are started again by rmq's supervisor")
    runner = java(CLIENT)
    common = {
        "nameServer": two_shards.name_server, "brokers": 2, "run": session_id,
        "as": f"kills_{listener}",
    }  # fmt: skip
    runner.run("live_open", listener=listener, **common)
    streaming = runner.submit("live_stream", **common)
    killer = Killer(two_shards.store)
    back = []
    for number in range(KILLS):
        time.sleep(1.5)
        back.append(killer.kill(number % 2))
    assert not streaming.done()
    time.sleep(1.5)
    runner.run("live_stop", **common)
    found = runner.result(streaming)
    assert found["stored"] >= found["acked"] > 100 * KILLS
    assert found["brokers"] == "broker-a broker-a-1"
    runner.run("live_send", count=40, **common)  # messages to each queue of both shards
    runner.run("live_close", **common)
    record_testsuite_property(f"kills {listener}", {**found, "back": back})
    print(f"{listener}: {found}; shards were back after {[round(each, 2) for each in back]} s")
