"""Routes that name servers give while several topics change: at each moment, and at the end.

    two changes at once     both are in the route when both have been answered
    a topic of one shard    the shard that has the message is in every route that is given out
    a storm                 16 connections change topics on two shards: afterwards all name servers,
                            shards and files agree

Method: real processes and sockets. There are a few rounds of each; `make races` runs 500
(RMQ_RACE_ROUNDS). A round that goes wrong stays wrong for longer than a test waits, because a full
registration does not mend it.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.broker_process import broker_process
from support.name_server import Client, name_server
from support.sharded_broker import ShardedBroker, sharded_broker
from support.stored_table import stored
from support.waiting import until_is

from rmq.codes import RequestCode as Code
from rmq.format import fastjson

ROUNDS = int(os.environ.get("RMQ_RACE_ROUNDS", "0"))
pytestmark = pytest.mark.timeout(300 + 5 * ROUNDS)
MENDED_S = 45.0  # shorter than the time between two full registrations
NO_ROUTE = 17


async def queues(client: Client, topic: str) -> dict[str, int]:
    """Broker name -> write queues, as the name server says now."""
    reply = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, topic=topic)
    if reply.code == NO_ROUTE:
        return {}
    assert reply.code == 0, reply.remark
    rows = fastjson.loads_object(reply.body)["queueDatas"]
    return {row["brokerName"]: row["writeQueueNums"] for row in rows}


async def change(client: BrokerClient, topic: str, count: int) -> None:
    reply = await client.call(
        Code.UPDATE_AND_CREATE_TOPIC, topic=topic, readQueueNums=count, writeQueueNums=count, perm=6
    )
    assert reply.code == 0, reply.remark


@pytest.mark.parametrize("single", [False, True])
def test_two_changes_at_once_are_both_in_the_routes(tmp_path: Path, single: bool) -> None:
    """No change is lost, even if the broker registers each alone (enableSingleTopicRegister)."""

    async def rounds(port: int, name_server_port: int) -> None:
        async with (
            BrokerClient(port) as one, BrokerClient(port) as two, Client(name_server_port) as asked,
        ):  # fmt: skip
            await asyncio.gather(change(one, "a", 1), change(two, "b", 1))
            for number in range(ROUNDS or 100):
                count = 2 + number % 100

                async def later(count: int = count, wait_ms: float = number % 24 / 2) -> None:
                    await asyncio.sleep(wait_ms / 1000)
                    await change(two, "b", count)

                await asyncio.gather(change(one, "a", count), later())
                for topic in ("a", "b"):
                    await until_is(
                        lambda topic=topic: queues(asked, topic),
                        lambda found, count=count: found == {"broker-a": count}, MENDED_S,
                    )  # fmt: skip

    options = ["--set", f"enableSingleTopicRegister={str(single).lower()}",
               "--set", "registerNameServerPeriod=60000"]  # fmt: skip
    with broker_process(tmp_path, options) as broker:
        asyncio.run(rounds(broker.port, int(broker.namesrv.rpartition(":")[2])))


class Watch:
    """Asks for the route of a topic without a pause, and keeps the different answers."""

    def __init__(self, client: Client, topic: str) -> None:
        self.routes: list[set[str]] = []
        self._ending = False
        self._task = asyncio.create_task(self._ask(client, topic))

    async def _ask(self, client: Client, topic: str) -> None:
        while not self._ending:
            found = set(await queues(client, topic))
            if found and found not in self.routes:
                self.routes.append(found)

    async def end(self) -> list[set[str]]:
        self._ending = True
        await self._task
        return self.routes


async def by_a_send(client: BrokerClient, number: int) -> str:
    topic = f"made-{number}"
    reply = await client.send(topic)
    assert reply.code == 0, reply.remark
    return topic


async def by_a_heartbeat(client: BrokerClient, number: int) -> str:
    assert (await client.heartbeat(f"retry-{number}", "TBW102")).code == 0
    return f"%RETRY%retry-{number}"


async def by_a_dead_letter(client: BrokerClient, number: int) -> str:
    group = f"dead-{number}"
    reply = await client.send(f"made-{number - 2}")
    offset = int(reply.fields["msgId"][16:], 16)
    reply = await client.call(
        Code.CONSUMER_SEND_MSG_BACK, offset=offset, group=group, delayLevel=-1,
        originMsgId="m", originTopic="made", unitMode=False, maxReconsumeTimes=1,
    )  # fmt: skip
    assert reply.code == 0, reply.remark
    return f"%DLQ%{group}"


WAYS = (
    (by_a_send, "made-{}"),
    (by_a_heartbeat, "%RETRY%retry-{}"),
    (by_a_dead_letter, "%DLQ%dead-{}"),
)


def test_shard_that_has_the_message_is_in_every_route(tmp_path: Path) -> None:
    """A client that got a route without this shard would use that route for half a minute."""

    async def rounds(broker: ShardedBroker) -> None:
        async with AsyncExitStack() as stack:
            asked = await stack.enter_async_context(Client(int(broker.namesrv.rpartition(":")[2])))
            clients = [await stack.enter_async_context(BrokerClient(port)) for port in broker.ports]
            names = ["broker-a", *(f"broker-a-{n}" for n in range(1, len(clients)))]
            for number in range(ROUNDS or 45):
                make, name = WAYS[number % len(WAYS)]
                shard = number // len(WAYS) % len(clients)
                watch = Watch(asked, name.format(number))
                topic = await make(clients[shard], number)
                assert topic == name.format(number)
                routes = await watch.end()
                assert names[shard] in await queues(asked, topic), "answered and not in the route"
                assert all(names[shard] in route for route in routes), (number, topic, routes)
                await until_is(
                    lambda topic=topic: queues(asked, topic),
                    lambda found: set(found) == set(names), MENDED_S,
                )  # fmt: skip

    with sharded_broker(tmp_path, 3) as broker:
        asyncio.run(rounds(broker))


NAMES = tuple(f"t{number}" for number in range(8))


class Storm:
    """16 clients of two shards that create, change and delete topics, none waits for another."""

    def __init__(self, ports: list[int], seed: int, changes: int) -> None:
        self._ports, self._seed, self._changes = ports, seed, changes
        self.made: set[str] = set()  # topics that sends have made

    async def run(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(16)))

    async def _client(self, number: int) -> None:
        random = Random(f"{self._seed} {number}")
        async with BrokerClient(self._ports[number % len(self._ports)]) as client:
            for _ in range(self._changes):
                name, way = random.choice(NAMES), random.random()
                if way < 0.6:
                    await change(client, name, random.randint(1, 99))
                elif way < 0.8:
                    reply = await client.call(Code.DELETE_TOPIC_IN_BROKER, topic=name)
                    assert reply.code == 0, reply.remark
                else:
                    topic = f"made-{self._seed}-{random.randint(0, 9)}"
                    reply = await client.send(topic)
                    assert reply.code == 0, reply.remark
                    self.made.add(topic)


async def table_of(port: int) -> dict[str, int]:
    """Topic -> write queues, as the shard says."""
    async with BrokerClient(port) as client:
        body = (await client.call(Code.GET_ALL_TOPIC_CONFIG)).body
    return write_queues(fastjson.loads_object(body)["topicConfigTable"])


def write_queues(table: dict[str, Any]) -> dict[str, int]:
    return {name: row["writeQueueNums"] for name, row in table.items()}


async def routes_of(client: Client, names: set[str], broker_name: str) -> dict[str, int]:
    """Topic -> write queues of this broker, as the name server says."""
    listed = await client.call(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    known = fastjson.loads_object(listed.body)["topicList"]
    found = {name: await queues(client, name) for name in {*known, *names}}
    return {name: rows[broker_name] for name, rows in found.items() if broker_name in rows}


def test_name_servers_shards_and_files_agree_after_a_storm(tmp_path: Path) -> None:
    """They agree about deletions, too: the name servers forget what is no longer registered."""

    async def storms(broker: ShardedBroker) -> None:
        async with AsyncExitStack() as stack:
            second = await stack.enter_async_context(
                name_server(deleteTopicWithBrokerRegistration=True)
            )
            ports = [int(broker.namesrv.rpartition(":")[2]), second.port]
            asked = [await stack.enter_async_context(Client(port)) for port in ports]
            setting = b"deleteTopicWithBrokerRegistration=true\n"
            assert (await asked[0].call(Code.UPDATE_NAMESRV_CONFIG, setting)).code == 0
            shard = await stack.enter_async_context(BrokerClient(broker.ports[0]))
            both = f"namesrvAddr={';'.join(f'127.0.0.1:{port}' for port in ports)}\n"
            assert (await shard.call(Code.UPDATE_BROKER_CONFIG, both.encode())).code == 0
            for seed in range(max(2, ROUNDS // 50)):
                storm = Storm(broker.ports, seed, changes=15)
                await storm.run()
                for index, port in enumerate(broker.ports):
                    await until_agreed(broker, asked, index, port, storm.made)

    async def until_agreed(
        broker: ShardedBroker, asked: list[Client], index: int, port: int, made: set[str]
    ) -> None:
        name = f"broker-a-{index}" if index else "broker-a"
        store = broker.store / f"shard-{index}" if index else broker.store

        async def differences() -> list[dict[str, Any]] | None:
            """How the file and the name servers differ from what the shard says. None: the shard
            itself lacks a topic that was made."""
            file = stored(store)
            said = await table_of(port)
            others = [
                write_queues(file["topicConfigTable"]),
                *[await routes_of(client, made, name) for client in asked],
            ]
            if not said.keys() >= made:
                return None
            return [
                {key: each.get(key) for key in each.keys() | said.keys()
                 if each.get(key) != said.get(key)} for each in others if each != said
            ]  # fmt: skip

        await until_is(differences, lambda found: found == [], MENDED_S)

    with sharded_broker(tmp_path, 2) as broker:
        asyncio.run(storms(broker))
