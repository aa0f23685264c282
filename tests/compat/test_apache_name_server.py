"""Goal: rmq's brokers work with a name server of Apache RocketMQ 5.5.0, whatever its settings.

Method: Apache's name server in a process of its own, `rmq broker` registering there, routes asked
for by a plain client. The other direction is in test_name_server.py.
Cannot prove: name servers before 5.0, which do not know request 217; a scripted one in
tests/unit/broker/test_registration.py does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.name_server import Client
from support.waiting import HANG_S

from rmq.codes import RequestCode as Code
from rmq.demo.ports import free_port
from rmq.format.remoting import Command
from tools.peers.apache import ApacheStandalone

CHANGES = 5  # rounds of each test


class NameServer:
    """A name server of Apache's on `port`."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, code: int, body: bytes = b"", **fields: object) -> Command:
        async def one() -> Command:
            async with Client(self.port) as client:
                return await client.call(code, body, **fields)

        return asyncio.run(one())

    def rows(self, topic: str) -> dict[str, tuple[int, int]]:
        """Broker name -> (write queues, perm)."""
        reply = self.ask(Code.GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly=True)
        if reply.code != 0:
            return {}
        rows = json.loads(reply.body)["queueDatas"]
        return {row["brokerName"]: (row["writeQueueNums"], row["perm"]) for row in rows}


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServer]:
    port = free_port()
    apache = ApacheStandalone(tmp_path_factory.mktemp("apache"), port, free_port(below=2, above=1))
    try:
        apache.start_name_server()
        server = NameServer(port)
        setting = b"deleteTopicWithBrokerRegistration=true\n"
        assert server.ask(Code.UPDATE_NAMESRV_CONFIG, setting).code == 0
        yield server
    finally:
        apache.kill()


@contextmanager
def broker(folder: Path, server: NameServer, name: str, *options: str) -> Iterator[int]:
    """A broker of rmq at this name server; yields its port."""
    port = free_port(below=2, above=11)
    command = [sys.executable, "-m", "rmq", "broker", "--store", str(folder / "store"), "--port",
               str(port), "-n", f"127.0.0.1:{server.port}", "--set", f"brokerName={name}",
               "--set", "mappedFileSizeCommitLog=16777216", *options]  # fmt: skip
    with (folder / "broker.txt").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(lambda: name in server.rows("TBW102"), 60)
        yield port
    finally:
        process.terminate()
        process.wait(HANG_S)


def wait_for(what: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def tell(port: int, code: int, **fields: object) -> None:
    async def one() -> None:
        async with BrokerClient(port) as client:
            reply = await client.call(code, **fields)
            assert reply.code == 0, reply.remark

    asyncio.run(one())


@pytest.mark.parametrize("single", ["true", "false"])
def test_a_changed_topic_leaves_all_others_in_the_routes(
    tmp_path: Path, name_server: NameServer, single: str
) -> None:
    name = f"single-{single}"
    setting = ("--set", f"enableSingleTopicRegister={single}")
    with broker(tmp_path, name_server, name, *setting) as port:
        for number in range(1, CHANGES):
            for topic in ("one", "two"):
                tell(
                    port, Code.UPDATE_AND_CREATE_TOPIC, topic=topic, perm=6,
                    readQueueNums=number, writeQueueNums=number,
                )  # fmt: skip
                assert name_server.rows(topic) == {name: (number, 6)}
            for topic in ("one", "TBW102", "SELF_TEST_TOPIC"):
                assert name in name_server.rows(topic)
        tell(port, Code.DELETE_TOPIC_IN_BROKER, topic="one")
        assert name_server.rows("one") == {}
        assert name in name_server.rows("two")


def test_what_an_operator_has_wiped_stays_wiped_when_topics_change(
    tmp_path: Path, name_server: NameServer
) -> None:
    """Also with a full registration: a change of one topic used to register a part of the table."""
    period = ("--set", "registerNameServerPeriod=10000")
    with broker(tmp_path, name_server, "wiped", *period) as port:
        fields = {"perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
        tell(port, Code.UPDATE_AND_CREATE_TOPIC, topic="kept", **fields)
        assert name_server.ask(Code.WIPE_WRITE_PERM_OF_BROKER, brokerName="wiped").code == 0
        assert name_server.rows("kept") == {"wiped": (2, 4)}
        tell(port, Code.UPDATE_AND_CREATE_TOPIC, topic="other", **fields)
        assert name_server.rows("other") == {"wiped": (2, 6)}
        # The next registration of the table brings it back.
        name_server.ask(Code.DELETE_TOPIC_IN_NAMESRV, topic="other")
        wait_for(lambda: "wiped" in name_server.rows("other"))
        assert name_server.rows("kept") == {"wiped": (2, 4)}


def test_the_shard_that_made_a_topic_is_in_its_first_route(
    tmp_path: Path, name_server: NameServer
) -> None:
    async def rounds(ports: list[int]) -> None:
        async with (
            Client(name_server.port) as asked, BrokerClient(ports[0]) as one,
            BrokerClient(ports[1]) as two,
        ):  # fmt: skip
            for number in range(4 * CHANGES):
                client, name = ((one, "two"), (two, "two-1"))[number % 2]
                sent = asyncio.ensure_future(client.send(f"made-{number}"))
                routes: list[set[str]] = []
                while not sent.done() or len(routes[-1]) < 2:
                    reply = await asked.call(
                        Code.GET_ROUTEINFO_BY_TOPIC, topic=f"made-{number}",
                        acceptStandardJsonOnly=True,
                    )  # fmt: skip
                    if reply.code == 0:
                        rows = json.loads(reply.body)["queueDatas"]
                        routes.append({row["brokerName"] for row in rows})
                    else:
                        assert not sent.done(), "answered and not in the route"
                assert sent.result().code == 0
                assert all(name in route for route in routes), (number, routes)

    with broker(tmp_path, name_server, "two", "--shards", "2") as port:
        wait_for(lambda: "two-1" in name_server.rows("TBW102"), 60)
        asyncio.run(asyncio.wait_for(rounds([port, port + 10]), 240))
