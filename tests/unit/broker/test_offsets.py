"""Consumer offsets: their file, queries and updates."""

import asyncio
import json
import shutil
import tracemalloc
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.calm_clock import calm_seconds
from support.fake_core import FakeCore, control
from support.live_broker import live_broker
from support.live_replicas import SYNC, TOPIC, slave_of
from support.name_server import in_loop
from support.stored_table import OFFSETS, stored, stored_offsets
from support.waiting import until

from rmq.base.journal_file import OFFSETS_NAME
from rmq.broker.tables import metadata_journal
from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import StoreError, StorePoisonedError
from rmq.format import fastjson
from rmq.names import pop_retry_topics

GROUPS = "subscriptionGroup.json"


async def no_groups() -> None:
    raise StoreError("no groups")


def no_sync(_: int) -> None:
    raise StorePoisonedError("no sync")


@in_loop
async def test_updates_are_stored_saved_and_loaded(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.topics.create(TopicConfig("t", 4, 4))
        broker.groups.require("g")
        for offset in (9, 5):  # an offset may be lowered, too
            reply = await client.call(
                15, consumerGroup="g", topic="t", queueId=1, commitOffset=offset
            )
            assert reply.code == 0
        reply = await client.call(14, consumerGroup="g", topic="t", queueId=1)
        assert reply.fields["offset"] == "5"
        assert await broker.offsets.save()
        assert stored_offsets(tmp_path) == {"t@g": {"1": 5}}
        assert not await broker.offsets.save()  # nothing has changed since the save
    async with control(tmp_path) as again:
        assert again.offsets.query("g", "t", 1) == 5


@in_loop
async def test_a_reset_is_in_the_file_when_it_is_answered_until_a_pull_took_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config" / "consumerOffset.json"
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        broker.groups.require("g")
        broker.offsets.commit("g", "t", 0, 3)
        reply = await broker.core.client().call(
            222, topic="t", group="g", timestamp=0, isForce=True, queueId=0, offset=0
        )
        assert reply.code == 0
        assert stored(tmp_path, OFFSETS)["resetOffsetTable"] == {"t@g": {"0": 0}}
    async with control(tmp_path) as again:
        assert again.core.resets == [(b"g", b"t", 0, 0)]
        again.core.resets.clear()
        again.offsets.commit("g", "t", 0, 1)
        assert await again.offsets.save()
        assert stored(tmp_path, OFFSETS)["resetOffsetTable"] == {}
    assert "resetOffsetTable" not in json.loads(file.read_bytes())


@in_loop
async def test_an_interval_writes_what_changed_however_many_there_are(tmp_path: Path) -> None:
    file = tmp_path / "config" / "consumerOffset.json"
    journal = tmp_path / "config" / OFFSETS_NAME
    async with control(tmp_path) as broker:
        for number in range(20_000):
            broker.offsets.commit(f"g{number}", "t", 0, 1)
        assert await broker.offsets.save()
        whole, before = file.read_bytes(), journal.stat().st_size
        broker.offsets.commit("g5", "t", 3, 8)
        broker.offsets.commit("new", "t", 0, 2)
        assert await broker.offsets.save()
        assert journal.stat().st_size - before < 400
        assert file.read_bytes() == whole
        assert stored_offsets(tmp_path)["t@g5"] == {"0": 1, "3": 8}
        assert len(stored_offsets(tmp_path)) == 20_001
    assert json.loads(file.read_bytes())["offsetTable"]["t@g5"] == {"0": 1, "3": 8}


@in_loop
async def test_offsets_that_always_change_are_in_the_json_file_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JSON file must get the offsets after a while, for Apache's broker, which may have to go
    on with them if this broker is killed."""
    file = tmp_path / "config" / "consumerOffset.json"
    async with control(tmp_path) as broker:
        for offset in range(3):
            broker.offsets.commit("g", "t", 0, offset)
            assert await broker.offsets.save()
        assert json.loads(file.read_bytes())["offsetTable"] != {"t@g": {"0": 2}}
        monkeypatch.setattr(metadata_journal, "AGE_MAX_S", 0.0)
        broker.offsets.commit("g", "t", 0, 3)
        assert await broker.offsets.save()
        assert json.loads(file.read_bytes())["offsetTable"] == {"t@g": {"0": 3}}


@in_loop
async def test_a_kill_takes_back_nothing_that_was_written(tmp_path: Path) -> None:
    """Offsets that were changed, removed, removed and made anew, or reset must be the same after a
    kill, and after a second one."""
    async with control(tmp_path / "a") as broker:
        for group in ("changed", "removed", "anew", "reset"):
            broker.offsets.commit(group, "t", 0, 5)
        assert await broker.offsets.save()
        broker.offsets.commit("changed", "t", 1, 6)
        broker.offsets.remove_group("removed")
        broker.offsets.remove_group("anew")
        broker.offsets.commit("anew", "t", 2, 7)
        await broker.offsets.reset("reset", "t", {0: 1})
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    wanted = {b"t@changed": {0: 5, 1: 6}, b"t@anew": {2: 7}, b"t@reset": {0: 1}}
    async with control(tmp_path / "b") as broker:
        assert broker.core.offset_table == wanted
        assert broker.core.resets == [(b"reset", b"t", 0, 1)]
        broker.offsets.remove_topic("t")
        assert await broker.offsets.save()
        shutil.copytree(tmp_path / "b", tmp_path / "c")
    async with control(tmp_path / "c") as broker:
        assert broker.core.offset_table == {}
        assert broker.core.resets == []


@in_loop
async def test_what_a_start_has_read_of_the_journal_is_not_kept_in_memory(tmp_path: Path) -> None:
    async with control(tmp_path / "a") as broker:
        for offset in range(3):
            for number in range(4_000):
                broker.offsets.commit(f"g{number}", "t", 0, offset)
            assert await broker.offsets.save()
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "config" / OFFSETS_NAME).stat().st_size > 150_000
    tracemalloc.start()
    try:
        async with control(tmp_path / "b") as broker:
            assert broker.offsets.query("g7", "t", 0) == 2
            kept = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    of_file = kept.filter_traces([tracemalloc.Filter(True, "*/journal_file.py")])
    assert sum(each.size for each in of_file.statistics("filename")) < 20_000


@in_loop
async def test_damage_in_the_middle_of_the_journal_costs_the_changes_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path / "a") as broker:
        for offset in range(1, 5):
            broker.offsets.commit("g", "t", 0, offset)
            broker.offsets.commit(f"g{offset}", "t", 0, 1)
            assert await broker.offsets.save()
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    journal = tmp_path / "b" / "config" / OFFSETS_NAME
    data = bytearray(journal.read_bytes())
    data[data.index(b"t@g3")] ^= 1
    journal.write_bytes(data)
    async with control(tmp_path / "b") as broker:
        wanted = {b"t@g": {0: 4}, b"t@g1": {0: 1}, b"t@g2": {0: 1}, b"t@g4": {0: 1}}
        assert broker.core.offset_table == wanted
        assert f"{journal} is damaged" in caplog.text
        assert journal.with_name(OFFSETS_NAME + ".damaged").exists()
    assert stored_offsets(tmp_path / "b").keys() == {"t@g", "t@g1", "t@g2", "t@g4"}


@in_loop
async def test_topics_are_saved_while_the_log_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        monkeypatch.setattr(broker.core, "sync_log", no_sync)
        broker.offsets.commit("g", "t", 0, 4)
        with pytest.raises(StorePoisonedError):
            await broker.offsets.save()
        await broker.topics.create(TopicConfig("t", 4, 4))


@in_loop
async def test_what_a_failed_write_had_taken_is_written_by_the_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a failed write should have written must be written by the next save(). This holds as
    well for a write that no save() began: that of the JSON file after a quiet time."""
    async with control(tmp_path) as broker:
        for offset in (1, 2):
            broker.offsets.commit("g", "t", 0, offset)
            assert await broker.offsets.save()
        with monkeypatch.context() as quiet:
            quiet.setattr(broker.core, "sync_log", no_sync)
            quiet.setattr(metadata_journal, "QUIET_MAX_S", 0.0)
            assert not await broker.offsets.save()
            broker.offsets.commit("g", "t", 0, 3)  # this commit comes before that write begins
            await broker.core.until(lambda: not broker.offsets._journal.is_writing)
        assert stored_offsets(tmp_path) == {"t@g": {"0": 2}}
        assert await broker.offsets.save()
        assert stored_offsets(tmp_path) == {"t@g": {"0": 3}}


@in_loop
async def test_copied_offsets_are_in_the_file_when_it_is_answered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        broker.offsets.commit("g", "t", 0, 3)
        reply = await broker.core.client().call(
            314, srcGroup="g", destGroup="h", topic="t", offline=True
        )
        assert reply.code == 0
        assert stored_offsets(tmp_path) == {"t@g": {"0": 3}, "t@h": {"0": 3}}


@in_loop
async def test_the_log_is_on_the_disk_before_offsets_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log must be synced before offsets are saved. Otherwise a power cut could leave the offset
    of a pop without the check point that brings its messages back."""
    async with control(tmp_path) as broker:
        before = broker.core.log_syncs
        broker.offsets.commit("g", "t", 0, 3)
        assert await broker.offsets.save()
        assert broker.core.log_syncs == before + 1
        monkeypatch.setattr(broker.core, "sync_log", no_sync)
        broker.offsets.commit("g", "t", 0, 4)
        with pytest.raises(StorePoisonedError):
            await broker.offsets.save()
        assert stored_offsets(tmp_path) == {"t@g": {"0": 3}}
        monkeypatch.undo()
        assert await broker.offsets.save()
        assert stored_offsets(tmp_path) == {"t@g": {"0": 4}}


@in_loop
async def test_groups_are_on_the_disk_before_the_mark_passes_their_pops(tmp_path: Path) -> None:
    """Groups must be saved before the mark in the log (rmqLogOffset) passes their pops. Otherwise a
    start finds neither the group nor the record that there was one."""
    async with control(tmp_path) as broker:
        broker.core.log_end = 100
        assert await broker.offsets.save(behind_max=1)
        broker.core.log_end = 200  # stands for the group's first pop
        broker.groups.require("g")
        broker.offsets.commit("g", "t", 0, 3)
        assert "g" not in stored(tmp_path, GROUPS)["subscriptionGroupTable"]
        await broker.offsets.save()
        assert "g" in stored(tmp_path, GROUPS)["subscriptionGroupTable"]
        assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == 200
        saved = asyncio.Event()
        broker.offsets._groups_saved = saved.wait  # type: ignore[assignment]
        broker.core.log_end = 300
        broker.offsets.commit("g", "t", 0, 4)
        saving = asyncio.create_task(broker.offsets.save())
        for _ in range(100):
            await asyncio.sleep(0)
        assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == 200
        saved.set()
        assert await saving
        assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == 300
        broker.offsets._groups_saved = no_groups
        broker.core.log_end = 400
        broker.offsets.commit("g", "t", 0, 5)
        assert await broker.offsets.save(), "offsets are written all the same"
        assert stored_offsets(tmp_path)["t@g"] == {"0": 5}
        assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == 300
        with pytest.raises(StoreError):
            await broker.offsets.reset("g", "t", {0: 1})


@in_loop
async def test_a_slaves_mark_stays_where_it_last_copied(tmp_path: Path) -> None:
    """A slave's mark must not pass the place of its last copy: groups that popped at the master
    after it may be unknown here when this slave leads."""
    async with control(tmp_path) as broker:
        broker.core.log_end = 100
        assert await broker.offsets.save(behind_max=1)
        broker.offsets.follow()
        broker.core.log_end = 300
        for copied in (100, 200, 300):
            broker.offsets.copied = copied
            broker.offsets.commit("g", "t", 0, copied)
            assert await broker.offsets.save()
            assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == copied
        broker.core.log_end = 250  # what the master does not have was cut off
        broker.offsets.commit("g", "t", 0, 7)
        assert await broker.offsets.save()
        assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == 250


@in_loop
async def test_a_mark_behind_the_end_of_the_log_is_set_anew_at_the_start(tmp_path: Path) -> None:
    """After a log was cut short, the next start must lower the mark. Otherwise pops of the next
    seconds would lie before the mark, where no start looks."""
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "consumerOffset.json"
    file.write_text('{"offsetTable":{"t@g":{"0":7}},"rmqLogOffset":4711}')
    async with control(tmp_path):
        assert json.loads(file.read_bytes())["rmqLogOffset"] == 0


@in_loop
async def test_offsets_are_saved_at_stop(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        broker.offsets.commit("g", "t", 0, 3)
    assert stored_offsets(tmp_path) == {"t@g": {"0": 3}}


@in_loop
async def test_a_stop_leaves_nothing_in_the_log_where_pops_are_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "config" / "consumerOffset.json"
    async with control(tmp_path) as broker:
        broker.offsets.commit("g", "t", 0, 3)
        assert await broker.offsets.save()
        broker.core.log_end = 4711
        assert not await broker.offsets.save()  # the next start would read only this little
        assert stored(tmp_path, OFFSETS)["rmqLogOffset"] == 0
    assert json.loads(file.read_bytes())["rmqLogOffset"] == 4711


@in_loop
async def test_offsets_are_saved_by_the_clock(tmp_path: Path) -> None:
    async with control(tmp_path, flushConsumerOffsetInterval=100) as broker:
        began = calm_seconds()
        for offset in range(1, 6):
            broker.offsets.commit("g", "t", 0, offset)
            wanted = {"t@g": {"0": offset}}
            await broker.core.until(lambda wanted=wanted: stored_offsets(tmp_path) == wanted)
        assert calm_seconds() - began < 15  # with the default interval it would take 20 s or more


@in_loop
async def test_files_of_apache_load_and_damaged_entries_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text(
        '{"dataVersion":{"counter":4},"offsetTable":{"t@g":{0:7,1:-3,2:"x",70000:1},'
        '"no group":{0:1},"a/b@g":{0:1},"t@h":{3:9}},"resetOffsetTable":{}}'
    )
    async with control(tmp_path) as broker:
        assert broker.core.offset_table == {b"t@g": {0: 7}, b"t@h": {3: 9}}
        assert broker.offsets.version.counter == 4


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"consumerGroup": "nobody"}, 26),
        ({"topic": "nowhere"}, 17),
        ({"queueId": 4}, 29),
        ({"queueId": -1}, 29),
        ({"commitOffset": -1}, 1),
        ({"commitOffset": "x"}, 1),
        ({"consumerGroup": "a/b"}, 29),
    ],
)
def test_wrong_updates_are_refused(tmp_path: Path, change: dict[str, object], code: int) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            await broker.topics.create(TopicConfig("t", 4, 4))
            broker.groups.require("g")
            fields = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 1}
            reply = await broker.core.client().call(15, **{**fields, **change})
            assert reply.code == code
            assert broker.core.offset_table == {}

    run()


@in_loop
async def test_a_new_group_starts_at_0_of_a_young_queue(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core: FakeCore = broker.core
        client = core.client()
        ask = {"consumerGroup": "g", "topic": "t", "queueId": 0}
        assert (await client.call(14, **ask)).code == 22  # the queue holds nothing yet
        first = core.store("t", 0)
        reply = await client.call(14, **ask)
        assert (reply.code, reply.fields) == (0, {"offset": "0"})
        assert (await client.call(14, **ask, setZeroIfNotFound="false")).code == 22
        core.out_of_memory.add(first.physical_offset)
        assert (await client.call(14, **ask)).code == 22
        core.out_of_memory.clear()
        core.store("t", 0)
        core.queue_minimum[b"t", 0] = 1  # as if message 0 had been deleted by retention
        assert (await client.call(14, **ask)).code == 22


@in_loop
async def test_offsets_are_cloned(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        broker.offsets.commit("g", "t", 0, 4)
        broker.offsets.commit("g", "gone", 0, 4)
        for popped in pop_retry_topics("g", "t"):
            await broker.topics.create(TopicConfig(popped, 1, 1))
            broker.offsets.commit("g", popped, 0, 4)
        client = broker.core.client()
        reply = await client.call(314, srcGroup="g", destGroup="h", offline=True)
        assert reply.code == 0
        assert broker.offsets.of("h", "t") == {0: 4}
        for popped in pop_retry_topics("g", "t"):
            assert broker.offsets.of("h", popped) == {}, "it pops from its own"
        assert broker.offsets.of("h", "gone") == {}


@in_loop
async def test_a_clone_counts_where_the_target_was_reset(tmp_path: Path) -> None:
    """A clone must set the offset even where the target group was reset. (A commit does not, until
    a pull was told of the reset.) The next pull is told the clone's offset."""
    async with live_broker(tmp_path) as broker, BrokerClient(broker.core.port) as client:
        await broker.topics.create(TopicConfig("t", 2, 2))
        for queue in (0, 1):
            for _ in range(9):
                await client.send("t", queue=queue)
            broker.offsets.commit("a", "t", queue, 4 + queue)
        await broker.offsets.reset("b", "t", {0: 1})
        reply = await client.call(314, srcGroup="a", destGroup="b", topic="t", offline=True)
        assert reply.code == 0
        for queue in (0, 1):
            reply = await client.call(14, consumerGroup="b", topic="t", queueId=queue)
            assert reply.fields["offset"] == str(4 + queue)
        await client.heartbeat("b", "t")
        reply = await client.pull("b", "t", offset=7)
        assert (reply.code, reply.fields["nextBeginOffset"]) == (21, "4")
        assert (await client.pull("b", "t", queue=1, offset=5)).code == 0


@in_loop
async def test_corrections_are_the_lowest_offsets_of_other_groups(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        for group, offset in (("a", 3), ("b", 7), ("out", 1), ("mine", 2)):
            broker.offsets.commit(group, "t", 0, offset)
        reply = await broker.core.client().call(
            308, topic="t", compareGroup="b", filterGroups="out,mine"
        )
        assert reply.body == b'{"correctionOffsets":{0:3}}'


@in_loop
async def test_a_commit_that_is_answered_while_the_broker_stops_is_in_its_store(
    tmp_path: Path,
) -> None:
    answered = 0

    async def commit_for_ever(client: BrokerClient) -> None:
        nonlocal answered
        while True:
            place = {"consumerGroup": "g", "topic": "t", "queueId": 0}
            reply = await client.call(15, **place, commitOffset=answered + 1)
            assert reply.code == 0
            answered += 1

    async with live_broker(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        broker.groups.require("g")
        client = await BrokerClient(broker.core.port).__aenter__()
        commits = asyncio.create_task(commit_for_ever(client))
        await until(lambda: answered > 0)
        began = answered
    commits.cancel()
    await asyncio.gather(commits, return_exceptions=True)
    await client.__aexit__()
    async with live_broker(tmp_path) as again:
        assert began <= answered <= again.offsets.query("g", "t", 0)


@pytest.mark.usefixtures("clock")  # offsets are looked at once a second
@in_loop
async def test_what_operators_change_of_offsets_is_on_the_slaves_disk_when_it_is_answered(
    tmp_path: Path,
) -> None:
    """Else it was lost where all brokers were killed, and the slave was the first to be back."""
    async with (
        live_broker(tmp_path / "m", **SYNC) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await until(lambda: len(master.core.ha_connections()) == 1)
        assert (await client.call(17, topic="t", **TOPIC)).code == 0
        for _ in range(5):
            assert (await client.send("t")).code == 0
        for name in ("g", "h", "copy"):
            group = {"groupName": name, "retryMaxTimes": 7}
            assert (await client.call(200, fastjson.dumps(group))).code == 0
        for name in ("g", "h"):
            master.offsets.commit(name, "t", 0, 5)
        await until(lambda: slave.offsets.query("h", "t", 0) == 5)
        reset = {"topic": "t", "group": "g", "timestamp": 0, "isForce": True, "offset": 2,
                 "queueId": 0}  # fmt: skip
        assert (await client.call(222, **reset)).code == 0
        assert stored_offsets(tmp_path / "s")["t@g"] == {"0": 2}
        clone = {"srcGroup": "g", "destGroup": "copy", "topic": "t", "offline": True}
        assert (await client.call(314, **clone)).code == 0
        assert stored_offsets(tmp_path / "s")["t@copy"] == {"0": 2}
        assert (await client.call(207, groupName="h", cleanOffset=True)).code == 0
        assert "t@h" not in stored_offsets(tmp_path / "s")
