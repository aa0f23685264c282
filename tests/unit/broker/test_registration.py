"""Registration at name servers, over real sockets against our own name server."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import Client, in_loop, name_server

from rmq.broker import registration
from rmq.broker.namesrv_link import LinkError, parse_address
from rmq.broker.topic_config import TopicConfig
from rmq.namesrv.server import NameServer
from tools.ports import free_port


async def route(client: Client, topic: str, present: bool = True, timeout_s: float = 5.0) -> dict:
    """The route of a topic, as soon as it is there (or gone)."""
    for _ in range(int(timeout_s / 0.02)):
        reply = await client.call(105, topic=topic)
        if (reply.code == 0) == present:
            return json.loads(reply.body) if present else {}
        await asyncio.sleep(0.02)
    raise AssertionError(f"route of {topic}: code {reply.code}")


@in_loop
async def test_the_broker_is_known_at_once_and_gone_when_it_stops(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        async with control(tmp_path, namesrvAddr=f"127.0.0.1:{server.port}"):
            found = await route(client, "TBW102")
            assert found["queueDatas"][0]["perm"] == 7
            assert found["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:26911"}
        assert (await client.call(105, topic="TBW102")).code == 17


@in_loop
async def test_a_new_topic_is_told_at_once_alone_at_every_name_server(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(name_server()) for _ in range(2)]
        clients = [await stack.enter_async_context(Client(s.port)) for s in servers]
        addresses = ";".join(f"127.0.0.1:{server.port}" for server in servers)
        broker = await stack.enter_async_context(control(tmp_path, namesrvAddr=addresses))
        for client in clients:
            await route(client, "TBW102")
        sent: list[set[str] | None] = []
        plain = broker.registration.register_command
        broker.registration.register_command = lambda only: sent.append(only) or plain(only)
        await asyncio.gather(*(broker.topics.create(TopicConfig(f"t{n}", 2, 2)) for n in range(20)))
        for client in clients:
            assert (await route(client, "t19"))["queueDatas"][0]["writeQueueNums"] == 2
        assert None not in sent
        assert len(sent) <= 8  # 20 topics, 2 name servers: told in bulk


@in_loop
async def test_a_name_server_that_comes_later_or_again_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "RETRY_FIRST_S", 0.05)
    port = free_port()
    async with control(tmp_path, namesrvAddr=f"127.0.0.1:{port}") as broker:
        await asyncio.sleep(0.1)
        assert broker.registration.registered() == []
        for _ in range(2):
            async with name_server(listenPort=port) as server:
                assert isinstance(server, NameServer)
                async with Client(port) as client:
                    await route(client, "TBW102")
            await broker.core.until(lambda: broker.registration.registered() == [])


@in_loop
async def test_a_dead_name_server_delays_nobody(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        addresses = f"127.0.0.1:1;nonsense;127.0.0.1:{server.port}"
        async with control(tmp_path, namesrvAddr=addresses) as broker:
            await route(client, "TBW102")
            tool = broker.core.client()
            assert (await tool.call(30, topic="t", queueId=0)).code == 0


@in_loop
async def test_the_list_of_name_servers_changes_at_run_time(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client, control(tmp_path) as broker:
        tool = broker.core.client()
        body = f"namesrvAddr=127.0.0.1\\:{server.port}\n".encode()
        assert (await tool.call(25, body)).code == 0
        await route(client, "TBW102")
        assert (await tool.call(25, b"namesrvAddr=\n")).code == 0
        await route(client, "TBW102", present=False)


@in_loop
async def test_a_read_only_broker_registers_without_write_permission(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        address = f"127.0.0.1:{server.port}"
        async with control(tmp_path, namesrvAddr=address, brokerPermission=4):
            assert (await route(client, "TBW102"))["queueDatas"][0]["perm"] == 5


@in_loop
async def test_topics_the_name_server_calls_ordered_are_marked(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.call(100, namespace="ORDER_TOPIC_CONFIG", key="t", value="broker-a:2")
        async with control(tmp_path, namesrvAddr=f"127.0.0.1:{server.port}") as broker:
            await broker.topics.create(TopicConfig("t", 2, 2))
            await broker.core.until(lambda: broker.topics.require("t").order)
            assert broker.core.topics[b"t"] == (2, 2, 6, 1)


def test_addresses_are_checked() -> None:
    assert parse_address(" [::1]:9876 ") == ("::1", 9876)
    assert parse_address("host:1") == ("host", 1)
    for text in ("", "host", ":1", "host:", "host:0", "host:65536", "host:x"):
        with pytest.raises(LinkError):
            parse_address(text)
