"""Routes of topics, asked of name servers over real sockets, as the sharing out of queues needs
them."""

import asyncio

import pytest
from support.name_server import DATA_VERSION, Client, in_loop, name_server

from rmq.broker.registration import routes
from rmq.broker.registration.routes import Routes, read_queues
from rmq.config import Settings, load_properties
from rmq.errors import ProtocolError
from rmq.format.fastjson import MessageQueue

NEWER = {**DATA_VERSION, "counter": 2}


def settings(*ports: int) -> Settings:
    """Settings with these name servers, by port. At port 1 of this machine nobody answers."""
    return load_properties(None, {"namesrvAddr": ";".join(f"127.0.0.1:{port}" for port in ports)})


def queues(*places: tuple[str, int]) -> list[MessageQueue]:
    return [MessageQueue("t", name, queue_id) for name, queue_id in places]


@in_loop
async def test_the_queues_of_all_brokers_are_found_in_order() -> None:
    async with name_server() as server, Client(server.port) as one, Client(server.port) as other:
        await other.register(name="broker-b", address="127.0.0.1:2", topics={"t": 1, "x": 1})
        await one.register(name="broker-a", address="127.0.0.1:1", topics={"t": 2, "x": 1})
        found = await Routes(settings(server.port)).queues("t")
        assert found == queues(("broker-a", 0), ("broker-a", 1), ("broker-b", 0))


@in_loop
async def test_the_next_name_server_is_asked_when_one_is_gone() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(topics={"t": 1, "x": 1})
        assert len(await Routes(settings(1, server.port)).queues("t") or []) == 1


@in_loop
async def test_what_nobody_knows_is_none() -> None:
    async with name_server() as server:
        assert await Routes(settings(server.port)).queues("t") is None
    assert await Routes(settings(1)).queues("t") is None
    assert await Routes(settings()).queues("t") is None


@in_loop
async def test_an_answer_is_shared_and_kept_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(topics={"t": 1, "x": 1})
        asked = Routes(settings(server.port))
        calls: list[str] = []
        plain = asked._ask
        monkeypatch.setattr(asked, "_ask", lambda topic: calls.append(topic) or plain(topic))
        found = await asyncio.gather(*(asked.queues("t") for _ in range(10)))
        assert [len(each or []) for each in found] == [1] * 10
        await client.register(topics={"t": 3, "x": 1}, data_version=NEWER)
        assert len(await asked.queues("t") or []) == 1
        assert calls == ["t"]
        monkeypatch.setattr(routes, "KEPT_S", 0.0)
        await asyncio.sleep(0.01)
        assert len(await asked.queues("t") or []) == 3


@in_loop
async def test_who_gives_up_waiting_takes_the_answer_from_nobody() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(topics={"t": 1, "x": 1})
        asked = Routes(settings(server.port))
        first = asyncio.create_task(asked.queues("t"))
        second = asyncio.create_task(asked.queues("t"))
        await asyncio.sleep(0)
        first.cancel()
        assert len(await second or []) == 1


def row(**changed: object) -> dict[str, object]:
    return {"brokerName": "b", "readQueueNums": 2, "writeQueueNums": 9, "perm": 6} | changed


def test_only_readable_queues_count() -> None:
    rows = [row(), row(brokerName="a", perm=2), row(brokerName="c", perm=4, readQueueNums=1)]
    assert read_queues("t", {"queueDatas": rows}) == queues(("b", 0), ("b", 1), ("c", 0))
    assert read_queues("t", {}) == []
    assert read_queues("t", {"queueDatas": None}) == []


def test_a_static_topic_has_its_logical_queues() -> None:
    newer = {"bname": "b", "epoch": 2, "totalQueues": 3, "currIdMap": {"0": 0, "2": 1}}
    older = {"bname": "c", "epoch": 1, "totalQueues": 2, "currIdMap": {"1": 0}}
    route = {"queueDatas": [row()], "topicQueueMappingByBroker": {"b": newer, "c": older}}
    name = "__syslo__global__"
    assert read_queues("t", route) == queues((name, 0), (name, 1), (name, 2))
    for broken in (7, [newer], {"b": 7}, {"b": {**newer, "epoch": "x"}}, {"b": {}}):
        with pytest.raises(ProtocolError):
            read_queues("t", {"topicQueueMappingByBroker": broken})


@pytest.mark.parametrize("broken", [
    7, row(brokerName=None), row(readQueueNums="2"), row(readQueueNums=1 << 40), row(perm="6"),
])  # fmt: skip
def test_a_route_that_is_none_is_refused(broken: object) -> None:
    with pytest.raises(ProtocolError):
        read_queues("t", {"queueDatas": [broken]})
