"""Retries with the limits of a group, and order that is kept over kills: several processes, one
broker.

Consumers in order write a journal (ordered_group.py). What a killed consumer had begun may come
again. Members of one group may be of different clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.conftest import JAVA_CLIENTS
from compat.ordered_group import Group
from compat.runner import NEW_CLIENT, OLD_CLIENT, ScenarioRunner
from compat.targets import Target, make_target

from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode
from rmq.format import fastjson


def set_group(target: Target, group: str, **members: Any) -> None:
    """Changes a group as mqadmin's updateSubGroup does."""
    with Cluster(target.name_server) as cluster:
        body = fastjson.dumps({"groupName": group, **members})
        cluster.connect(target.broker).call(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body
        )


@pytest.mark.parametrize("client", ["java-5.5.0-json", "java-4.9.8-json"])
def test_a_group_says_how_often_and_over_how_many_queues_messages_come_again(
    client: str, java: Callable[[str], ScenarioRunner], types_target: Target, session_id: str
) -> None:
    run = f"{session_id}_{client.replace('.', '')}_limits"
    group = f"g_{run}_retry_group_limits_c"
    set_group(types_target, group, retryMaxTimes=2, retryQueueNums=3)
    java(client).run(
        "retry_group_limits", nameServer=types_target.name_server, run=run, times=2, queues=3
    )


# ---- in order


@pytest.fixture
def ordered_target(kind: str, tmp_path: Path) -> Iterator[Target]:
    broker = make_target(kind, tmp_path / "broker", {"flushConsumerOffsetInterval": "1000"})
    broker.start()
    yield broker
    broker.stop()


# Messages of one queue that may come again after a member was killed: one takes 2 ms, and some were
# cached. Go's client commits every 5 s, the others every second.
# then. Go's client commits every 5 s, the others every second.
REPEATS = {"go": 3600}
OTHERS_REPEAT = 1200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", [f"java-{NEW_CLIENT}", f"java-{OLD_CLIENT}", "go", "python"])
def test_order_is_kept_when_consumers_come_leave_and_are_killed(
    client: str,
    ordered_target: Target,
    tmp_path: Path,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> None:
    sender = java(next(iter(JAVA_CLIENTS)))
    group = Group(tmp_path, ordered_target.name_server, f"{session_id}_{client.replace('.', '')}")
    try:
        group.open("one", client)
        with group.sending(sender):
            group.wait_for_owners("one")
            group.open("two", client)  # after a rebalance it has queues of "one"
            group.wait_for_owners("one", "two")
            time.sleep(2)
            group.runners["two"].run("ordered_close", who="two")
            group.open("three", client)
            group.wait_for_owners("three")
            time.sleep(1)
            group.kill("three")  # its locks expire after 60 s
        group.wait_for(group.sent, 180)
        group.journal.check({"three"}, repeats_max=REPEATS.get(client, OTHERS_REPEAT))
    finally:
        group.close()


# Two clients in one group share its queues by the same rule.
PAIRS = [
    (f"java-{NEW_CLIENT}", f"java-{OLD_CLIENT}"),
    ("go", "go"),
    ("python", "python"),
    ("python", f"java-{NEW_CLIENT}"),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_order_is_kept_when_the_broker_is_killed(
    first: str,
    second: str,
    ordered_target: Target,
    tmp_path: Path,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> None:
    sender = java(next(iter(JAVA_CLIENTS)))
    group = Group(
        tmp_path, ordered_target.name_server, f"{session_id}_{first}_{second}_bk".replace(".", "")
    )
    try:
        group.open("one", first)
        group.open("two", second)
        with group.sending(sender):
            group.wait_for_owners("one", "two")
            for _ in range(2):
                time.sleep(1.5)
                ordered_target.end("kill")
                ordered_target.start()
            time.sleep(5)
        group.wait_for(group.sent, 180)
        group.journal.check(set(), repeats_max=group.sent)
    finally:
        group.close()
