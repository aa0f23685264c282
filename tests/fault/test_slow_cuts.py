"""Goal: a shard whose log is cut for longer than any limit of silence is left alone and serves
afterwards. Meanwhile its log says what it does, and operators who ask are told.

Method: a supervisor and two shards behind the fault shim, a replica of one of them, and a
controller that elects any replica that is there. The replica, started alone, leads without the last
messages of the shard, so the shard cuts them at its next start: this call of the disk is held.
Cannot prove: the same of a disk in whose calls the kernel waits; tests/unit/broker/
test_reactor_watch.py shows that for a reactor.
"""

from __future__ import annotations

import asyncio
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.faults import Faults
from support.replica_set import Server
from support.sharded_broker import SMALL, ShardedBroker, sharded_broker
from support.waiting import HANG_S, until_is, wait_until

from rmq.broker.reactor_watch import SLOW_S
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format import fastjson
from shards.messages import ShardStatus

NAME = "broker-a-1"  # broker name of shard 1
SILENT_S, STUCK_S = 5, 6  # STUCK_S is one second more than SLOW_S
ENOUGH_S = 8
AGE = re.compile(r"its log is opened anew for (\d+) s")


class World:
    """A controller, two shards, and a replica of the second shard."""

    def __init__(self, folder: Path) -> None:
        self.ends: list[Server] = []
        self.controller = self._server(
            folder, "controller", "--store", str(folder / "controller"),
            "--set", f"configStorePath={folder / 'controller.properties'}",
            "--set", "enableElectUncleanMaster=true",
        )  # fmt: skip
        shared = (
            "--set", "enableControllerMode=true", "--set", "minInSyncReplicas=1",
            "--set", f"controllerAddr={self.controller.address}",
        )  # fmt: skip
        port, self.metrics = free_port(below=10, above=20), free_port(above=10, step=10)
        options = (
            *shared, "--port", str(port),
            "--set", "metricsExporterType=PROM", "--set", f"metricsPromExporterPort={self.metrics}",
            "--set", f"rmqStuckReactorSeconds={STUCK_S}",
            "--set", f"rmqShardSilentSeconds={SILENT_S}",
        )  # fmt: skip
        self.folder, self.shared, self.options = folder, shared, options

    def _server(self, folder: Path, *words: str, port: int = 0) -> Server:
        self.ends.append(Server(folder / f"{words[0]}.txt", *words, port=port or free_port()))
        return self.ends[-1]

    def start_replica(self, namesrv: str) -> Server:
        words = ("broker", "--store", str(self.folder / "replica"), "-n", namesrv, *SMALL)
        own = (*words, *self.shared, "--set", f"brokerName={NAME}")
        return self._server(self.folder, *own, port=free_port(2, 1))

    def set_of(self, name: str) -> tuple[int, list[int]]:
        """The master's id and the replicas in sync; (0, []) if there is none."""
        with Connection(self.controller.address) as connection:
            reply = connection.call(
                RequestCode.CONTROLLER_GET_REPLICA_INFO,
                {"brokerName": name, "clusterName": "DefaultCluster"},
            )  # fmt: skip
        members = fastjson.loads_object(reply.body)["syncStateSet"] if reply.body else []
        return int(reply.fields.get("masterBrokerId") or 0), sorted(members)

    def asked(self, path: str) -> tuple[int, str]:
        """The answer of shard 1's metrics server to this path."""
        url = f"http://127.0.0.1:{self.metrics + 10}{path}"
        try:
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        for each in made.ends:
            if each.process.poll() is None:
                each.kill()


async def sent(port: int, count: int) -> None:
    async with BrokerClient(port) as client:
        for number in range(count):
            await until_is(  # until the broker is master
                lambda body=b"%d" % number: client.send("t", body),
                lambda reply: reply.code == ResponseCode.SUCCESS,
            )


@contextmanager
def starting(broker: ShardedBroker) -> Iterator[None]:
    """Starts the broker in a thread: it is ready only when name servers know each shard."""
    thread = threading.Thread(target=broker.start, args=(None,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def age_s(shard: ShardStatus) -> int:
    """For how long the shard's log has been opened anew; -1: it is not opened anew."""
    found = AGE.fullmatch(shard.reason) if shard.state == "reopening" else None
    return int(found[1]) if found else -1


def until_reopening(broker: ShardedBroker, least_s: int) -> ShardStatus:
    def found() -> ShardStatus | None:
        try:
            shards = broker.shards()
        except RmqError:  # there is no supervisor yet
            return None
        return shards[1] if len(shards) > 1 and age_s(shards[1]) >= least_s else None

    wait_until(found)
    shard = found()
    assert shard is not None
    return shard


def test_shard_whose_log_is_cut_for_long_is_neither_killed_nor_silent(
    world: World, tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in faults.environment().items():
        monkeypatch.setenv(name, value)
    with sharded_broker(tmp_path, 2, world.options) as broker:
        asyncio.run(sent(broker.ports[1], 1))
        replica = world.start_replica(broker.namesrv)
        wait_until(lambda: world.set_of(NAME) == (1, [1, 2]))
        replica.kill()
        wait_until(lambda: world.set_of(NAME) == (1, [1]))
        asyncio.run(sent(broker.ports[1], 20))  # no other replica has these messages
        assert broker.stop() == 0
        replica.start()
        asyncio.run(sent(int(replica.port), 1))
        assert world.set_of(NAME)[0] == 2

        faults.hold("ftruncate", path="shard-1/commitlog/")
        with starting(broker):
            try:
                shard = until_reopening(broker, ENOUGH_S)
                broker.until_serving(0)
                assert world.asked("/healthz") == (200, "ok\n")
                code, text = world.asked("/readyz")
                said = r"reopening for (\d+) s: the log is cut at \d+, step cutting for \d+ s\n"
                told = re.fullmatch(said, text)
                assert code == 503 and told is not None and int(told[1]) >= ENOUGH_S, text
                assert "rmq_reactor_standing_seconds" in world.asked("/metrics/own")[1]
                asyncio.run(sent(broker.ports[0], 1))
                for seconds in (SLOW_S, STUCK_S):  # on a busy machine the watcher may be late
                    words = f"and step cutting has taken {seconds} s: its thread "
                    wait_until(lambda words=words: words in broker.log())
            finally:
                faults.clear()
        served = broker.until_serving(1)
        assert (served.pid, served.restarts, served.reason) == (shard.pid, 0, "")
        wait_until(lambda: re.search(r"the log is cut at \d+: it goes on, after", broker.log()))
        log = broker.log()
        assert "is killed" not in log and "says nothing on the bus" not in log
        wait_until(lambda: world.set_of(NAME) == (2, [1, 2]))
        replica.kill()
        # It is master again, with the messages that the replica had.
        asyncio.run(sent(broker.ports[1], 1))
