"""The table of topics and its requests: what reactor, file and clients see of a change."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop
from support.stored_table import stored
from support.unwritable import not_saved
from support.waiting import HANG_S

from rmq.base.journal_file import JournalFile
from rmq.broker import core_seam
from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import StoreError
from rmq.format import fastjson
from rmq.refusal import Refusal

CREATE = {
    "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


def saved(directory: Path) -> dict[str, dict[str, object]]:
    table: dict[str, dict[str, object]] = stored(directory)["topicConfigTable"]
    return table


@in_loop
async def test_system_topics_are_there_from_the_start(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        assert core.topics[b"TBW102"] == (8, 8, 7, 0)
        assert core.topics[b"SELF_TEST_TOPIC"] == (1, 1, 6, 0)
        assert core.topics[b"BenchmarkTest"] == (1024, 1024, 6, 0)
        assert core.topics[b"DefaultCluster"] == (16, 16, 7, 0)
        assert core.topics[b"broker-a"] == (1, 1, 7, 0)
        assert core.topics[b"SCHEDULE_TOPIC_XXXX"] == (18, 18, 6, 0)
        assert core.topics[b"rmq_sys_SYNC_BROKER_MEMBER_broker-a"] == (1, 1, 1, 0)
        assert saved(tmp_path)["TBW102"]["perm"] == 7


@in_loop
async def test_without_auto_creation_there_is_no_tbw102(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateTopicEnable=False) as broker:
        assert b"TBW102" not in broker.core.topics


@in_loop
async def test_a_created_topic_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(17, topic="t", attributes="+message.type=FIFO", **CREATE)
        assert reply.code == 0
        assert saved(tmp_path)["t"]["attributes"] == {"message.type": "FIFO"}
        assert broker.core.topics[b"t"] == (4, 4, 6, 0)
    async with control(tmp_path) as again:
        assert again.core.topics[b"t"] == (4, 4, 6, 0)
        assert again.topics.require("t").attributes == {"message.type": "FIFO"}


@in_loop
async def test_an_equal_topic_changes_no_version(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await client.call(17, topic="t", **CREATE)
        before = broker.topics.version.counter
        await client.call(17, topic="t", **CREATE)
        assert broker.topics.version.counter == before
        await client.call(17, topic="t", **{**CREATE, "perm": 4})
        assert broker.topics.version.counter == before + 1
        assert broker.core.topics[b"t"] == (4, 4, 4, 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "a b"}, 29),
        ({"topic": "x" * 128}, 29),
        ({"topic": "TBW102"}, 29),
        ({"topic": "rmq_sys_x"}, 29),
        ({"perm": 8}, 29),
        ({"perm": -1}, 29),
        ({"readQueueNums": 65536}, 29),
        ({"writeQueueNums": -1}, 29),
        ({"perm": "six"}, 1),
        ({"topicFilterType": "NONE"}, 1),
        ({"attributes": "+a=b"}, 1),
    ],
)
def test_wrong_topics_are_refused(tmp_path: Path, change: dict[str, object], code: int) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            known = set(broker.core.topics)
            reply = await broker.core.client().call(17, **{"topic": "t", **CREATE, **change})
            assert reply.code == code
            assert reply.remark
            assert set(broker.core.topics) == known

    run()


@in_loop
async def test_a_missing_field_is_named(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        reply = await broker.core.client().call(17, topic="t", readQueueNums=1, perm=6)
        assert (reply.code, "writeQueueNums" in (reply.remark or "")) == (1, True)


@in_loop
async def test_many_topics_at_once(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        topics = [
            {"topicName": f"t{n}", "readQueueNums": n, "writeQueueNums": n, "perm": 6,
             "attributes": {"+message.type": "FIFO"}}
            for n in range(1, 4)
        ]  # fmt: skip
        body = fastjson.dumps({"topicConfigList": topics})
        assert (await client.call(18, body)).code == 0
        assert broker.core.topics[b"t3"] == (3, 3, 6, 0)
        reply = await client.call(351, topic="t2")
        assert json.loads(reply.body)["attributes"] == {"message.type": "FIFO"}
        assert (await client.call(351, topic="nowhere")).code == 17


@in_loop
async def test_the_whole_table_and_slices_of_it(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(21)
        table = json.loads(reply.body)["topicConfigTable"]
        assert int(reply.fields["totalTopicNum"]) == len(table) == len(broker.topics)
        part = json.loads((await client.call(21, topicSeq=2, maxTopicNum=3)).body)
        assert sorted(part["topicConfigTable"]) == sorted(table)[2:5]


@in_loop
async def test_a_deleted_topic_takes_its_offsets_along(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await client.call(17, topic="t", **CREATE)
        broker.offsets.commit("g", "t", 0, 5)
        assert (await client.call(215, topic="t")).code == 0
        assert b"t" not in broker.core.topics
        assert broker.offsets.query("g", "t", 0) == -1
        assert "t" not in saved(tmp_path)
        assert (await client.call(215, topic="t")).code == 0
        assert (await client.call(215, topic="TBW102")).code == 29


@in_loop
async def test_system_topics_are_listed(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        names = json.loads((await broker.core.client().call(305)).body)["topicList"]
        assert {"TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"} <= set(names)


@in_loop
async def test_damaged_entries_of_the_file_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"ok":{"topicName":"ok","perm":6},'
        '"bad/name":{"topicName":"bad/name"},"no":7}}'
    )
    async with control(tmp_path) as broker:
        assert b"ok" in broker.core.topics
        assert b"bad/name" not in broker.core.topics


@in_loop
async def test_a_closed_broker_permission_reaches_the_reactor(tmp_path: Path) -> None:
    async with control(tmp_path, core=FakeCore()) as broker:
        client = broker.core.client()
        await client.call(17, topic="t", **CREATE)
        assert (await client.call(25, b"brokerPermission=2\n")).code == 0
        assert broker.core.topics[b"t"] == (4, 4, 2, 0)


@in_loop
async def test_the_reactor_hears_of_no_topic_that_cannot_be_saved(tmp_path: Path) -> None:
    """A topic that cannot be saved must not reach the reactor, whatever asks for it: a send to it
    would be acknowledged, and a crash would forget the topic."""
    async with control(tmp_path) as broker:
        table = broker.topics
        await table.create(TopicConfig("old", 1, 1))
        with not_saved(tmp_path):
            with pytest.raises(StoreError, match="cannot be written"):
                await table.create(TopicConfig("new", 1, 1))
            with pytest.raises(StoreError, match="cannot be written"):
                await table.update(TopicConfig("old", 2, 2))
            with pytest.raises(Refusal, match="it is being created"):
                table.put_in_core("new")
            table.mark_ordered(["new", "old"])
            table.permission_changed()
            table.put_in_core("old")
            assert b"new" not in broker.core.topics
            assert broker.core.topics[b"old"] == (1, 1, 6, 0)
        told: list[str] = []
        table.on_change = told.extend
        broker.journal.tidy()
        await table.saved()
        assert broker.core.topics[b"new"] == (1, 1, 6, 1)
        assert broker.core.topics[b"old"] == (2, 2, 6, 1)
        assert sorted(told) == ["new", "old"]
        assert {"new", "old"} <= set(saved(tmp_path))


@in_loop
async def test_a_deletion_that_could_not_be_saved_is_done_with_the_next_write(
    tmp_path: Path,
) -> None:
    async with control(tmp_path) as broker:
        table = broker.topics
        for name in ("gone", "back", "asked"):
            await table.create(TopicConfig(name, 1, 1))
        with not_saved(tmp_path):
            for name in ("gone", "back", "asked"):
                with pytest.raises(StoreError, match="cannot be written"):
                    await table.delete(name)
            assert {b"gone", b"back", b"asked"} <= broker.core.topics.keys()
        assert await table.delete("asked")
        assert b"asked" not in broker.core.topics
        await table.create(TopicConfig("back", 3, 3))
        assert b"gone" not in broker.core.topics
        assert broker.core.topics[b"back"] == (3, 3, 6, 0)
        assert not await table.delete("gone")
        assert not await table.delete("never")


@in_loop
async def test_a_topic_of_another_shard_does_not_keep_what_is_being_deleted_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the deletion of a topic is on its way to the disk, another shard's version of the topic
    arrives. The old messages must be deleted all the same; the topic itself stays, with that
    version."""
    writes, ends = threading.Event(), threading.Event()
    append = JournalFile.append

    def held(file: JournalFile, sequence: int, payload: bytes) -> int:
        writes.set()
        ends.wait(HANG_S)
        return append(file, sequence, payload)

    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        broker.core.store("t", 0)
        monkeypatch.setattr(JournalFile, "append", held)
        deleting = asyncio.create_task(broker.topics.delete("t"))
        await broker.core.until(writes.is_set)
        broker.topics.take({"t": (TopicConfig("t", 5, 5), (1, 1))})
        ends.set()
        assert await deleting
        assert broker.core.topics[b"t"][:2] == (5, 5)
        assert broker.core.queue_range(b"t", 0) is None
        assert list(broker.topics.deleted()) == ["t"]
        await broker.topics.saved()
        assert saved(tmp_path)["t"]["readQueueNums"] == 5


@in_loop
async def test_topics_that_the_core_wants_are_made_for_whatever_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The core may want topics for delayed, timed or popped messages, and does not say for which of
    them."""
    async with control(tmp_path) as broker:
        broker.core.report(core_seam.WANT_TOPIC, 3, b"%RETRY%g+t")
        await broker.core.until(lambda: "%RETRY%g+t" in broker.topics)
        made = broker.topics.get("%RETRY%g+t")
        assert made is not None
        assert (made.read_queues, made.write_queues) == (3, 3)
        broker.core.report(core_seam.WANT_TOPIC, 1, b"no topic")
        line = "messages wait for topic 'no topic', queue 0: no legal place"
        await broker.core.until(lambda: line in caplog.messages)
