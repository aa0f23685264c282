"""mqadmin 5.5.0 on a broker of two shards, which for mqadmin are two brokers of one cluster.

A command with -b concerns one shard, with -c both. What is kept for each broker (offsets, messages,
statistics) is shown for each shard, as with two brokers of Apache's, against which these tests run
too. In addition every shard knows the machine's consumers and run-time settings (only_shards).
Clients of a group are connected to both shards.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.mqadmin import CLUSTER, Admin, Live, admin_of, eventually, fields
from compat.runner import ScenarioRunner
from compat.targets import Target

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format import fastjson

NAMES = ["broker-a", "broker-a-1"]
MESSAGES = 80  # to 2 x 4 queues


@pytest.fixture(scope="module")
def only_shards(kind: str) -> None:
    if kind != "rmq":
        pytest.skip("Apache's brokers do not answer for one another")


@pytest.fixture(scope="module")
def admin(two_shards: Target, compat_folder: Path) -> Iterator[Admin]:
    with admin_of(two_shards, compat_folder / "mqadmin-two") as run:
        yield run


@pytest.fixture(scope="module")
def live(
    two_shards: Target, java: Callable[[str], ScenarioRunner], session_id: str
) -> Iterator[Live]:
    runner = java("java-5.5.0-json")
    common = {
        "nameServer": two_shards.name_server, "brokers": 2, "run": session_id, "as": "admintwo",
    }  # fmt: skip
    opened = runner.run("live_open", **common)
    sent = runner.run("live_send", count=MESSAGES, **common)
    time.sleep(2)  # heartbeats come every 1.5 s
    yield Live(
        opened["topic"], opened["consumerGroup"], opened["producerGroup"], sent["lastOffsetId"]
    )
    runner.run("live_close", **common)


def test_cluster_list_shows_both(admin: Admin, two_shards: Target) -> None:
    rows = [line.split() for line in admin("clusterList").splitlines() if line.startswith(CLUSTER)]
    assert [row[:4] for row in rows] == [
        [CLUSTER, name, "0", address]
        for name, address in zip(NAMES, two_shards.brokers, strict=True)
    ]


def rows_of(admin: Admin, topic: str) -> dict[str, int]:
    """Broker name -> write queues, as topicRoute shows them."""
    shown = admin("topicRoute", "-t", topic)
    if "CODE: 17" in shown:
        return {}
    route = fastjson.loads_object(shown[shown.index("{") : shown.rindex("}") + 1])
    return {row["brokerName"]: row["writeQueueNums"] for row in route["queueDatas"]}


def until_routed(admin: Admin, topic: str, expected: dict[str, int]) -> None:
    end = time.monotonic() + 15
    while (found := rows_of(admin, topic)) != expected and time.monotonic() < end:
        time.sleep(0.3)
    assert found == expected


def group_times(admin: Admin, group: str) -> list[str]:
    """The group's retryMaxTimes on each broker that has the group."""
    return re.findall(r"retryMaxTimes\s*= +(\d+)", admin("getConsumerConfig", "-g", group))


@pytest.mark.parametrize("told", [0, 1])
def test_topic_told_to_one_broker_is_on_that_one(
    admin: Admin, two_shards: Target, session_id: str, told: int
) -> None:
    topic = f"{session_id}_one_{told}"
    this, other = two_shards.brokers[told], two_shards.brokers[1 - told]
    words = ["-t", topic, "-r", "3", "-w", "3"]
    done = admin("updateTopic", "-b", this, *words)
    assert f"create topic to {this} success." in done
    until_routed(admin, topic, {NAMES[told]: 3})
    admin("updateTopic", "-b", other, "-t", topic, "-r", "5", "-w", "5")
    until_routed(admin, topic, {NAMES[told]: 3, NAMES[1 - told]: 5})
    rows = [line.split() for line in admin("topicStatus", "-t", topic).splitlines()]
    assert sorted(row[:2] for row in rows if row and row[0] in NAMES) == sorted(
        [[NAMES[told], str(queue)] for queue in range(3)]
        + [[NAMES[1 - told], str(queue)] for queue in range(5)]
    )
    changed = admin("updateTopicPerm", "-b", other, "-t", topic, "-p", "4")
    assert "update topic perm from 6 to 4" in changed
    # The command takes the numbers of queues from the row of any broker.
    both = r'(?s)("perm":(4|6)\b.*){2}'
    route = eventually(admin, ["topicRoute", "-t", topic], both)
    assert sorted(re.findall(r'"perm":(\d)', route)) == ["4", "6"]
    admin("deleteTopic", "-c", CLUSTER, "-t", topic)
    eventually(admin, ["topicRoute", "-t", topic], "CODE: 17")


def test_topic_told_to_the_cluster_is_on_all_until_it_is_deleted(
    admin: Admin, session_id: str
) -> None:
    topic = f"{session_id}_all"
    admin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "3", "-w", "3")
    until_routed(admin, topic, dict.fromkeys(NAMES, 3))
    admin("deleteTopic", "-c", CLUSTER, "-t", topic)
    eventually(admin, ["topicRoute", "-t", topic], "CODE: 17")


def test_topic_deleted_on_one_broker_is_kept_by_the_other(
    admin: Admin, two_shards: Target, session_id: str
) -> None:
    """With request 215 to one broker; mqadmin sends it to whole clusters only."""
    topic = f"{session_id}_kept"
    admin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2")
    until_routed(admin, topic, dict.fromkeys(NAMES, 2))
    connections = [Connection(address) for address in two_shards.brokers]
    connections[0].call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    time.sleep(1)
    tables = [
        fastjson.loads_object(each.call(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
        for each in connections
    ]
    assert [topic in table for table in tables] == [False, True]
    for each in connections:
        each.close()
    admin("deleteTopic", "-c", CLUSTER, "-t", topic)


@pytest.mark.parametrize("told", [0, 1])
def test_group_told_to_one_broker_is_on_that_one(
    admin: Admin, two_shards: Target, session_id: str, told: int
) -> None:
    group = f"{session_id}_one_group_{told}"
    this, other = two_shards.brokers[told], two_shards.brokers[1 - told]
    words = ["-g", group, "-s", "true", "-d", "false", "-q", "2"]
    done = admin("updateSubGroup", "-b", this, *words, "-r", "5")
    assert f"create subscription group to {this} success." in done
    tables = [on_broker(address, group) for address in (this, other)]
    assert [table and table["retryMaxTimes"] for table in tables] == [5, None]
    admin("updateSubGroup", "-b", other, *words, "-r", "7")
    assert sorted(group_times(admin, group)) == ["5", "7"]
    deleted = admin("deleteSubGroup", "-b", this, "-g", group)
    assert f"delete subscription group [{group}] from broker [{this}] success." in deleted
    tables = [on_broker(address, group) for address in (this, other)]
    # While Apache deletes the group it makes it again by itself.
    assert [table and table["retryMaxTimes"] for table in tables] in ([None, 7], [16, 7])


def test_group_told_to_the_cluster_is_on_all(admin: Admin, session_id: str) -> None:
    group = f"{session_id}_all_group"
    admin("updateSubGroup", "-c", CLUSTER, "-g", group, "-r", "5")
    assert group_times(admin, group) == ["5", "5"]


def on_broker(address: str, group: str) -> dict[str, Any] | None:
    """The group on this broker; None: the broker does not have it."""
    connection = Connection(address)
    try:
        body = connection.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body
    finally:
        connection.close()
    found: dict[str, Any] | None = fastjson.loads_object(body)["subscriptionGroupTable"].get(group)
    return found


def test_topic_of_a_java_client_is_on_all(admin: Admin, live: Live) -> None:
    """createTopic of its producer is sent to every broker in the route of the key topic."""
    until_routed(admin, live.topic, dict.fromkeys(NAMES, 4))


@pytest.mark.usefixtures("only_shards")
def test_connections_are_the_same_whichever_shard_is_asked(
    admin: Admin, two_shards: Target, live: Live
) -> None:
    found = []
    for broker in two_shards.brokers:
        shown = admin("consumerConnection", "-g", live.consumer_group, "-b", broker)
        found.append(re.findall(r"^(\S+@\S+) +127\.0\.0\.1:\d+ +JAVA +V5_5_0", shown, re.MULTILINE))
        assert re.search(rf"^{live.topic} +\*", shown, re.MULTILINE)
        assert "ConsumeType: CONSUME_PASSIVELY" in shown
    assert found[0] == found[1] != []
    shown = admin("producerConnection", "-g", live.producer_group, "-t", live.topic)
    assert len(re.findall(r"^0\d+ +\S+@\S+ +127\.0\.0\.1:\d+ +JAVA", shown, re.MULTILINE)) == 1


def test_progress_and_statistics_are_those_of_each_shard(
    admin: Admin, two_shards: Target, live: Live
) -> None:
    def progress() -> list[list[str]]:
        output = admin("consumerProgress", "-g", live.consumer_group)
        rows = [line.split() for line in output.splitlines() if line.startswith(live.topic)]
        return sorted(row[:6] for row in rows)

    expected = [
        [live.topic, name, str(queue), "10", "10", "0"] for name in NAMES for queue in range(4)
    ]
    end = time.monotonic() + 20  # the client commits every second, from its tenth second on
    while progress() != expected and time.monotonic() < end:
        time.sleep(0.5)
    assert progress() == expected
    for name, broker in zip(NAMES, two_shards.brokers, strict=True):
        table = fields(admin("brokerStatus", "-b", broker), ":")
        assert int(table["msgPutTotalTodayNow"]) >= MESSAGES // 2
        shown = admin("brokerConsumeStats", "-b", broker)
        rows = [line.split() for line in shown.splitlines() if line.startswith(live.topic)]
        assert sorted(row[:4] for row in rows) == [
            [live.topic, live.consumer_group, name, str(queue)] for queue in range(4)
        ]


def test_running_client_is_reached(admin: Admin, live: Live) -> None:
    shown = admin("consumerStatus", "-g", live.consumer_group)
    assert re.search(r"^\d+ +\S+@\S+ +V5_5_0", shown, re.MULTILINE), shown


def test_messages_of_both_shards_are_found_by_key(admin: Admin, live: Live) -> None:
    def rows(*words: str) -> list[list[str]]:
        lines = admin("queryMsgByKey", "-t", live.topic, *words).splitlines()
        return [line.split() for line in lines if re.match(r"[0-9A-Fa-f]{32,56} ", line)]

    words = ["queryMsgByKey", "-t", live.topic, "-k", f"k{MESSAGES - 1}"]
    eventually(admin, words, r"[0-9A-F]{32,56} ")
    # Numbers 0 to 3 went to the queues of broker-a, 4 to 7 to those of broker-a-1, and so on.
    assert [row[1:3] for row in rows("-k", "k11")] == [["3", "1"]]
    assert [row[1:3] for row in rows("-k", "k15")] == [["3", "1"]]
    assert len(rows("-k", "tag", "-p", "T", "-m", "64")) == MESSAGES
    for number, name in ((11, NAMES[0]), (15, NAMES[1])):
        unique = rows("-k", f"k{number}")[0][0]
        table = fields(admin("queryMsgByUniqueKey", "-t", live.topic, "-i", unique), ":")
        assert table["Keys"] == f"[k{number}]"
        offset = admin("queryMsgByOffset", "-t", live.topic, "-b", name, "-i", "3", "-o", "1")
        assert fields(offset, ":")["Keys"] == f"[k{number}]"


def test_message_of_the_second_shard_is_found_by_its_id(
    admin: Admin, two_shards: Target, live: Live
) -> None:
    output = admin("queryMsgById", "-t", live.topic, "-i", live.last_message_id)
    table = fields(output, ":")
    assert table["Keys"] == f"[k{MESSAGES - 1}]"
    assert table["Store Host"] == two_shards.brokers[1]
    assert f"consumerGroup={live.consumer_group}, trackType=CONSUMED" in output
    Path(table["Message Body Path"]).unlink()


@pytest.mark.usefixtures("only_shards")
def test_setting_told_to_one_shard_is_shown_by_the_other(admin: Admin, two_shards: Target) -> None:
    def shown(broker: str) -> dict[str, str]:
        return fields(admin("getBrokerConfig", "-b", broker), "=")

    for told, value in ((0, "70"), (1, "69")):
        words = ["-k", "fileReservedTime", "-v", value]
        assert "success" in admin("updateBrokerConfig", "-b", two_shards.brokers[told], *words)
        words = ["getBrokerConfig", "-b", two_shards.brokers[1 - told]]
        eventually(admin, words, rf"fileReservedTime *= *{value}\b")
    for name, broker in zip(NAMES, two_shards.brokers, strict=True):
        table = shown(broker)
        assert table["brokerName"] == name
        assert table["listenPort"] == broker.rpartition(":")[2]
        assert table["fileReservedTime"] == "69"


def test_offsets_of_both_shards_are_reset(admin: Admin, live: Live) -> None:
    words = ["-g", live.consumer_group, "-t", live.topic, "-s", "-1", "-f", "true"]
    output = admin("resetOffsetByTime", *words)
    for name in NAMES:
        assert len(re.findall(rf"{name} +[0-3] +\d+", output)) == 4, output
