"""Goal: an Apache RocketMQ 5.5.0 broker works with rmq's name server, and mqadmin 5.5.0 rules it.

Method: rmq's name server in a process of its own, Apache's broker registering there, mqadmin's own
output, and rmq's client, which reads the tables. No part of rmq's broker is involved.
Cannot prove: clients of other versions; the tests of the whole broker use rmq's routes with them.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.name_server import Client

from rmq.format import fastjson
from rmq.format.remoting import Command

pytestmark = pytest.mark.compat


class Peer(SimpleNamespace):
    """rmq's name server on `port` with its files in `folder`, and Apache's broker at it."""

    port: int
    broker_port: int
    folder: Path

    def ask(self, code: int, version: int = 479, **fields: object) -> Command:
        async def one() -> Command:
            async with Client(self.port, version) as client:
                return await client.call(code, **fields)

        return asyncio.run(one())

    def mqadmin(self, *arguments: str) -> str:
        from tools.peers.mqadmin import mqadmin

        return mqadmin(f"127.0.0.1:{self.port}", *arguments)

    def route(self, topic: str) -> Command:
        return self.ask(105, topic=topic)

    def queues(self, topic: str) -> int:
        """The number of writable queues; 0: the topic has no route yet."""
        reply = self.route(topic)
        return 0 if reply.code else int(json.loads(reply.body)["queueDatas"][0]["writeQueueNums"])

    def permission(self, topic: str) -> int:
        return int(json.loads(self.route(topic).body)["queueDatas"][0]["perm"])


def wait_for(what: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    from rmq.demo.ports import free_port
    from tools.peers.apache import ApacheStandalone

    folder = tmp_path_factory.mktemp("name-server")
    port, broker_port = free_port(), free_port(below=2, above=1)
    kept = ["--set", f"kvConfigPath={folder}/kv.json",
            "--set", f"configStorePath={folder}/namesrv.properties"]  # fmt: skip
    command = [sys.executable, "-m", "rmq", "namesrv", "--port", str(port)]
    ours = subprocess.Popen([*command, *kept])
    apache = ApacheStandalone(folder / "apache", port, broker_port, heap="256m")
    try:
        apache.start_broker()
        yield Peer(port=port, broker_port=broker_port, folder=folder, apache=apache)
    finally:
        apache.kill()
        ours.terminate()
        ours.wait(10)


def test_the_broker_is_in_the_cluster_list(peer: Peer) -> None:
    shown = peer.mqadmin("clusterList")
    row = next(line for line in shown.splitlines() if "broker-a" in line).split()
    address = f"127.0.0.1:{peer.broker_port}"
    assert row[:5] == ["DefaultCluster", "broker-a", "0", address, "V5_5_0"]


def test_its_topics_are_listed_by_name_and_by_cluster(peer: Peer) -> None:
    assert "TBW102" in peer.mqadmin("topicList").split()
    assert "TBW102" in peer.mqadmin("topicList", "-c").split()
    assert peer.mqadmin("topicClusterList", "-t", "TBW102").split()[-1] == "DefaultCluster"
    topics = json.loads(peer.ask(224, cluster="DefaultCluster").body)["topicList"]
    assert {"TBW102", "broker-a", "DefaultCluster"} <= set(topics)


def test_the_route_is_shown_and_an_unknown_topic_is_code_17(peer: Peer) -> None:
    shown = peer.mqadmin("topicRoute", "-t", "TBW102")
    route = fastjson.loads_object(shown[shown.index("{") : shown.rindex("}") + 1])
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"127.0.0.1:{peer.broker_port}"}
    assert route["queueDatas"][0]["perm"] == 7
    assert "CODE: 17" in peer.mqadmin("topicRoute", "-t", "NoSuchTopic")


def test_a_topic_made_on_the_broker_is_routed_at_once_and_gone_when_deleted(peer: Peer) -> None:
    made = peer.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "Made", "-r", "3", "-w", "2")
    assert "success" in made
    wait_for(lambda: peer.route("Made").code == 0, 5)
    row = json.loads(peer.route("Made").body)["queueDatas"][0]
    assert (row["readQueueNums"], row["writeQueueNums"]) == (3, 2)
    deleted = peer.mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "Made")
    assert deleted.count("success") == 2
    assert peer.route("Made").code == 17


def test_write_permission_is_wiped_and_added(peer: Peer) -> None:
    count = len(json.loads(peer.ask(206).body)["topicList"])
    own = peer.permission("TBW102")  # the permission that the broker registers each time
    for _ in range(5):
        assert f"OK, {count}" in peer.mqadmin("wipeWritePerm", "-b", "broker-a")
        wiped = peer.permission("TBW102")
        assert f"OK, {count}" in peer.mqadmin("addWritePerm", "-b", "broker-a")
        added = peer.permission("TBW102")
        if own not in (wiped, added):  # else it registered in between
            break
    assert (own, wiped, added) == (7, 5, 6)


def test_key_values_are_put_and_deleted(peer: Peer) -> None:
    put = peer.mqadmin("updateKvConfig", "-s", "N", "-k", "key", "-v", "a value")
    assert "success" in put
    assert peer.ask(101, namespace="N", key="key").fields == {"value": "a value"}
    kept = json.loads((peer.folder / "kv.json").read_bytes())
    assert kept["configTable"]["N"] == {"key": "a value"}
    assert "success" in peer.mqadmin("deleteKvConfig", "-s", "N", "-k", "key")
    assert peer.ask(101, namespace="N", key="key").code == 22


def test_an_ordered_topic_keeps_its_order_configuration(peer: Peer) -> None:
    made = peer.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "Ordered", "-o", "true")
    assert "orderConf=[broker-a:8]" in made
    value = peer.ask(101, namespace="ORDER_TOPIC_CONFIG", key="Ordered").fields["value"]
    assert value == "broker-a:8"


def test_settings_are_shown_and_updated_and_the_black_list_is_code_16(peer: Peer) -> None:
    shown = peer.mqadmin("getNamesrvConfig")
    rows = [line.split("=", 1) for line in shown.splitlines() if "  =  " in line]
    settings = {key.strip(): value.strip() for key, value in rows}
    assert settings["orderMessageEnable"] == "false"
    assert settings["listenPort"] == str(peer.port)
    updated = peer.mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert "success" in updated
    assert b"orderMessageEnable=true\n" in peer.ask(319).body
    refused = peer.mqadmin("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/tmp/x")
    assert "CODE: 16" in refused


def test_single_topics_are_taken_and_the_others_stay(peer: Peer) -> None:
    """Request 217 at a name server that deletes what a registration does not name."""
    broker = f"127.0.0.1:{peer.broker_port}"
    words = ["-b", broker, "-k", "enableSingleTopicRegister", "-v", "true"]
    assert "success" in peer.mqadmin("updateBrokerConfig", *words)
    deleting = ["updateNamesrvConfig", "-k", "deleteTopicWithBrokerRegistration", "-v"]
    assert "success" in peer.mqadmin(*deleting, "true")
    try:
        for count in ("3", "5"):
            words = ["-b", broker, "-t", "Single", "-r", count, "-w", count]
            assert "success" in peer.mqadmin("updateTopic", *words)
            wait_for(lambda wanted=int(count): peer.queues("Single") == wanted, 5)
            assert peer.route("TBW102").code == 0
        peer.mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "Single")
        assert peer.route("Single").code == 17
        assert peer.route("TBW102").code == 0
    finally:
        peer.mqadmin(*deleting, "false")


def test_a_broker_that_stops_leaves_and_may_come_back_compressed(peer: Peer) -> None:
    assert peer.route("TBW102").code == 0
    peer.apache.stop_broker()
    wait_for(lambda: peer.route("TBW102").code == 17, 5)
    assert peer.ask(106).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    peer.apache.settings["compressedRegister"] = "true"
    peer.apache.start_broker()
    wait_for(lambda: peer.route("TBW102").code == 0)
    assert peer.permission("TBW102") == 7
    assert "broker-a" in peer.mqadmin("clusterList")


def test_a_broker_that_is_killed_leaves_at_once(peer: Peer) -> None:
    assert peer.route("TBW102").code == 0
    peer.apache.kill()
    wait_for(lambda: peer.route("TBW102").code == 17, 5)
