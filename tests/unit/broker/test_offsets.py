"""Consumer offsets: their file, queries and updates."""

import json
import time
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import StorePoisonedError


def saved(directory: Path) -> dict[str, dict[str, int]]:
    content = json.loads((directory / "config" / "consumerOffset.json").read_bytes())
    table: dict[str, dict[str, int]] = content["offsetTable"]
    return table


@in_loop
async def test_updates_are_stored_saved_and_loaded(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.topics.create(TopicConfig("t", 4, 4))
        broker.groups.require("g")
        for offset in (9, 5):  # a lower one is taken too
            reply = await client.call(
                15, consumerGroup="g", topic="t", queueId=1, commitOffset=offset
            )
            assert reply.code == 0
        reply = await client.call(14, consumerGroup="g", topic="t", queueId=1)
        assert reply.fields["offset"] == "5"
        assert await broker.offsets.save()
        assert saved(tmp_path) == {"t@g": {"1": 5}}
        assert not await broker.offsets.save()  # nothing has changed since
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
        assert json.loads(file.read_bytes())["resetOffsetTable"] == {"t@g": {"0": 0}}
    async with control(tmp_path) as again:
        assert again.core.resets == [(b"g", b"t", 0, 0)]
        again.core.resets.clear()
        again.core.offsets_version += 1
    assert "resetOffsetTable" not in json.loads(file.read_bytes())


@in_loop
async def test_copied_offsets_are_in_the_file_when_it_is_answered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        broker.offsets.commit("g", "t", 0, 3)
        reply = await broker.core.client().call(
            314, srcGroup="g", destGroup="h", topic="t", offline=True
        )
        assert reply.code == 0
        assert saved(tmp_path) == {"t@g": {"0": 3}, "t@h": {"0": 3}}


@in_loop
async def test_the_log_is_on_the_disk_before_offsets_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut leaves the offset of a pop without the check point that brings it back."""
    async with control(tmp_path) as broker:
        before = broker.core.log_syncs
        broker.offsets.commit("g", "t", 0, 3)
        assert await broker.offsets.save()
        assert broker.core.log_syncs == before + 1

        def poisoned(_: int) -> None:
            raise StorePoisonedError("no sync")

        monkeypatch.setattr(broker.core, "sync_log", poisoned)
        broker.offsets.commit("g", "t", 0, 4)
        with pytest.raises(StorePoisonedError):
            await broker.offsets.save()
        assert saved(tmp_path) == {"t@g": {"0": 3}}
        monkeypatch.undo()
        assert await broker.offsets.save()
        assert saved(tmp_path) == {"t@g": {"0": 4}}


@in_loop
async def test_a_mark_behind_the_end_of_the_log_is_set_anew_at_the_start(tmp_path: Path) -> None:
    """A log that was cut short: pops of the next seconds would stand before the mark."""
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "consumerOffset.json"
    file.write_text('{"offsetTable":{"t@g":{"0":7}},"rmqLogOffset":4711}')
    async with control(tmp_path):
        assert json.loads(file.read_bytes())["rmqLogOffset"] == 0


@in_loop
async def test_offsets_are_saved_at_stop(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        broker.offsets.commit("g", "t", 0, 3)
    assert saved(tmp_path) == {"t@g": {"0": 3}}


@in_loop
async def test_a_stop_leaves_nothing_in_the_log_where_pops_are_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "config" / "consumerOffset.json"
    async with control(tmp_path) as broker:
        broker.offsets.commit("g", "t", 0, 3)
        assert await broker.offsets.save()
        broker.core.log_end = 4711
        assert not await broker.offsets.save()  # the next start would read so little
        assert json.loads(file.read_bytes())["rmqLogOffset"] == 0
    assert json.loads(file.read_bytes())["rmqLogOffset"] == 4711


@in_loop
async def test_offsets_are_saved_by_the_clock(tmp_path: Path) -> None:
    async with control(tmp_path, flushConsumerOffsetInterval=100) as broker:
        began = time.monotonic()
        for offset in range(1, 6):
            broker.offsets.commit("g", "t", 0, offset)
            wanted = {"t@g": {"0": offset}}
            await broker.core.until(lambda wanted=wanted: saved(tmp_path) == wanted)
        assert time.monotonic() - began < 15  # by default it would take 20 s and more


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
        assert (await client.call(14, **ask)).code == 22  # the queue holds nothing
        first = core.store("t", 0)
        reply = await client.call(14, **ask)
        assert (reply.code, reply.fields) == (0, {"offset": "0"})
        assert (await client.call(14, **ask, setZeroIfNotFound="false")).code == 22
        core.out_of_memory.add(first.physical_offset)
        assert (await client.call(14, **ask)).code == 22
        core.out_of_memory.clear()
        core.store("t", 0)
        core.queue_minimum[b"t", 0] = 1  # message 0 is deleted
        assert (await client.call(14, **ask)).code == 22


@in_loop
async def test_offsets_are_cloned(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        broker.offsets.commit("g", "t", 0, 4)
        broker.offsets.commit("g", "gone", 0, 4)
        client = broker.core.client()
        reply = await client.call(314, srcGroup="g", destGroup="h", offline=True)
        assert reply.code == 0
        assert broker.offsets.of("h", "t") == {0: 4}
        assert broker.offsets.of("h", "gone") == {}


@in_loop
async def test_corrections_are_the_lowest_offsets_of_other_groups(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        for group, offset in (("a", 3), ("b", 7), ("out", 1), ("mine", 2)):
            broker.offsets.commit(group, "t", 0, offset)
        reply = await broker.core.client().call(
            308, topic="t", compareGroup="b", filterGroups="out,mine"
        )
        assert reply.body == b'{"correctionOffsets":{0:3}}'
