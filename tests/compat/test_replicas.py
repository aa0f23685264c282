"""A slave of one kind follows a master of the other.

The master is filled before and after the slave comes: several segments, keys, delays. Then both
logs are the same to the byte, and the slave answers for every queue as the master does; when it is
ended and started again, it goes on. The same is true of topics, groups, request modes and offsets,
which are in no log, even if they were lowered or deleted meanwhile. What two brokers of rmq
exchange: tests/unit/broker/test_replicas.py. Apache's broker starts in 9 s and looks at its
master's tables every minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat.ordered_group import QUEUES, Group
from compat.replica_pairs import COMMON, MIB, ApacheSlave, Tables, ask, ends, log_of, send_all, wait
from compat.runner import ScenarioRunner
from compat.targets import ApacheTarget, RmqTarget
from support.replica_set import Sent, Servers
from support.waiting import wait_until

from rmq import Admin
from rmq.codes import RequestCode as Code
from rmq.demo.ports import free_port
from rmq.format import fastjson
from rmq.observe.sample import decode
from tools.peers.cache import APACHE_4, APACHE_VERSION

CACHED = 32  # messages of a queue that a consumer in order has cached


def log_end(store: Path) -> int:
    return len(log_of(store, 1 << 40).rstrip(b"\0"))


def problem(address: str) -> str:
    """What keeps a slave of rmq from being a whole copy of its master."""
    body = ask(address, Code.GET_BROKER_RUNTIME_INFO, rmqDetail="brief").body
    return decode(fastjson.loads_object(body)["table"]["rmqSample"]).replication_problem


Pair = tuple[RmqTarget | ApacheTarget, RmqTarget | ApacheSlave]


@pytest.fixture(params=[APACHE_VERSION, APACHE_4])
def version(request: pytest.FixtureRequest) -> str:
    """The version of Apache's broker in the pair; if it is the master, also of the name server
    beside it."""
    return str(request.param)


@pytest.fixture(params=["apache follows rmq", "rmq follows apache"])
def pair(request: pytest.FixtureRequest, version: str, tmp_path: Path) -> Iterator[Pair]:
    port = free_port(3, 1)
    of_master = {**COMMON, "brokerRole": "ASYNC_MASTER", "haListenPort": str(port + 1)}
    of_slave = {**COMMON, "brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
    master: RmqTarget | ApacheTarget
    slave: RmqTarget | ApacheSlave
    if request.param == "apache follows rmq":
        master = RmqTarget(tmp_path / "master", of_master, port=port)
        slave = ApacheSlave(tmp_path / "slave", of_slave, master.name_server, version)
    else:
        master = ApacheTarget(tmp_path / "master", of_master, port=port, version=version)
        at = {"namesrvAddr": master.name_server}
        slave = RmqTarget(tmp_path / "slave", {**of_slave, **at})
    try:
        yield master, slave
    finally:
        slave.stop()
        master.stop()


def test_a_slave_follows_a_master_of_the_other_kind(pair: Pair, version: str) -> None:
    master, slave = pair
    is_4 = version == APACHE_4
    tables = Tables(master.broker, slave.broker, slave.store, has_modes=not is_4)
    master.start()
    send_all(master.broker, "t", 1500)
    tables.fill()
    slave.start()
    send_all(master.broker, "t", 1500)

    def same() -> bool:
        return (
            ends(slave.broker, "t") == ends(master.broker, "t")
            and min(ends(master.broker, "t")) > 0
        )

    wait(same)
    tables.wait_same()
    if master.kind == "rmq" or not is_4:  # RocketMQ 4 does not say which slaves follow it
        status = fastjson.loads_object(ask(master.broker, Code.GET_BROKER_HA_STATUS).body)
        assert len(status["haConnectionInfo"]) == 1
    # The slave is ended, and away for a while.
    slave.end("kill")
    send_all(master.broker, "t", 500)
    tables.change()
    slave.start()
    send_all(master.broker, "t", 500)
    wait(same)
    tables.wait_same()
    if slave.kind == "rmq":
        assert problem(slave.broker) == ""
    master.end("clean")
    slave.end("clean")
    count = log_end(master.store)
    assert count > 2 * MIB
    assert log_of(slave.store, count) == log_of(master.store, count)


def test_a_java_consumer_goes_on_at_our_slave_and_goes_back(
    java: Callable[[str], ScenarioRunner], tmp_path: Path
) -> None:
    """Java's client 5.5.0, which asks the name server every second."""
    client = java("java-5.5.0-json")
    servers = Servers(tmp_path)
    try:
        sent = Sent(servers)
        sent.more()
        reader = {"as": "reader", "run": "replicas", "nameServer": servers.namesrv}
        client.run("replica_open", group="g", topic="t", **reader)
        client.run("replica_wait", count=sent.count, **reader)
        # What is sent now is read from the slave, except what the last pull still brings.
        client.run("replica_suspend", **reader)
        sent.more(200)
        servers.master.kill()
        client.run("replica_resume", **reader)
        client.run("replica_wait", count=sent.count, **reader)
        assert servers.slave.counted("msgGetTotalTodayNow") > 100
        servers.master.start()
        wait_until(servers.are_whole)

        def went_back() -> bool:
            sent.more(1)
            return servers.master.counted("msgGetTotalTodayNow") > 0

        wait_until(went_back)
        client.run("replica_wait", count=sent.count, **reader)
        found = client.run("replica_close", **reader)
        assert (found["numbers"], found["twice"]) == (sent.count, {})
    finally:
        servers.end()


@pytest.mark.parametrize("acting", [False, True], ids=["no acting master", "acting master"])
def test_a_go_consumer_goes_on_at_our_slave(
    acting: bool, go: ScenarioRunner, tmp_path: Path
) -> None:
    """Go's client asks for offsets, and commits them, only at the broker with id 0. It still goes
    on reading at the slave; to begin there it needs a slave that acts as master."""
    servers = Servers(tmp_path, acting_master=acting)
    with Admin(namesrv_addr=servers.namesrv) as admin:
        admin.create_group("late")
    try:
        sent = Sent(servers)
        sent.more()
        reader = {"as": "reader", "run": "replicas", "nameServer": servers.namesrv}
        go.run("replica_open", group="g", topic="t", **reader)
        go.run("replica_wait", count=sent.count, **reader)
        go.run("replica_suspend", **reader)
        sent.more(200)
        servers.master.kill()
        go.run("replica_resume", **reader)
        go.run("replica_wait", count=sent.count, **reader)
        assert servers.slave.counted("msgGetTotalTodayNow") > 100
        late = {**reader, "as": "late"}
        go.run("replica_open", group="late", topic="t", **late)
        if acting:
            go.run("replica_wait", count=sent.count, **late)
            wait_until(lambda: committed(servers.slave.address) == sent.count)
        else:
            assert committed(servers.slave.address) < sent.count
        servers.master.start()
        wait_until(servers.are_whole)

        def went_back() -> bool:
            sent.more(1)
            return servers.master.counted("msgGetTotalTodayNow") > 0

        wait_until(went_back)
        go.run("replica_wait", count=sent.count, **reader)
        go.run("replica_wait", count=sent.count, **late)
        for each in (reader, late):
            found = go.run("replica_close", **each)
            assert (found["numbers"], found["twice"]) == (sent.count, {})
        at = servers.master.address
        wait_until(lambda: committed(at) == committed(at, "late") == sent.count)
    finally:
        servers.end()


@pytest.mark.timeout(600)
def test_java_consumers_in_order_go_on_at_an_acting_master(
    java: Callable[[str], ScenarioRunner], tmp_path: Path, session_id: str
) -> None:
    """Java's client 5.5.0. The slave gives the consumers locks, takes their offsets, and hands a
    queue over from one consumer to the other. Then the master is back, and another member comes."""
    sender, client = java("java-5.5.0-json"), "java-5.5.0"
    servers = Servers(tmp_path, acting_master=True)
    group = Group(tmp_path, servers.namesrv, f"{session_id}_acting")
    place = str(group.arguments()["group"]), group.topic

    def consumed() -> int:
        """The number of consumed messages, by the offsets committed at the slave."""
        return sum(committed(servers.slave.address, *place, queue) for queue in range(QUEUES))

    try:
        group.send(sender, 3000)
        for who in ("one", "two"):
            group.open(who, client, ms=20, cached=CACHED)
        group.wait_for_owners("one", "two")
        servers.master.kill()
        begun = len(group.journal.numbers())
        group.wait_for(begun + 2 * QUEUES * CACHED, 120)
        assert servers.slave.counted("msgGetTotalTodayNow") > 0
        group.runners["two"].run("ordered_close", who="two")
        assert len(group.journal.numbers()) < group.sent
        group.wait_for(group.sent, 180)
        wait_until(lambda: consumed() == group.sent)
        servers.master.start()
        wait_until(servers.are_whole)
        with group.sending(sender):
            group.open("three", client, ms=2)
            group.wait_for_owners("three")
        group.wait_for(group.sent, 180)
        group.journal.check(set(), repeats_max=CACHED)
    finally:
        group.close()
        servers.end()


def committed(address: str, group: str = "g", topic: str = "t", queue: int = 0) -> int:
    place = {"consumerGroup": group, "topic": topic, "queueId": queue}
    return int(ask(address, Code.QUERY_CONSUMER_OFFSET, **place).fields["offset"])
