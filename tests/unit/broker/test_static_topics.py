"""Goal: static topics work: logical queues over two brokers, before and after one has moved.

Method: live brokers and a name server in this process, joined by real sockets, with mappings as
mqadmin sends them (513). What RocketMQ's own tools and clients do with such topics:
tests/compat/test_static_topics.py.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.live_broker import live_broker
from support.live_replicas import SYNC, slave_of, until_same_log
from support.name_server import Client, in_loop, name_server
from support.queue_mappings import FAR, detail, item
from support.shard import HELD_MS
from support.unwritable import not_saved
from support.waiting import until
from support.wire_frames import batch_body

from rmq.broker.broker import Broker
from rmq.broker.tables.queue_mapping import LogicQueueItem, chain_fault, succession_fault
from rmq.format import fastjson
from rmq.format.message import decode_messages
from rmq.format.remoting import Command
from rmq.namesrv.server import NameServer

GET_TOPIC, STATIC, ROUTE, ALL_TOPICS, DELETE = 351, 513, 105, 21, 215
SEARCH, MAXIMUM, MINIMUM, EARLIEST, QUERY, COMMIT = 29, 30, 31, 32, 14, 15
FOUND, NOTHING_NEW, AT_ONCE, MOVED, NOT_LEADER = 0, 19, 20, 21, 501
OWN = {"sysFlag": 4, "subscription": "*", "expressionType": "TAG", "subVersion": 0}


async def put(
    client: BrokerClient, broker: str, queues: dict[int, list[dict[str, Any]]],
    total: int = 2, epoch: int = 1, physical: int = 1, **more: Any,
) -> Command:  # fmt: skip
    fields = {
        "topic": "s", "defaultTopic": "TBW102", "readQueueNums": physical,
        "writeQueueNums": physical, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        "order": False, **more,
    }  # fmt: skip
    return await client.call(STATIC, detail(broker, queues, total, epoch), **fields)


class Two:
    """Broker a leads logical queue 0, and broker b leads queue 1."""

    def __init__(self, server: NameServer, brokers: list[Broker], clients: list[BrokerClient]):
        self.server = server
        self.a, self.b = clients
        self.brokers = brokers

    async def create(self) -> None:
        assert (await put(self.a, "a", {0: [item(0, "a", 0, 0)]})).code == 0
        assert (await put(self.b, "b", {1: [item(0, "b", 0, 0)]})).code == 0
        for client in (self.a, self.b):
            assert (await client.call(200, b'{"groupName":"g"}')).code == 0

    async def move(self) -> None:
        """Moves queue 0 from a to b in mqadmin's steps."""
        undecided = [item(0, "a", 0, 0), item(1, "b", 1, -1)]
        b_queue = [item(0, "b", 0, 0)]
        new = {"epoch": 2, "physical": 2}
        assert (await put(self.b, "b", {0: undecided, 1: b_queue}, **new)).code == 0
        assert (await put(self.a, "a", {0: undecided}, epoch=2)).code == 0
        decided = [item(0, "a", 0, 0), item(1, "b", 1, FAR)]
        assert (await put(self.b, "b", {0: decided, 1: b_queue}, **new)).code == 0


@asynccontextmanager
async def two(folder: Path, **settings: object) -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(name_server())
        address = f"127.0.0.1:{server.port}"
        brokers, clients = [], []
        for name in "ab":
            broker = await stack.enter_async_context(
                live_broker(folder / name, brokerName=name, namesrvAddr=address, **settings)
            )
            brokers.append(broker)
            clients.append(await stack.enter_async_context(BrokerClient(broker.core.port)))
        yield Two(server, brokers, clients)


async def number(client: BrokerClient, code: int, queue: int, name: str = "offset",
                 **more: Any) -> int:  # fmt: skip
    reply = await client.call(code, topic="s", queueId=queue, **more)
    assert reply.code == 0, reply.remark
    return int(reply.fields[name])


async def pull(client: BrokerClient, queue: int, offset: int, **more: Any) -> Command:
    return await client.pull("g", "s", queue, offset, **{**OWN, **more})


def texts(reply: Command) -> list[bytes]:
    return [message.body for message in decode_messages(reply.body)]


def numbers(reply: Command) -> tuple[int, ...]:
    names = ("nextBeginOffset", "minOffset", "maxOffset", "offsetDelta")
    return tuple(int(reply.fields[name]) for name in names)


# ------------------------------------------------------------------- the table


@in_loop
async def test_a_mapping_is_told_to_tools_name_servers_and_slaves(tmp_path: Path) -> None:
    async with two(tmp_path) as pair:
        await pair.create()
        told = json.loads((await pair.a.call(GET_TOPIC, topic="s", lo=True)).body.replace(
            b"{0:", b'{"0":'))  # fmt: skip
        assert told["writeQueueNums"] == 1
        assert told["mappingDetail"]["hostedQueues"] == {"0": [item(0, "a", 0, 0)]}
        assert b"mappingDetail" not in (await pair.a.call(GET_TOPIC, topic="s")).body
        async with Client(pair.server.port) as client:
            route = json.loads((await client.call(ROUTE, topic="s")).body)
        assert {name: (each["currIdMap"], each["totalQueues"], each["epoch"])
                for name, each in route["topicQueueMappingByBroker"].items()} == {
            "a": ({"0": 0}, 2, 1), "b": ({"1": 0}, 2, 1),
        }  # fmt: skip
        everything = fastjson.loads_object((await pair.b.call(ALL_TOPICS)).body)
        assert everything["topicQueueMappingDetailMap"]["s"]["bname"] == "b"
        assert everything["mappingDataVersion"]["counter"] > 0


@in_loop
async def test_a_mapping_outlives_the_broker_and_goes_with_its_topic(tmp_path: Path) -> None:
    path = tmp_path / "config/topicQueueMapping.json"
    for number_of_start in range(2):
        async with (
            live_broker(tmp_path, brokerName="a") as broker,
            BrokerClient(broker.core.port) as client,
        ):
            if number_of_start == 0:
                await put(client, "a", {1: [item(0, "a", 0, 0)]}, total=3)
                table = json.loads(path.read_bytes())["topicQueueMappingInfoMap"]
                assert table["s"]["hostedQueues"]["1"] == [item(0, "a", 0, 0)]
            assert (await client.send("s", b"x", 1)).fields["queueId"] == "1"
            assert (await client.send("s", b"x", 0)).code == NOT_LEADER
    async with (
        live_broker(tmp_path, brokerName="a") as broker,
        BrokerClient(broker.core.port) as client,
    ):
        assert (await client.call(DELETE, topic="s")).code == 0
        assert json.loads(path.read_bytes())["topicQueueMappingInfoMap"] == {}
        await client.call(17, topic="s", readQueueNums=1, writeQueueNums=1, perm=6)
        assert (await client.send("s", b"x", 0)).code == 0


@in_loop
async def test_a_mapping_without_its_topic_is_dropped_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    head = b'{"dataVersion":{"counter":4},"topicQueueMappingInfoMap":{"s":'
    # As Apache's broker writes it, with bare integers.
    body = detail("a", {0: [item(0, "a", 0, 0)]}, 1, 1)
    (config / "topicQueueMapping.json").write_bytes(head + body + b"}}")
    async with live_broker(tmp_path, brokerName="a") as broker:
        assert broker.queue_mappings.all() == {}
        assert broker.queue_mappings.version.counter == 5
    assert json.loads((config / "topicQueueMapping.json").read_bytes())[
        "topicQueueMappingInfoMap"
    ] == {}  # fmt: skip


def chain(*items: dict[str, Any]) -> tuple[LogicQueueItem, ...]:
    return tuple(
        LogicQueueItem(i["gen"], i["queueId"], i["bname"], i["logicOffset"], i["startOffset"],
                       i["endOffset"]) for i in items
    )  # fmt: skip


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ((item(0, "a", 0, 0), item(1, "b", 1, -1)), ""),
        ((item(0, "a", 0, 0, 5), item(1, "b", 1, 6)), ""),
        ((), "no items"),
        ((item(0, "a", -1, 0),), "out of range"),
        ((item(-1, "a", 0, 0),), "out of range"),
        (({**item(0, "a", 0, 0), "startOffset": -1},), "out of range"),
        (({**item(0, "a", 0, 0, 3), "startOffset": 4},), "ends before"),
        ((item(0, "", 0, 0),), "names no broker"),
        ((item(1, "a", 0, 0), item(1, "b", 1, 5)), "stands behind"),
        ((item(0, "a", 0, -1), item(1, "b", 1, 5)), "no logicOffset"),
        ((item(0, "a", 0, 0, 5), item(1, "b", 1, 5)), "begins before"),
    ],
)
def test_chains_that_make_no_sense_are_refused(items: tuple[Any, ...], reason: str) -> None:
    fault = chain_fault(chain(*items))
    assert reason in fault and bool(reason) == bool(fault)


@pytest.mark.parametrize(
    ("new", "same_epoch", "reason"),
    [
        # Now it is known where the new part begins.
        ((item(0, "a", 0, 0), item(1, "b", 1, 9)), False, ""),
        ((item(1, "b", 1, 9),), False, ""),  # the empty older part is left out
        ((item(0, "a", 0, 0), item(1, "b", 2, 9)), False, "another physical queue"),
        ((item(0, "a", 0, 1), item(1, "b", 1, 9)), False, "begins at 0"),
        ((item(0, "a", 0, 0),), True, "another leader"),
    ],
)
def test_an_item_stays_what_it_is(new: tuple[Any, ...], same_epoch: bool, reason: str) -> None:
    old = chain(item(0, "a", 0, 0), item(1, "b", 1, -1))
    fault = succession_fault(old, chain(*new), same_epoch)
    assert reason in fault and bool(reason) == bool(fault)


@in_loop
async def test_requests_that_do_not_fit_are_refused_with_the_reason(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path, brokerName="a") as broker,
        BrokerClient(broker.core.port) as client,
    ):
        good = {0: [item(0, "a", 0, 0)]}
        for queues, more, code, reason in (
            (good, {"topic": "other"}, 29, "of topic 's'"),
            (good, {"topic": "TBW102"}, 29, "belongs to the system"),
            (good, {"physical": 0}, 29, "writeQueueNums is 0"),
            ({2: good[0]}, {}, 29, "none of 2"),
            ({0: []}, {}, 29, "no items"),
            ({0: [{**good[0][0], "gen": 2**40}]}, {}, 1, "mapping"),
        ):
            reply = await put(client, "a", queues, **more)  # type: ignore[arg-type]
            assert (reply.code, reason in (reply.remark or "")) == (code, True), reply.remark
        assert (await put(client, "b", good)).code == 29
        assert (await client.call(STATIC, b"{", topic="s")).code == 1
        assert "s" not in broker.topics and broker.queue_mappings.all() == {}

        assert (await put(client, "a", good, epoch=5)).code == 0
        for queues, more, reason in (
            (good, {"epoch": 4}, "older"),
            ({}, {"epoch": 5}, "missing under the same epoch"),
            (good, {"epoch": 6, "total": 1}, "never less"),
            ({0: [item(0, "a", 1, 0)]}, {"epoch": 6, "physical": 2}, "another physical queue"),
        ):
            reply = await put(client, "a", queues, **more)  # type: ignore[arg-type]
            assert (reply.code, reason in (reply.remark or "")) == (1, True), reply.remark
        assert (await put(client, "a", {}, epoch=4, force=True)).code == 0
        kept = broker.queue_mappings.get("s")
        assert kept is not None and kept.epoch == 4 and kept.leads(0)


@in_loop
async def test_a_mapping_that_cannot_be_saved_changes_nothing_yet(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path, brokerName="a") as broker,
        BrokerClient(broker.core.port) as client,
    ):
        assert (await put(client, "a", {0: [item(0, "a", 0, 0)]})).code == 0
        moved = {0: [item(0, "a", 0, 0), item(1, "b", 0, -1)]}
        with not_saved(tmp_path, "topicQueueMapping.json"):
            assert (await put(client, "a", moved, epoch=2)).code == 1
            # Accepted, because a crash would bring the old mapping back.
            assert (await client.send("s", b"x", 0)).code == 0
        broker.queue_mappings.retry()
        await broker.queue_mappings.saved()
        assert (await client.send("s", b"x", 0)).code == NOT_LEADER


# ------------------------------------------------------------------- before a move


@in_loop
async def test_logical_queues_are_sent_to_and_read(tmp_path: Path) -> None:
    async with two(tmp_path) as pair:
        await pair.create()
        for client, queue in ((pair.a, 0), (pair.b, 1)):
            for n in range(3):
                reply = await client.send("s", b"%d" % n, queue)
                assert (reply.code, reply.fields["queueId"], reply.fields["queueOffset"]) == (
                    0, str(queue), str(n),
                )  # fmt: skip
            found = await pull(client, queue, 1)
            assert (found.code, texts(found), numbers(found)) == (0, [b"1", b"2"], (3, 0, 3, 0))
            assert await number(client, MAXIMUM, queue) == 3
            assert await number(client, MINIMUM, queue) == 0
            assert await number(client, SEARCH, queue, timestamp=0) == 0
            assert await number(client, EARLIEST, queue, "timestamp") > 0
            assert (await pull(client, queue, 3)).code == NOTHING_NEW
            assert (await pull(client, queue, 9)).code == MOVED
        for code, more in (
            (MAXIMUM, {}), (MINIMUM, {}), (EARLIEST, {}), (SEARCH, {"timestamp": 0}),
            (QUERY, {"consumerGroup": "g"}), (COMMIT, {"consumerGroup": "g", "commitOffset": 1}),
        ):  # fmt: skip
            reply = await pair.a.call(code, topic="s", queueId=1, **more)  # type: ignore[arg-type]
            assert reply.code == NOT_LEADER, code
        assert (await pair.a.send("s", b"x", 1)).code == NOT_LEADER
        assert (await pull(pair.a, 1, 0)).code == NOT_LEADER
        # A request about the physical queue says so.
        assert (await pair.b.send("s", b"p", 0, lo=False)).fields["queueOffset"] == "3"
        assert "offsetDelta" not in (await pull(pair.b, 0, 0, lo=False)).fields
        assert await number(pair.b, MAXIMUM, 0, lo=False) == 4


@in_loop
async def test_the_broker_chooses_a_queue_it_leads(tmp_path: Path) -> None:
    async with two(tmp_path) as pair:
        await pair.create()
        assert {(await pair.b.send("s", b"x", -1)).fields["queueId"] for _ in range(20)} == {"1"}


@in_loop
async def test_batches_and_delayed_messages_have_their_logical_queue(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path, brokerName="a", messageDelayLevel="1s") as broker,
        BrokerClient(broker.core.port) as client,
    ):
        await put(client, "a", {1: [item(0, "b", 0, 0), item(1, "a", 0, FAR)]})
        batch = await client.send("s", batch_body([(0, b"x", b""), (0, b"y", b"")]), 1, m=True)
        assert (batch.code, batch.fields["queueId"], batch.fields["queueOffset"]) == (
            0, "1", str(FAR),
        )  # fmt: skip
        late = await client.send("s", b"late", 1, i="DELAY\x011\x02")
        assert (late.code, late.fields["queueId"]) == (0, "1")
        await client.call(200, b'{"groupName":"g"}')
        await until(lambda: broker.queues.range("s", 0) == (0, 3))
        assert texts(await pull(client, 1, FAR)) == [b"x", b"y", b"late"]


@in_loop
async def test_a_held_pull_is_woken_in_logical_offsets(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path, brokerName="a") as broker,
        BrokerClient(broker.core.port) as client,
        BrokerClient(broker.core.port) as other,
    ):
        await put(client, "a", {1: [item(0, "b", 0, 0), item(1, "a", 0, FAR)]})
        await client.call(200, b'{"groupName":"g"}')
        held = client.post(
            11, consumerGroup="g", topic="s", queueId=1, queueOffset=FAR, maxMsgNums=32,
            commitOffset=0, suspendTimeoutMillis=HELD_MS, **{**OWN, "sysFlag": 6},
        )  # fmt: skip
        await until(lambda: broker.core.stats()["pulls_held"] == 1)
        assert (await other.send("s", b"new", 1)).fields["queueOffset"] == str(FAR)
        found = await client.reply(held)
        assert (texts(found), numbers(found)) == ([b"new"], (FAR + 1, FAR, FAR + 1, FAR))


# ------------------------------------------------------------------- behind a move


@in_loop
async def test_a_moved_queue_is_read_from_both_brokers_as_one(tmp_path: Path) -> None:
    async with two(tmp_path) as pair:
        await pair.create()
        for n in range(3):
            await pair.a.send("s", b"old%d" % n, 0)
        await pair.move()
        assert (await pair.a.send("s", b"x", 0)).code == NOT_LEADER
        assert (await pull(pair.a, 0, 0)).code == NOT_LEADER
        reply = await pair.b.send("s", b"new", 0)
        assert (reply.fields["queueId"], reply.fields["queueOffset"]) == ("0", str(FAR))

        # The older messages are on broker a, and b asks a for them.
        old = await pull(pair.b, 0, 1)
        assert (old.code, texts(old), numbers(old)) == (0, [b"old1", b"old2"], (3, 0, FAR, 0))
        end = await pull(pair.b, 0, 3, hold_ms=HELD_MS)
        assert (end.code, numbers(end)[0]) == (AT_ONCE, FAR)
        new = await pull(pair.b, 0, FAR)
        assert (texts(new), numbers(new)) == ([b"new"], (FAR + 1, FAR, FAR + 1, FAR))
        # An offset in the gap between the two parts belongs to the older part, and leads to the
        # newer.
        assert numbers(await pull(pair.b, 0, 500))[0] == FAR
        assert (await pull(pair.b, 0, FAR + 1)).code == NOTHING_NEW

        assert await number(pair.b, MINIMUM, 0) == 0
        assert await number(pair.b, MAXIMUM, 0) == FAR + 1
        assert await number(pair.b, SEARCH, 0, timestamp=0) == 0
        assert await number(pair.b, SEARCH, 0, timestamp=2**50) == FAR + 1
        assert await number(pair.b, SEARCH, 0, timestamp=2**50, boundaryType="UPPER") == FAR
        first_ms = await number(pair.a, EARLIEST, 0, "timestamp", lo=False)
        assert await number(pair.b, EARLIEST, 0, "timestamp") == first_ms


@in_loop
async def test_a_groups_offset_moves_with_what_it_has_read(tmp_path: Path) -> None:
    async with two(tmp_path) as pair:
        await pair.create()
        group = {"consumerGroup": "g"}
        await pair.a.send("s", b"old", 0)
        assert (await pair.a.call(COMMIT, topic="s", queueId=0, commitOffset=1, **group)).code == 0
        await pair.move()
        assert await number(pair.b, QUERY, 0, **group) == 1
        # A consumer that does not know of the move commits what it has read; RocketMQ refuses that.
        where = {"topic": "s", "queueId": 0, **group}
        assert (await pair.a.call(COMMIT, commitOffset=0, **where)).code == 0
        assert await number(pair.b, QUERY, 0, **group) == 0
        assert (await pair.a.call(COMMIT, commitOffset=FAR, **where)).code == NOT_LEADER
        assert (await pair.b.call(COMMIT, topic="s", queueId=0, commitOffset=0, **group)).code == 0
        # Broker a's own physical queue.
        assert await number(pair.a, QUERY, 0, lo=False, **group) == 0
        await pair.b.send("s", b"new", 0)
        assert (
            await pair.b.call(COMMIT, topic="s", queueId=0, commitOffset=FAR + 1, **group)
        ).code == 0
        assert await number(pair.b, QUERY, 0, **group) == FAR + 1
        assert pair.brokers[1].offsets.query("g", "s", 1) == 1  # b's second physical queue
        other = {"consumerGroup": "g2"}
        assert (await pair.b.call(QUERY, topic="s", queueId=0, **other)).code == 22
        stats = fastjson.loads_object((await pair.b.call(208, topic="s", **group)).body)
        assert {key.queue_id: value["consumerOffset"]
                for key, value in stats["offsetTable"].items()} == {0: -1, 1: 1}  # fmt: skip
        # A pull that commits must commit in the queue that it reads.
        await pull(pair.b, 0, FAR + 1, sysFlag=5, commitOffset=FAR)
        assert await number(pair.b, QUERY, 0, **group) == FAR


@in_loop
async def test_what_was_sent_before_the_old_leader_answered_is_counted(tmp_path: Path) -> None:
    """Every send that the old leader confirmed must be counted in its queue's end, which mqadmin
    asks for (202) after it has taken the lead from that broker."""
    async with two(tmp_path) as pair:
        await pair.create()
        sends = [pair.a.post_send("s", b"%d" % n, 0) for n in range(50)]
        undecided = [item(0, "a", 0, 0), item(1, "b", 1, -1)]
        assert (await put(pair.a, "a", {0: undecided}, epoch=2)).code == 0
        codes = [(await pair.a.reply(each)).code for each in sends]
        stats = fastjson.loads_object((await pair.a.call(202, topic="s")).body)
        [row] = [each for key, each in stats["offsetTable"].items() if key.queue_id == 0]
        assert row["maxOffset"] == codes.count(0) > 0


@in_loop
async def test_a_queue_that_is_being_moved_is_written_and_not_yet_read(tmp_path: Path) -> None:
    async with two(tmp_path) as pair:
        await pair.create()
        await pair.a.send("s", b"old", 0)
        undecided = [item(0, "a", 0, 0), item(1, "b", 1, -1)]
        queues = {0: undecided, 1: [item(0, "b", 0, 0)]}
        await put(pair.b, "b", queues, epoch=2, physical=2)
        assert (await pair.b.send("s", b"new", 0)).fields["queueOffset"] == "-1"
        assert texts(await pull(pair.b, 0, 0)) == [b"old"]
        assert (await pull(pair.b, 0, 1)).code == NOTHING_NEW
        assert await number(pair.b, MAXIMUM, 0) == 1


@in_loop
async def test_the_reason_is_told_when_the_other_broker_is_gone(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(name_server())
        address = f"127.0.0.1:{server.port}"
        broker = await stack.enter_async_context(
            live_broker(tmp_path, brokerName="b", namesrvAddr=address, forwardTimeout=2000)
        )
        client = await stack.enter_async_context(BrokerClient(broker.core.port))
        await put(client, "b", {0: [item(0, "gone", 0, 0), item(1, "b", 0, FAR)]})
        await client.call(200, b'{"groupName":"g"}')
        for reply in (await pull(client, 0, 0), await client.call(MINIMUM, topic="s", queueId=0)):
            assert reply.code == 1 and "no broker gone" in (reply.remark or ""), reply.remark
        assert (await client.send("s", b"x", 0)).code == 0


@in_loop
async def test_a_slave_has_the_mapping_as_its_master(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **SYNC, brokerName="a", slaveTimeout=60_000) as master,
        slave_of(master, tmp_path / "s", brokerName="a") as slave,
        BrokerClient(master.core.port) as client,
        BrokerClient(slave.core.port) as reader,
    ):
        chain = [item(0, "gone", 0, 0), item(1, "a", 0, FAR)]
        # It is answered only when the slave has the mapping.
        assert (await put(client, "a", {0: chain})).code == 0
        assert slave.queue_mappings.all() == master.queue_mappings.all() != {}
        await client.call(200, b'{"groupName":"g"}')
        await client.send("s", b"x", 0)
        await until_same_log(master, slave)
        await until(lambda: "g" in slave.groups)
        found = await pull(reader, 0, FAR)
        assert (texts(found), numbers(found)) == ([b"x"], (FAR + 1, FAR, FAR + 1, FAR))
        assert (await put(reader, "a", {0: chain}, epoch=2)).code == 16
        assert (await client.call(DELETE, topic="s")).code == 0
        await until(lambda: slave.queue_mappings.all() == {})
    path = tmp_path / "s/config/topicQueueMapping.json"
    assert json.loads(path.read_bytes())["topicQueueMappingInfoMap"] == {}
