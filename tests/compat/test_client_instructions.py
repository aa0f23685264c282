"""What brokers pass on to consumers: mqadmin asks, and a client of each kind answers.

Requests 220, 221, 307 and 309 go over the connection of the consumer that they concern. With
--target=apache the same requests go through Apache's broker to the same clients.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat.live_groups import CLIENTS, LiveGroup, open_group
from compat.mqadmin import BROKER, Admin, eventually
from compat.runner import ScenarioRunner
from compat.targets import Target

from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode

SENT = 40
Opener = Callable[[Target, str], LiveGroup]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opener(
    client: str,
    request: pytest.FixtureRequest,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> Iterator[Opener]:
    opened: list[LiveGroup] = []

    def start(target: Target, name: str) -> LiveGroup:
        run = f"{session_id}_{client.replace('.', '').replace('-', '')}"
        group = open_group(client, java, lambda: request.getfixturevalue("go"), target, run, name)
        opened.append(group)
        return group

    yield start
    for group in opened:
        group.close()


def test_a_consumer_tells_about_itself_and_consumes_what_it_is_given(
    opener: Opener,
    client: str,
    admin: Admin,
    target: Target,
    java: Callable[[str], ScenarioRunner],
) -> None:
    live = opener(target, "told")
    live.send(SENT)
    eventually(admin, ["consumerProgress", "-g", live.group], "Consume Diff Total: 0", 30)
    listed = admin("consumerConnection", "-g", live.group)
    found = re.search(r"^(\S+@\S+) +127\.0\.0\.1:\d+ +(\S+)", listed, re.MULTILINE)
    assert found is not None, listed
    client_id = found[1]
    assert found[2] == {"go": "GO", "python": "PYTHON"}.get(client, "JAVA"), listed

    shown = admin("consumerStatus", "-g", live.group, "-i", client_id, "-s")
    Path(client_id).unlink(missing_ok=True)
    if client != "go" or "unsupported value: NaN" not in shown:  # Go's client divides by zero
        assert "#Consumer Properties#" in shown, shown
        assert re.search(rf"Topic: {live.topic} +ClassFilter: false +SubExpression: \*", shown)
        for queue in range(4):
            assert re.search(rf"^{live.topic} +{BROKER} +{queue} +10 ", shown, re.MULTILINE), shown

    status = java("java-5.5.0-json").run(
        "admin_call", nameServer=target.name_server, method="getConsumeStatus",
        a0=live.topic, a1=live.group, a2="null",
    )  # fmt: skip
    told = re.findall(rf"topic={live.topic}, brokerName={BROKER}, queueId=(\d+)\]=(\d+)",
                      str(status.get("result")))  # fmt: skip
    assert sorted(told) == [(str(queue), "10") for queue in range(4)], status

    given = java("java-5.5.0-json").run(
        "admin_call", nameServer=target.name_server, method="consumeMessageDirectly",
        a0=live.group, a1=client_id, a2=live.topic, a3=live.last_offset_id,
    )  # fmt: skip
    assert "consumeResult=CR_SUCCESS" in str(given.get("result")), given
    assert live.counts() == {**dict.fromkeys(range(SENT), 1), SENT - 1: 2}


def test_a_connected_consumer_is_told_to_go_back(opener: Opener, telling_target: Target) -> None:
    live = opener(telling_target, "back")
    live.send(SENT)
    time.sleep(1.2)
    moment = int(time.time() * 1000)
    time.sleep(0.2)
    live.send(SENT)
    with Cluster(telling_target.name_server) as cluster:
        broker = cluster.connect(telling_target.broker)
        asked = {"topic": live.topic, "group": live.group, "timestamp": moment, "isForce": "true"}
        end = time.monotonic() + 30
        reply = broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        while reply.code == 1 and time.monotonic() < end:  # no offsets are committed yet
            time.sleep(0.5)
            reply = broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        assert reply.code == 0, reply.remark
    found = live.counts(least=2, first=SENT)
    assert found == {**dict.fromkeys(range(SENT), 1), **dict.fromkeys(range(SENT, 2 * SENT), 2)}
    live.send(4)
