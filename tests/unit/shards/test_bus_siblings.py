"""Brokers that share through a router: what happens to one broker's tables happens to the other's.

The brokers are real, except for the core, which is the tests' stand-in; the bus is real. With name
servers and reactors: tests/process/test_shards.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.calm_clock import calm_seconds
from support.fake_core import FakeCore
from support.stored_table import stored
from support.waiting import HANG_S, until

from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tasks import retention
from rmq.codes import RequestCode as Code
from rmq.config import load_properties
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format.remoting import Command
from rmq.names import HALF_TOPIC, REVIVE_GROUP, revive_topic
from shards import bus_router, bus_siblings
from shards.bus_files import BusDirectory
from shards.bus_router import BusRouter, Peer
from shards.bus_siblings import BusSiblings
from shards.initial_tables import copy_tables
from shards.messages import (
    GROUP,
    TOPIC,
    BusError,
    Changed,
    Done,
    Item,
    Message,
    Permission,
    Stamp,
    Stats,
    StatsReply,
    Unconsumed,
    UnconsumedReply,
    expect,
)
from shards.registry import Registry

REVIVE_TOPIC = revive_topic("DefaultCluster")
MARKS = "CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01asker@1\x02TTL\x013000\x02"
REPLY = dict(zip(
    "abcdefghijk",
    ("CID", "DefaultCluster_REPLY_TOPIC", "TBW102", 4, 0, 1, 77, 5, MARKS, 0, False),
    strict=True,
))  # fmt: skip
ASKER = json.dumps({"clientID": "asker@1", "producerDataSet": [{"groupName": "P"}]}).encode()


@pytest.fixture(autouse=True)
def _patient_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start goes on alone if the others are not on the bus soon. Here they are, but a busy
    machine takes its time."""
    monkeypatch.setattr(bus_siblings, "JOIN_WAIT_S", 60.0)


class Shards:
    def __init__(self, store: Path, stack: AsyncExitStack) -> None:
        self.store, self.stack = store, stack
        directory = BusDirectory(store, make=True)
        self.token = directory.new_token()
        self.ready: list[tuple[int, bool]] = []  # the reports of shards
        self.refusals: list[str] = []  # the answers to the next hellos, the last one first

        async def command(message: Message) -> Message:
            return Done()

        self.router = BusRouter(
            directory, self.token, lambda hello: self.refusals.pop() if self.refusals else "",
            lambda index, serving: self.ready.append((index, serving)), command,
        )  # fmt: skip
        self.router.start()
        stack.push_async_callback(self.router.stop)
        self.brokers: dict[int, Broker] = {}

    async def start(self, index: int, **settings: str) -> Broker:
        place = {"storePathRootDir": str(self.store / f"s{index}"), "brokerName": f"b-{index}"}
        broker = Broker(load_properties(None, place | settings), FakeCore())
        joined = BusSiblings(broker, BusDirectory(self.store), index, self.token, "")
        broker.join(joined)
        await broker.start()
        joined.serving()
        self.brokers[index] = broker
        self.stack.push_async_callback(self.stop, index)
        return broker

    async def stop(self, index: int) -> None:
        broker = self.brokers.pop(index, None)
        if broker is not None:
            await broker.stop()
            self.router.forget(index)


@asynccontextmanager
async def shards(store: Path, count: int) -> AsyncIterator[tuple[Shards, list[Broker]]]:
    async with AsyncExitStack() as stack:
        made = Shards(store, stack)
        yield made, [await made.start(index) for index in range(count)]


def run(work: object) -> None:
    asyncio.run(asyncio.wait_for(work, HANG_S))  # type: ignore[arg-type]


def test_topic_reaches_table_reactor_and_file_of_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            await one.topics.create(TopicConfig("t", 3, 3))
            await until(lambda: "t" in two.topics)
            assert two.core.topics[b"t"][:2] == (3, 3)
            await two.topics.saved()
            content = stored(tmp_path / "s1")
            assert content["topicConfigTable"]["t"]["readQueueNums"] == 3
            assert content["shardStamps"]["t"] == list(one.topics.stamps.get("t"))
            assert content["shardStamps"]["t"][1] == 0

    run(work())


def test_a_change_is_answered_when_the_other_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer must wait until the other broker has the change. (It would not wait for a late
    broker; here none is late, however busy the machine is.)"""
    monkeypatch.setattr(bus_router, "CHANGE_WAIT_S", 20.0)
    monkeypatch.setattr(bus_siblings, "SHARE_WAIT_S", 20.0)

    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            await until(lambda: not any(peer.late for peer in made.router._shards.values()))
            await one.topics.create(TopicConfig("t", 3, 3))
            assert "t" in two.topics
            two.groups.find_or_create("g")
            await two.siblings.shared()
            assert "g" in one.groups

    run(work())


def test_a_change_that_the_supervisor_refuses_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            change = made.router._change

            async def refuse_once(origin: Peer, items: list[Item]) -> Changed:
                if refused:
                    return await change(origin, items)
                refused.extend(item.name for item in items)
                raise BusError("too many requests under way")

            monkeypatch.setattr(made.router, "_change", refuse_once)
            await one.topics.create(TopicConfig("t", 3, 3))
            await until(lambda: "t" in two.topics)
            assert refused == ["t"]

    run(work())


def test_a_broker_whose_log_is_opened_anew_says_so_and_the_next_one_serves_in_its_place(
    tmp_path: Path,
) -> None:
    """A shard whose log is opened anew must say so. One that simply ends says nothing: if it hangs,
    it must be killed."""

    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            await until(lambda: made.ready == [(0, True)])
            await one.siblings.reopening()
            assert made.ready == [(0, True), (0, False)]
            assert not one.siblings.hello().serving, (
                "a new supervisor does not wait for beats either"
            )
            await made.stop(0)
            await made.start(0)
            await until(lambda: made.ready == [(0, True), (0, False), (0, True)])
            await made.stop(0)
            assert len(made.ready) == 3

    run(work())


def test_a_shard_that_is_refused_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with shards(tmp_path, 0) as (made, _):
            made.refusals = ["no room"]
            await made.start(0)  # it is refused, and asks once more
            assert made.router.joined(0) is not None
            monkeypatch.setattr(bus_siblings, "JOIN_WAIT_S", 2.0)
            made.refusals = ["no room"] * 10_000
            settings = load_properties(None, {"storePathRootDir": str(tmp_path / "s1")})
            broker = Broker(settings, FakeCore())
            refused = BusSiblings(broker, BusDirectory(tmp_path), 1, made.token, "")
            with pytest.raises(RmqError, match="no room"):
                await refused.start()

    run(work())


def test_topics_of_the_system_stay_with_their_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            assert "b-0" in one.topics
            assert "b-0" not in two.topics
            assert len(made.router.registry) == 0

    run(work())


def test_what_is_said_to_one_stays_with_it(tmp_path: Path) -> None:
    """A topic or group that a request changes at one broker must stay there: clients and tools tell
    each broker what to do."""

    async def say(broker: Broker, code: int, body: bytes = b"", **fields: object) -> None:
        reply = await broker.core.client().call(code, body, **fields)
        assert reply.code == 0, reply.remark

    def put_topic(broker: Broker, name: str, count: int) -> Awaitable[None]:
        numbers = {"readQueueNums": count, "writeQueueNums": count, "perm": 6}
        return say(broker, Code.UPDATE_AND_CREATE_TOPIC, topic=name, **numbers)

    def put_group(broker: Broker, name: str, times: int) -> Awaitable[None]:
        group = {"groupName": name, "retryMaxTimes": times}
        return say(broker, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(group).encode())

    async def check(made: Shards, one: Broker, two: Broker) -> None:
        """Everything said before "last" is on both by then, so what is missing will not come."""
        await one.topics.create(TopicConfig("last", 1, 1))
        await until(lambda: "last" in two.topics)
        assert "alone" in one.topics
        assert "alone" not in two.topics
        assert "many" in two.topics
        assert "many" not in one.topics
        assert (one.topics.require("both").queues, two.topics.require("both").queues) == (5, 4)
        assert "gone" in two.topics
        assert "gone" not in one.topics
        assert "g" in one.groups
        assert "g" not in two.groups
        times = [each.groups.require_present("gg").retry_times_max for each in (one, two)]
        assert times == [3, 16]
        assert "ggg" not in one.groups
        assert "ggg" in two.groups
        assert not one.groups.may_read("gg", "both")
        assert two.groups.may_read("gg", "both")

    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            for name in ("both", "gone"):
                await one.topics.create(TopicConfig(name, 4, 4))
            for name in ("gg", "ggg"):
                one.groups.find_or_create(name)
            await until(lambda: "gone" in two.topics and "ggg" in two.groups)
            await put_topic(one, "alone", 3)
            await put_topic(one, "both", 5)
            body = json.dumps({"topicConfigList": [TopicConfig("many").members()]}).encode()
            await say(two, Code.UPDATE_AND_CREATE_TOPIC_LIST, body)
            await say(one, Code.DELETE_TOPIC_IN_BROKER, topic="gone")
            await put_group(one, "g", 3)
            await put_group(one, "gg", 3)
            await say(one, Code.DELETE_SUBSCRIPTIONGROUP, groupName="ggg")
            fields = {"group": "gg", "topic": "both", "readable": False}
            await say(one, Code.UPDATE_AND_GET_GROUP_FORBIDDEN, **fields)
            await check(made, one, two)
            for index in (0, 1):  # nor when they join again, in either order
                await made.stop(index)
                again = await made.start(index)
                one, two = (again, two) if index == 0 else (one, again)
                await one.topics.delete("last")
                await two.topics.delete("last")
                await check(made, one, two)

    run(work())


def test_what_is_made_again_after_its_deletion_is_on_all_again(tmp_path: Path) -> None:
    """If a topic was deleted on all shards, the next send must make it on all of them again; a
    shard that has it already keeps its form."""

    async def work() -> None:
        async with shards(tmp_path, 3) as (_made, brokers):
            one, two, three = brokers
            await one.topics.create(TopicConfig("t", 3, 3))
            one.groups.find_or_create("g")
            await until(lambda: all("t" in each.topics and "g" in each.groups for each in brokers))
            for broker in brokers:
                await broker.topics.delete("t")
                await broker.groups.delete("g")
            await three.topics.update(TopicConfig("t", 7, 7))
            await two.topics.create(TopicConfig("t", 5, 5))
            two.groups.find_or_create("g")
            await until(lambda: "t" in one.topics and "g" in one.groups and "g" in three.groups)
            assert [each.topics.require("t").queues for each in brokers] == [5, 5, 7]

    run(work())


def test_made_at_the_same_time_on_both_it_is_there_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            topic = TopicConfig("t", 3, 3)
            await asyncio.gather(one.topics.create(topic), two.topics.create(topic))
            await one.topics.create(TopicConfig("last", 1, 1))
            await until(lambda: "last" in two.topics)
            assert one.topics.get("t") == two.topics.get("t") == topic

    run(work())


def test_topic_deleted_elsewhere_stays_and_does_not_come_back_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            await one.topics.create(TopicConfig("t", 3, 3))
            await until(lambda: "t" in two.topics)
            two.offsets.commit("g", "t", 0, 7)
            await two.offsets.save()
            await made.stop(1)
            await one.topics.delete("t")
            again = await made.start(1)
            assert again.topics.require("t").queues == 3
            assert again.offsets.query("g", "t", 0) == 7
            await again.topics.create(TopicConfig("last", 1, 1))
            await until(lambda: "last" in one.topics)
            assert "t" not in one.topics

    run(work())


def test_topics_of_a_store_without_stamps_are_shared_too(tmp_path: Path) -> None:
    config = tmp_path / "s0/config"
    config.mkdir(parents=True)
    table = {"old": TopicConfig("old", 2, 2).members()}
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": table}))

    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            assert two.topics.get("old") == TopicConfig("old", 2, 2)
            assert one.topics.get("old") == TopicConfig("old", 2, 2)

    run(work())


def test_new_shard_begins_with_what_the_first_one_has(tmp_path: Path) -> None:
    """A new shard must have the first one's topics and groups, whether they were made by themselves
    or by a request. What was deleted must stay away."""

    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            for name in ("t", "gone"):
                await one.topics.create(TopicConfig(name, 3, 3))
            await until(lambda: "gone" in two.topics)
            await one.topics.update(TopicConfig("own", 2, 2))
            await one.groups.update(GroupConfig("g", retry_times_max=3))
            await one.topics.delete("gone")
            copy_tables(tmp_path / "s0", "b-0", tmp_path / "s2")
            three = await made.start(2)
            for name, count in (("t", 3), ("own", 2), ("b-2", 1)):
                assert three.topics.require(name).queues == count
            assert not {"gone", "b-0", "rmq_sys_SYNC_BROKER_MEMBER_b-0"} & set(three.topics.all())
            assert three.groups.require_present("g").retry_times_max == 3
            assert "own" not in two.topics
            await three.topics.update(TopicConfig("own", 9, 9), TopicConfig("t", 9, 9))
            await made.stop(2)  # it is taken off; it must also get what is made meanwhile
            await one.topics.update(TopicConfig("later", 4, 4))
            await one.groups.update(GroupConfig("gg"))
            copy_tables(tmp_path / "s0", "b-0", tmp_path / "s2")
            three = await made.start(2)
            found = [three.topics.require(name).queues for name in ("own", "t", "later")]
            assert found == [9, 9, 4]
            assert "gg" in three.groups
            await one.topics.create(TopicConfig("last", 1, 1))
            await until(lambda: "last" in two.topics)
            assert not {"own", "later"} & set(two.topics.all())

    run(work())


def test_members_of_a_shard_that_ended_are_no_longer_listed(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            client = two.core.client()
            body = {"clientID": "c@1", "consumerDataSet": [{"groupName": "g"}]}
            await client.call(34, json.dumps(body).encode())
            await until(lambda: one.siblings.client_ids("g") == ["c@1"])
            assert two.siblings.client_ids("g") == []  # its own members are not a sibling's
            await made.stop(1)
            await until(lambda: one.siblings.client_ids("g") == [])

    run(work())


def test_settings_are_shared_and_survive_the_restart_of_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            changes = b"fileReservedTime=48\nbrokerPermission=4\n"
            assert (await one.core.client().call(25, changes)).code == 0
            await until(lambda: two.settings.fileReservedTime == 48)
            assert two.settings.brokerPermission == 6
            await made.stop(1)
            assert (await made.start(1)).settings.fileReservedTime == 48

    run(work())


def test_malformed_items_are_left_out_and_the_rest_is_taken(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            stamp = Stamp(2**50, 7)
            made.router.publish([
                Item("topic", "bad", stamp, b"{"),
                Item("topic", "../x", stamp, b'{"topicName":"../x"}'),
                Item("topic", "many", stamp, b'{"topicName":"many","readQueueNums":99999999}'),
                Item("setting", "flushDiskType", stamp, b'"SYNC_FLUSH"'),
                Item("setting", "nonsense", stamp, b'"1"'),
                Item("group", "g", stamp, b'{"groupName":"a b"}'),
                Item("topic", "good", stamp, b'{"topicName":"good"}'),
            ])  # fmt: skip
            await until(lambda: "good" in one.topics)
            assert not {"bad", "../x", "many"} & set(one.topics.all())
            assert one.settings.flushDiskType == "ASYNC_FLUSH"
            assert "g" not in one.groups

    run(work())


def test_the_tables_of_a_slave_are_its_masters_alone(tmp_path: Path) -> None:
    role = {"brokerRole": "SLAVE", "brokerId": "1", "rmqMasterAddress": f"127.0.0.1:{free_port()}"}

    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            slave = await made.start(1, **role)
            await slave.topics.copy({**slave.topics.all(), "master": TopicConfig("master")}, 0)
            await slave.groups.copy({**slave.groups.all(), "masters": GroupConfig("masters")}, {})
            await one.topics.create(TopicConfig("t", 3, 3))
            one.groups.find_or_create("g")
            await one.siblings.shared()
            await until(lambda: {"t", "g"} <= names_in(made.router.registry))
            await until(lambda: made.router._shards[1].applied == made.router.seq)
            assert "t" not in slave.topics
            assert "g" not in slave.groups
            assert not {TOPIC, GROUP} & {known.kind for known in slave.siblings.known()}
            assert {TOPIC, GROUP} <= {known.kind for known in one.siblings.known()}

    def names_in(registry: Registry) -> set[str]:
        return {name for kind, name in registry._items if kind in (TOPIC, GROUP)}

    run(work())


def test_what_a_slave_has_passed_over_it_takes_as_master(tmp_path: Path) -> None:
    role = {"brokerRole": "SLAVE", "brokerId": "1", "rmqMasterAddress": f"127.0.0.1:{free_port()}"}

    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            slave = await made.start(1, **role)
            await one.topics.create(TopicConfig("t", 3, 3))
            one.groups.find_or_create("g")
            for kind, name in ((TOPIC, "t"), (GROUP, "g")):
                await until(lambda kind=kind, name=name: made.router.registry.get(kind, name))
            await until(lambda: made.router._shards[1].applied == made.router.seq)
            assert "t" not in slave.topics
            slave.settings.set("brokerRole", "SYNC_MASTER")  # as ControlledReplication does
            slave.settings.set("brokerId", "0")
            slave.replication.role_changed(7)
            await until(lambda: "t" in slave.topics and "g" in slave.groups)

    run(work())


def test_a_reply_is_pushed_by_the_shard_that_has_its_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply must be pushed by the shard that has the producer, within the time limit of a push,
    not that of a question (1 ms here)."""
    monkeypatch.setattr(bus_siblings, "ASK_MS", 1)

    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            asker, consumer = two.core.client(), one.core.client()
            assert (await asker.call(34, ASKER)).code == 0
            opaque = consumer.put(325, b"answer", **REPLY)
            await two.core.until(lambda: asker.requests(326))
            (pushed,) = asker.requests(326)
            assert pushed.body == b"answer"
            assert pushed.fields["bornHost"].startswith("10.0.0.9:"), "where the consumer is"
            asker.answer(pushed)
            await one.core.until(lambda: consumer.reply_to(opaque) is not None)
            reply = consumer.reply_to(opaque)
            assert reply is not None and reply.code == 0
            assert len(one.core.records) == 1
            assert two.core.records == {}

    run(work())


def test_a_reply_waits_for_no_shard_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply must not wait for a shard that hangs, neither when another one has pushed it, nor,
    once that shard is known to hang, when none has the producer."""
    # The router would wait for a minute.
    monkeypatch.setattr(bus_siblings, "PUSH_TIMEOUT_S", 3600.0)
    hung: list[Message] = []

    async def hang(message: Message) -> Message:
        hung.append(message)
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> None:
        async with shards(tmp_path, 3) as (made, (one, two, three)):
            asker, consumer = two.core.client(), one.core.client()
            three.siblings.answer = hang
            assert (await asker.call(34, ASKER)).code == 0
            opaque = consumer.put(325, b"answer", **REPLY)
            await two.core.until(lambda: asker.requests(326) and hung)
            asker.answer(asker.requests(326)[0])
            await one.core.until(lambda: consumer.reply_to(opaque) is not None, 40.0)
            reply = consumer.reply_to(opaque)
            assert reply is not None and reply.code == 0
            await until(lambda: not made.router._waiting)
            asked = len(hung)
            silent_s = {1: 0.0, 2: bus_router.SILENT_S}
            monkeypatch.setattr(made.router, "silent_s", silent_s.__getitem__)
            two.core.report(1, asker.number, b"")
            await two.core.until(lambda: two.producers.find("asker@1") is None)
            opaque = consumer.put(325, b"answer", **REPLY)
            await one.core.until(lambda: consumer.reply_to(opaque) is not None, 40.0)
            reply = consumer.reply_to(opaque)
            assert reply is not None and reply.code == 1
            assert len(hung) == asked

    run(work())


def test_a_drain_is_no_change_that_the_black_list_forbids(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 0) as (made, _):
            one = await made.start(0, configBlackList="configBlackList;brokerPermission")
            for value in (4, 6):
                assert await made.router.ask(0, Permission(value), 5) == Done()
                assert one.settings.brokerPermission == value

    run(work())


def test_shard_asks_the_others_only_what_reads(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, _two)):
            runtime = Command(code=Code.GET_BROKER_RUNTIME_INFO)
            answers = await one.siblings.ask(runtime)
            assert [b'"brokerName":"b-1"' in answer.body for answer in answers] == [True]
            send = Command(code=Code.SEND_MESSAGE)
            assert await one.siblings.ask(send) == []

    run(work())


def test_supervisor_asks_for_numbers_permission_and_what_is_unconsumed(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            await one.topics.create(TopicConfig("t", 2, 2))
            one.core.store("t", 0)
            one.core.store("t", 1)
            one.offsets.commit("g", "t", 0, 1)
            left = expect(await made.router.ask(0, Unconsumed(), 5), UnconsumedReply)
            assert left.messages == {"t@g": 1}
            one.offsets.commit("g", "t", 1, 1)
            left = expect(await made.router.ask(0, Unconsumed(), 5), UnconsumedReply)
            assert left.messages == {}
            one.core.counters |= {
                "timers_waiting": 1, "timers_behind": 2,
                "half_messages_first": 1, "half_messages_ended_out_of_order": 1,
            }  # fmt: skip
            for topic in (HALF_TOPIC, REVIVE_TOPIC):
                for _ in range(3):
                    one.core.store(topic, 0)
            one.offsets.commit(REVIVE_GROUP, REVIVE_TOPIC, 0, 1)  # the last one that is finished
            left = expect(await made.router.ask(0, Unconsumed(), 5), UnconsumedReply)
            assert left.messages == {
                "rmq_sys_wheel_timer@": 3, f"{HALF_TOPIC}@": 1, f"{REVIVE_TOPIC}@": 1,
            }  # fmt: skip
            assert await made.router.ask(0, Permission(4, refuse=True), 5) == Done()
            assert one.core.writable[0] == 0
            assert one.settings.brokerPermission == 4
            await made.router.ask(0, Permission(6), 5)
            assert (one.core.writable[0], one.settings.brokerPermission) == (1, 6)
            stats = expect(await made.router.ask(0, Stats(), 5), StatsReply)
            assert (stats.name, stats.counters["messages_in"]) == ("b-0", 0)

    run(work())


def test_a_shrink_and_a_full_disk_leave_each_others_stop_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratio = 0.95
    monkeypatch.setattr(retention, "disk_ratio", lambda directory: ratio)

    async def work() -> None:
        nonlocal ratio
        async with shards(tmp_path, 1) as (made, (one,)):
            one.retention.look()
            assert one.core.writable[0] == 0
            for _ in range(2):  # sends are refused, then allowed again
                await made.router.ask(0, Permission(4, refuse=True), 5)
                await made.router.ask(0, Permission(6), 5)
                assert one.core.writable[0] == 0 and b"disk is full" in one.core.writable[1]
            await made.router.ask(0, Permission(4, refuse=True), 5)
            ratio = 0.5
            one.retention.look()
            assert one.core.writable == (0, b"this shard is being taken off")
            await made.router.ask(0, Permission(6), 5)
            assert one.core.writable == (1, b"")

    run(work())


def test_shard_alone_answers_without_its_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            await made.router.stop()
            made.router.stop = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
            monkeypatch.setattr(bus_siblings, "SHARE_WAIT_S", 10.0)
            took = []
            for number in range(5):
                began = calm_seconds()
                await one.topics.create(TopicConfig(f"t{number}", 1, 1))
                took.append(calm_seconds() - began)
            assert min(took[1:]) < 10.0  # at most the first one waits for the supervisor
            assert await one.siblings.ask(Command(code=Code.GET_BROKER_RUNTIME_INFO)) == []

    run(work())


@pytest.mark.parametrize(
    "damage", [b'{"shards":0}', b'{"shards":"x"}', b'{"shards":2,"drained":1}']
)
def test_nonsense_about_the_number_of_shards_is_an_error(tmp_path: Path, damage: bytes) -> None:
    from rmq.errors import ConfigError
    from shards.shards_file import ShardsFile

    (tmp_path / "config").mkdir()
    (tmp_path / "config/shards.json").write_bytes(damage)
    with pytest.raises(ConfigError, match="is damaged"):
        ShardsFile(tmp_path).load()
