"""Goal: static topics are made, moved and used by RocketMQ's own tools and client.

Method: mqadmin 5.5.0 makes a topic of four logical queues on one of two brokers, and moves them to
the other one while a Java push consumer reads and a Java producer sends. Then a second group reads
all of it, the older half through a broker that asks the other one. With two brokers of rmq (or of
Apache, `--target=apache`), and with one of each kind at Apache's name server, moved both ways.
And a store with a mapping goes from one kind to the other and back.
Cannot prove: what a crash leaves (tests/unit/broker/test_static_topics.py, tests/fault).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from compat.both_brokers import Both
from compat.mqadmin import CLUSTER, Admin, admin_of, eventually
from compat.runner import ScenarioRunner
from compat.targets import Target, make_target
from support.queue_mappings import detail, item
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.errors import RemoteError
from rmq.format import fastjson

QUEUES = 4
MOCK = "__syslo__global__"
FAR = 10_000  # the round number at which mqadmin begins behind a few messages


@dataclass
class Pair:
    """Two brokers, and mqadmin beside them."""

    name_server: str
    names: tuple[str, str]
    admin: Admin


@dataclass
class _Place:  # what admin_of() needs
    name_server: str


@pytest.fixture(params=["alike", "both kinds"])
def pair(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Pair]:
    both: Both | None = None
    try:
        if request.param == "alike":
            target: Target = request.getfixturevalue("two_shards")
            address, names = target.name_server, ("broker-a", "broker-a-1")
        elif kind == "rmq":
            both = Both(tmp_path)
            both.start()
            address, names = both.namesrv, ("broker-a", "broker-b")
        else:
            pytest.skip("Apache's brokers alone")
        with admin_of(_Place(address), tmp_path / "admin") as admin:  # type: ignore[arg-type]
            eventually(admin, ["clusterList"], names[1], 30)
            yield Pair(address, names, admin)
    finally:
        if both is not None:
            both.stop()


def places(broker: str, first: int) -> list[str]:
    """The places of ten messages to each queue, in the order of sending."""
    return [f"{broker} {queue} {first + n}" for n in range(10) for queue in range(QUEUES)]


def test_a_static_topic_is_made_moved_and_read_on(
    pair: Pair, java: Callable[[str], ScenarioRunner], session_id: str
) -> None:
    topic = f"{session_id}_static_{'a' if pair.names[1] == 'broker-a-1' else 'b'}"
    client = java("java-5.5.0-json")
    common = {"nameServer": pair.name_server, "run": session_id, "topic": topic,
              "queues": QUEUES}  # fmt: skip
    printed = pair.admin("updateStaticTopic", "-t", topic, "-qn", str(QUEUES), "-b", pair.names[0])
    assert "The new mapping data is written to file" in printed, printed
    route = eventually(pair.admin, ["topicRoute", "-t", topic], "topicQueueMappingByBroker", 60)
    assert f'"totalQueues":{QUEUES}' in re.sub(r"\s", "", route)

    reader = {"nameServer": pair.name_server, "run": session_id, "as": f"static-{topic}"}
    client.run("replica_open", topic=topic, group=f"g1_{topic}", **reader)
    sent = client.run("static_send", first=0, end=40, **common, **{"as": f"s1{topic}"})
    assert sent["places"].split(";") == places(pair.names[0], 0)
    client.run("replica_wait", count=40, **reader)
    progress = ["consumerProgress", "-g", f"g1_{topic}"]
    eventually(pair.admin, progress, rf"{MOCK}[\s\S]*Consume Diff Total: 0", 40)

    for turn, name in enumerate((pair.names[1], pair.names[0]), 1):
        printed = pair.admin("remappingStaticTopic", "-t", topic, "-b", name)
        assert "failed" not in printed and "Exception" not in printed, printed
        more = {**common, "as": f"s{turn + 1}{topic}"}
        sent = client.run("static_send", first=40 * turn, end=40 * turn + 40, **more)
        assert sent["places"].split(";") == places(name, FAR * turn)
        client.run("replica_wait", count=40 * turn + 40, **reader)
        found = client.run("static_ranges", **{**more, "as": f"r{turn}{topic}"})["ranges"]
        assert found.split(";") == [f"{n} 0 {FAR * turn + 10}" for n in range(QUEUES)]
    closed = client.run("replica_close", **reader)
    assert (closed["numbers"], closed["twice"]) == (120, {})

    # A group that comes later reads all of it, from both brokers, through the one that now leads
    # the queues.
    late = {**reader, "as": f"late-{topic}"}
    client.run("replica_open", topic=topic, group=f"g2_{topic}", **late)
    client.run("replica_wait", count=120, **late)
    assert client.run("replica_close", **late)["numbers"] == 120

    with Cluster(pair.name_server) as view:
        for name in pair.names:
            fields = {"topic": topic, "lo": True}
            reply = view.call(view.address_of(name), RequestCode.GET_TOPIC_CONFIG, fields)
            chains = fastjson.loads_object(reply.body)["mappingDetail"]["hostedQueues"]
            assert {queue: len(chain) for queue, chain in chains.items()} == {
                str(queue): 3 for queue in range(QUEUES)
            }
    pair.admin("deleteTopic", "-c", CLUSTER, "-t", topic)
    with Cluster(pair.name_server) as view:
        for name in pair.names:
            answer = view.ask(
                view.address_of(name),
                RequestCode.GET_TOPIC_CONFIG,
                {"topic": topic, "lo": True},
            )
            assert answer.code == 17


def test_a_static_topic_grows_over_a_cluster(pair: Pair, session_id: str) -> None:
    topic = f"{session_id}_grown_{'a' if pair.names[1] == 'broker-a-1' else 'b'}"
    for count in (4, 6):
        words = ["updateStaticTopic", "-t", topic, "-qn", str(count), "-c", CLUSTER]
        printed = pair.admin(*words)
        assert "failed" not in printed, printed
    printed = pair.admin(*words)
    assert "equal the existed queue num" in printed
    route = re.sub(
        r"\s", "", eventually(pair.admin, ["topicRoute", "-t", topic], '"totalQueues":6')
    )
    assert route.count('"totalQueues":6') == 2
    assert route.count('"writeQueueNums":3') == 2  # on each broker


def test_a_mapping_is_read_from_the_others_store(kind: str, tmp_path: Path) -> None:
    """topicQueueMapping.json, written by each broker and continued by the other."""
    if kind == "apache":
        pytest.skip("the target is Apache alone")
    store, port = tmp_path / "store", free_port(2, 1)
    chain = [item(0, "gone", 0, 0), item(1, "broker-a", 0, FAR)]
    for turn, each in enumerate(("rmq", "apache", "rmq")):
        target = make_target(each, tmp_path / f"{turn}", {}, store=store, port=port)
        target.start()
        try:
            with Cluster(target.name_server) as view:
                if turn == 0:
                    put(view, target.broker, chain, 1)
                told = static_topic(view, target.broker)
                assert (told["epoch"], told["totalQueues"]) == (1 if turn < 2 else 2, 2)
                assert told["hostedQueues"] == {"1": chain}
                wait_until(lambda view=view: leaders(view) == {1: "broker-a"})
            with Producer("P", namesrv_addr=target.name_server) as producer:
                result = producer.send(Message("s", b"x"))
                assert (result.queue_id, result.queue_offset) == (1, FAR + turn)
            if turn == 1:
                with Cluster(target.name_server) as view:
                    put(view, target.broker, chain, 2)
            target.end("clean")
        finally:
            target.stop()


def put(view: Cluster, address: str, chain: list[dict[str, Any]], epoch: int) -> None:
    fields = {"topic": "s", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
              "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
              "order": False}  # fmt: skip
    body = detail("broker-a", {1: chain}, 2, epoch)
    view.call(address, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, fields, body)


def leaders(view: Cluster) -> dict[int, str]:
    try:
        return view.route("s").leaders
    except RemoteError:
        return {}


def static_topic(view: Cluster, address: str) -> dict[str, Any]:
    reply = view.call(address, RequestCode.GET_TOPIC_CONFIG, {"topic": "s", "lo": True})
    found: dict[str, Any] = fastjson.loads_object(reply.body)["mappingDetail"]
    return found
