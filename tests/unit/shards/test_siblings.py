"""Brokers that share through a hub: what happens to one's tables happens to the other's.

The brokers are real but for the core, which is the tests' stand-in; the bus is real. Cannot show
name servers or the reactor: tests/process/test_shards.py does.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.fake_core import FakeCore

from rmq.broker.broker import Broker
from rmq.broker.groups import GroupConfig
from rmq.broker.topic_config import TopicConfig
from rmq.codes import RequestCode
from rmq.config import load_properties
from rmq.format.remoting import Command
from shards import hub, siblings
from shards.bus_files import BusDirectory
from shards.hub import Hub
from shards.messages import (
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
from shards.siblings import BusSiblings


class Shards:
    def __init__(self, store: Path, stack: AsyncExitStack) -> None:
        self.store, self.stack = store, stack
        directory = BusDirectory(store, make=True)
        self.token = directory.new_token()

        async def command(message: Message) -> Message:
            return Done()

        self.hub = Hub(directory, self.token, lambda hello: "", lambda index: None, command)
        self.hub.start()
        stack.push_async_callback(self.hub.stop)
        self.brokers: dict[int, Broker] = {}

    async def start(self, index: int) -> Broker:
        values = {"storePathRootDir": str(self.store / f"s{index}"), "brokerName": f"b-{index}"}
        broker = Broker(load_properties(None, values), FakeCore())
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
            self.hub.forget(index)


@asynccontextmanager
async def shards(store: Path, count: int) -> AsyncIterator[tuple[Shards, list[Broker]]]:
    async with AsyncExitStack() as stack:
        made = Shards(store, stack)
        yield made, [await made.start(index) for index in range(count)]


async def until(condition: object) -> None:
    end = asyncio.get_running_loop().time() + 30
    while not condition():  # type: ignore[operator]
        assert asyncio.get_running_loop().time() < end, "waited in vain"
        await asyncio.sleep(0.005)


def run(work: object) -> None:
    asyncio.run(asyncio.wait_for(work, 120))  # type: ignore[arg-type]


def test_topic_reaches_table_reactor_and_file_of_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            await one.topics.create(TopicConfig("t", 3, 3))
            await until(lambda: "t" in two.topics)
            assert two.core.topics[b"t"][:2] == (3, 3)
            await two.topics.saved()
            content = json.loads((tmp_path / "s1/config/topics.json").read_text())
            assert content["topicConfigTable"]["t"]["readQueueNums"] == 3
            assert content["shardStamps"]["t"] == list(one.topics.stamps.get("t"))
            assert content["shardStamps"]["t"][1] == 0

    run(work())


def test_a_change_is_answered_when_the_other_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is late, which nobody is here, however busy the machine is."""
    monkeypatch.setattr(hub, "CHANGE_WAIT_S", 20.0)
    monkeypatch.setattr(siblings, "SHARE_WAIT_S", 20.0)

    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            await until(lambda: not any(peer.late for peer in made.hub._shards.values()))
            await one.topics.create(TopicConfig("t", 3, 3))
            assert "t" in two.topics
            await one.topics.update(TopicConfig("t", 5, 5))
            assert two.topics.require("t").read_queues == 5
            await one.topics.delete("t")
            assert "t" not in two.topics
            await two.groups.update(GroupConfig("g", retry_times_max=3))
            assert "g" in one.groups
            await two.groups.delete("g")
            assert "g" not in one.groups

    run(work())


def test_topics_of_the_system_stay_with_their_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            assert "b-0" in one.topics
            assert "b-0" not in two.topics
            assert len(made.hub.registry) == 0

    run(work())


def test_changes_at_the_same_time_end_alike_on_both(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            await asyncio.gather(
                one.topics.update(TopicConfig("t", 3, 3)), two.topics.update(TopicConfig("t", 5, 5))
            )
            await until(lambda: one.topics.get("t") == two.topics.get("t"))
            assert one.topics.stamps.get("t") == two.topics.stamps.get("t")

    run(work())


def test_deletion_reaches_who_was_away_and_takes_the_offsets_along(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            await one.topics.create(TopicConfig("t", 3, 3))
            await until(lambda: "t" in two.topics)
            two.offsets.commit("g", "t", 0, 7)
            await two.offsets.save()
            await made.stop(1)
            await one.topics.delete("t")
            again = await made.start(1)
            assert "t" not in again.topics
            assert again.offsets.query("g", "t", 0) == -1
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
            await two.topics.update(TopicConfig("old", 4, 4))
            await until(lambda: one.topics.get("old") == TopicConfig("old", 4, 4))

    run(work())


def test_groups_and_their_prohibitions_are_shared(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, two)):
            await one.groups.update(GroupConfig("g", retry_times_max=3))
            await until(lambda: two.groups.get("g") == GroupConfig("g", retry_times_max=3))
            await two.groups.forbid_reading("g", "t", True)
            await until(lambda: not one.groups.may_read("g", "t"))
            await one.groups.forbid_reading("g", "t", False)
            await until(lambda: two.groups.may_read("g", "t"))
            await two.groups.delete("g")
            await until(lambda: "g" not in one.groups)

    run(work())


def test_members_of_a_shard_that_ended_are_no_longer_listed(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (made, (one, two)):
            client = two.core.client()
            body = {"clientID": "c@1", "consumerDataSet": [{"groupName": "g"}]}
            await client.call(34, json.dumps(body).encode())
            await until(lambda: one.siblings.client_ids("g") == ["c@1"])
            assert two.siblings.client_ids("g") == []  # its own are no sibling's
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
            made.hub.publish([
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


def test_shard_asks_the_others_only_what_reads(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 2) as (_made, (one, _two)):
            runtime = Command(code=RequestCode.GET_BROKER_RUNTIME_INFO)
            answers = await one.siblings.ask(runtime)
            assert [b'"brokerName":"b-1"' in answer.body for answer in answers] == [True]
            send = Command(code=RequestCode.SEND_MESSAGE)
            assert await one.siblings.ask(send) == []

    run(work())


def test_supervisor_asks_for_numbers_permission_and_what_is_unconsumed(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            await one.topics.create(TopicConfig("t", 2, 2))
            one.core.store("t", 0)
            one.core.store("t", 1)
            one.offsets.commit("g", "t", 0, 1)
            left = expect(await made.hub.ask(0, Unconsumed(), 5), UnconsumedReply)
            assert left.messages == {"t@g": 1}
            one.offsets.commit("g", "t", 1, 1)
            left = expect(await made.hub.ask(0, Unconsumed(), 5), UnconsumedReply)
            assert left.messages == {}
            assert await made.hub.ask(0, Permission(4, refuse=True), 5) == Done()
            assert one.core.writable[0] == 0
            assert one.settings.brokerPermission == 4
            await made.hub.ask(0, Permission(6), 5)
            assert (one.core.writable[0], one.settings.brokerPermission) == (1, 6)
            stats = expect(await made.hub.ask(0, Stats(), 5), StatsReply)
            assert (stats.name, stats.counters["messages_in"]) == ("b-0", 0)

    run(work())


def test_shard_alone_answers_without_its_supervisor(tmp_path: Path) -> None:
    async def work() -> None:
        async with shards(tmp_path, 1) as (made, (one,)):
            await made.hub.stop()
            made.hub.stop = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
            took = []
            for number in range(5):
                began = asyncio.get_running_loop().time()
                await one.topics.create(TopicConfig(f"t{number}", 1, 1))
                took.append(asyncio.get_running_loop().time() - began)
            assert min(took[1:]) < 0.25  # at most the first waits for it
            assert await one.siblings.ask(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO)) == []

    run(work())


@pytest.mark.parametrize(
    "damage", [b'{"shards":0}', b'{"shards":"x"}', b'{"shards":2,"drained":1}']
)
def test_nonsense_about_the_number_of_shards_is_an_error(tmp_path: Path, damage: bytes) -> None:
    from rmq.errors import ConfigError
    from shards.machine_file import MachineFile

    (tmp_path / "config").mkdir()
    (tmp_path / "config/shards.json").write_bytes(damage)
    with pytest.raises(ConfigError, match="is damaged"):
        MachineFile(tmp_path).load()
