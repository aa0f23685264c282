"""Goal: a machine of several shards can be killed as a whole without a loss: each shard's twin on
another machine has all that this shard acknowledged, and serves it; a controller makes each twin
the master.

Method: two machines of two shards and a name server as processes, a load on both shards of the
master, and SIGKILL of all its processes at once. Acknowledged messages are read from the twins. Not
shown here: what is the same with a pair of single brokers (test_replicas.py, tests/ha).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.ack_history import GROUP, MAX_OFFSET, AckHistory, Load
from support.broker_client import BrokerClient
from support.etcd_server import etcd_server
from support.replica_set import Server
from support.sharded_broker import LoneShardedBroker
from support.waiting import until, wait_until

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format import fastjson
from shards.placement import PORT_STEP

SHARDS = 2
LOAD = 150  # acknowledged messages of each shard, at least
PORTS = PORT_STEP * (SHARDS - 1) + 1  # above the first: each shard's, and slaves'
NAME = ("--set", "brokerName=shop")
SLAVE = ("--set", "brokerRole=SLAVE", "--set", "brokerId=1")
PATIENT = ("--set", "slaveTimeout=60000")


class Machines:
    """The machines that a test starts, and their name server. All are ended with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()
        self.name_server = Server(folder / "n.txt", "namesrv")
        self.stack.callback(self.name_server.kill)

    def start(self, name: str, *options: str) -> LoneShardedBroker:
        made = LoneShardedBroker(
            self.folder / name, SHARDS, self.name_server.address, (*PATIENT, *options),
            free_port(above=PORTS),
        )  # fmt: skip
        self.stack.callback(made.end)
        return made


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    with made.stack:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        yield made


def ha_status(port: int) -> dict[str, object]:
    """What a shard says of its replicas; empty if it does not answer."""
    try:
        with Connection(f"127.0.0.1:{port}") as connection:
            body = connection.call(RequestCode.GET_BROKER_HA_STATUS).body
    except RmqError:
        return {}
    return fastjson.loads_object(body)


def has_slave(port: int) -> bool:
    """Whether the master at this port has one slave, which is in sync and has the whole log."""
    rows = ha_status(port).get("haConnectionInfo", ())
    assert isinstance(rows, (list, tuple))
    return len(rows) == 1 and bool(rows[0]["inSync"]) and rows[0]["diff"] == 0


def settings_of(port: int) -> str:
    with Connection(f"127.0.0.1:{port}") as connection:
        return connection.call(RequestCode.GET_BROKER_CONFIG).body.decode()


async def make_group(port: int) -> None:
    """Makes the group of the readers. The answer comes when the slave has the group, too."""
    async with BrokerClient(port) as client:
        body = fastjson.dumps({"groupName": GROUP})
        made = await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        assert made.code == ResponseCode.SUCCESS, made.remark


def load_and_kill(master: LoneShardedBroker) -> list[AckHistory]:
    """Kills the machine under load. Returns what each of its shards had acknowledged."""
    journals = [AckHistory() for _ in master.ports]

    async def work() -> None:
        for port in master.ports:
            await make_group(port)
        loads = [
            Load(port, journal, number, producers=2, pace_s=0.002)
            for number, (port, journal) in enumerate(zip(master.ports, journals, strict=True))
        ]
        for load in loads:
            await load.__aenter__()

        def has_enough(journal: AckHistory) -> bool:
            assert not journal.refused, journal.refused[0].remark
            return len(journal.acked) >= LOAD

        await until(lambda: all(map(has_enough, journals)))
        await asyncio.to_thread(master.kill)
        for load in loads:
            await load.__aexit__()

    asyncio.run(work())
    return journals


async def check(port: int, journal: AckHistory) -> None:
    """Checks that all acknowledged messages are read at this port. Messages that only consumers
    have seen are not asked for."""
    kept = AckHistory(dict(journal.acked), dict(journal.acked))

    async def has_all() -> bool:
        """Whether the queues have all acknowledged messages: a slave's queues follow its log."""
        for topic, queue_id in {(each.topic, each.queue_id) for each in kept.acked}:
            reply = await client.call(MAX_OFFSET, topic=topic, queueId=queue_id)
            least = max(each.offset for each in kept.acked if each[:2] == (topic, queue_id))
            if reply.code != ResponseCode.SUCCESS or int(reply.fields["offset"]) <= least:
                return False
        return True

    async with BrokerClient(port) as client:
        await until(has_all)
    assert await kept.check(port) >= len(journal.acked) >= LOAD


def by_settings(machines: Machines, master: LoneShardedBroker) -> LoneShardedBroker:
    return machines.start("b", *SLAVE, *NAME, "--set",
                          f"rmqMasterAddress=127.0.0.1:{master.ports[0]}")  # fmt: skip


def by_option(machines: Machines, master: LoneShardedBroker) -> LoneShardedBroker:
    return machines.start("b", "--replica-of", f"127.0.0.1:{master.ports[0]}")


@pytest.mark.parametrize("start_slave", [by_settings, by_option])
def test_each_twin_has_what_was_acknowledged_and_serves_it(
    machines: Machines, start_slave: Callable[[Machines, LoneShardedBroker], LoneShardedBroker]
) -> None:
    master = machines.start("a", *NAME, "--set", "brokerRole=SYNC_MASTER")
    slave = start_slave(machines, master)
    for port, name in zip(slave.ports, ("shop", "shop-1"), strict=True):
        assert f"brokerName={name}\n" in settings_of(port)
    for port in master.ports:
        wait_until(lambda port=port: has_slave(port))
    journals = load_and_kill(master)
    for port, journal in zip(slave.ports, journals, strict=True):
        asyncio.run(check(port, journal))
    # The shards have no message in common, so each twin has the messages of its own shard.
    first, second = ({each.digest for each in journal.acked.values()} for journal in journals)
    assert not first & second


def start_controller(machines: Machines, *state: str) -> str:
    """Starts a controller. Returns its address."""
    path = machines.folder / "c.properties"
    words = ("controller", "--lease", "3000", "--set", f"configStorePath={path}", *state)
    server = Server(machines.folder / "c.txt", *words)
    machines.stack.callback(server.kill)
    return server.address


def state_in_a_file(machines: Machines) -> str:
    return start_controller(machines, "--store", str(machines.folder / "controller"))


def state_in_etcd(machines: Machines) -> str:
    etcd = machines.stack.enter_context(etcd_server(machines.folder))
    return start_controller(machines, "--etcd", etcd.endpoint)


@pytest.mark.parametrize("controller", [state_in_a_file, state_in_etcd])
def test_each_twin_is_elected_and_takes_sends(
    machines: Machines, controller: Callable[[Machines], str]
) -> None:
    """While both machines run, each answer waits for both of them. If one is killed, each of its
    shards' twins becomes the master and goes on alone."""
    options = (*NAME, "--controller", controller(machines), "--set", "minInSyncReplicas=1",
               "--set", "controllerHeartBeatTimeoutMills=3000")  # fmt: skip
    master = machines.start("a", *options)
    for port in master.ports:
        wait_until(lambda port=port: ha_status(port).get("master") is True)
    other = machines.start("b", *options)
    for port in master.ports:
        wait_until(lambda port=port: has_slave(port))
    journals = load_and_kill(master)
    for port in other.ports:
        wait_until(lambda port=port: ha_status(port).get("master") is True)
    for number, (port, journal) in enumerate(zip(other.ports, journals, strict=True)):
        asyncio.run(check(port, journal))
        before = len(journal.acked)
        asyncio.run(go_on(port, journal, SHARDS + number))
        assert len(journal.acked) >= before + LOAD
    # The killed machine comes back. Each shard follows its twin and gets what was sent meanwhile.
    master.start(SHARDS)
    for port in other.ports:
        wait_until(lambda port=port: has_slave(port))
    for port, journal in zip(master.ports, journals, strict=True):
        asyncio.run(check(port, journal))


async def go_on(port: int, journal: AckHistory, round_: int) -> None:
    """Sends more messages to the new master."""
    goal = len(journal.acked) + LOAD

    def has_enough() -> bool:
        assert not journal.refused, journal.refused[0].remark
        return len(journal.acked) >= goal

    async with Load(port, journal, round_, producers=2):
        await until(has_enough)
