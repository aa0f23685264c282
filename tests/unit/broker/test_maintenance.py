"""mqadmin's requests about RocksDB, to a broker without one (355, 200056, 5001), and all requests
that docs/mqadmin.md says are answered as not supported.

Goal: what is answered with 0 is done, and every other answer says what cannot be done. Method: the
real tables and their files, and a core that stands in. Deletion by hand (329) is in
test_retention.py.
"""

import asyncio
import itertools
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from support.fake_core import control
from support.mqadmin_page import read_page
from support.name_server import in_loop
from support.waiting import HANG_S

from rmq.base.journal_file import JournalFile
from rmq.base.json_file import JsonFile
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig

ALL = "topics;subscriptionGroups;consumerOffsets"


def plainly(directory: Path, name: str, member: str) -> dict[str, Any]:
    """A member of a JSON file as a reader sees it who knows nothing of journals."""
    path = directory / "config" / name
    return json.loads(path.read_bytes())[member] if path.exists() else {}


def written(directory: Path) -> tuple[bool, bool, bool]:
    """Whether topic t, group g and an offset are in their JSON files."""
    return (
        "t" in plainly(directory, "topics.json", "topicConfigTable"),
        "g" in plainly(directory, "subscriptionGroup.json", "subscriptionGroupTable"),
        "t@g" in plainly(directory, "consumerOffset.json", "offsetTable"),
    )


@in_loop
async def test_json_files_hold_what_only_their_journals_had(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.topics.create(TopicConfig("made before", 1, 1))
        await broker.topics.create(TopicConfig("t", 2, 2))
        await broker.groups.update(GroupConfig("g"))
        broker.offsets.commit("g", "t", 0, 5)
        before = written(tmp_path)
        assert not any(before), "else nothing is tested"
        reply = await client.call(355, configType=" ConsumerOffsets;")
        assert (reply.code, reply.remark) == (0, "export done.")
        assert written(tmp_path)[2]
        reply = await client.call(355, configType=ALL)
        assert (reply.code, reply.remark) == (0, "export done.")
        assert written(tmp_path) == (True, True, True)


@in_loop
async def test_a_file_that_cannot_be_written_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.topics.create(TopicConfig("made before", 1, 1))
        await broker.topics.create(TopicConfig("t", 2, 2))

        def fail(file: JsonFile, content: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(JsonFile, "save", fail)
            reply = await client.call(355, configType="topics")
            assert reply.code == 1 and "topics.json cannot be written" in (reply.remark or "")
        # Of groups there was nothing to write, so the failure did not concern them.
        assert (await client.call(355, configType="subscriptionGroups")).code == 0
        assert (await client.call(355, configType="topics")).code == 0
        assert written(tmp_path)[0]


@in_loop
async def test_what_a_start_found_in_the_journal_alone_is_written_too(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    async with control(tmp_path / "first") as broker:
        await broker.topics.create(TopicConfig("made before", 1, 1))
        await broker.topics.create(TopicConfig("t", 2, 2))
        shutil.copytree(tmp_path / "first", killed)
    assert not written(killed)[0], "else nothing is tested"
    async with control(killed) as broker:
        assert (await broker.core.client().call(355, configType="topics")).code == 0
        assert written(killed)[0]


@in_loop
async def test_a_write_goes_on_when_who_waits_for_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop cancels handlers that take long. The write of the file must go on, and must not be
    begun a second time."""
    disk, begun, real_save = threading.Event(), threading.Event(), JsonFile.save

    def slow(file: JsonFile, content: dict[Any, Any]) -> None:
        begun.set()
        assert disk.wait(HANG_S)
        real_save(file, content)

    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("made before", 1, 1))
        await broker.topics.create(TopicConfig("t", 2, 2))
        monkeypatch.setattr(JsonFile, "save", slow)
        waiting = asyncio.create_task(broker.topics.save_whole())
        await asyncio.to_thread(begun.wait, HANG_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        is_writing = broker.journal.is_writing
        disk.set()
        assert waiting.cancelled() and is_writing
        await broker.topics.save_whole()
        assert written(tmp_path)[0]


@in_loop
async def test_who_waits_for_a_table_does_not_wait_for_what_changes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter for a table must not wait for later changes: topics that are made all the time would
    keep the journal writing."""
    later, real_append, real_save = itertools.count(), JournalFile.append, JsonFile.save
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("made before", 1, 1))
        loop = asyncio.get_running_loop()

        def change() -> None:
            if not asking.done() and next(later) < 100:
                changed = threading.Event()
                loop.call_soon_threadsafe(broker.topics._saver.changed, "t")
                loop.call_soon_threadsafe(changed.set)
                assert changed.wait(HANG_S)

        def append(file: JournalFile, sequence: int, payload: bytes) -> int:
            change()
            return real_append(file, sequence, payload)

        def save(file: JsonFile, content: dict[Any, Any]) -> None:
            change()
            real_save(file, content)

        monkeypatch.setattr(JournalFile, "append", append)
        monkeypatch.setattr(JsonFile, "save", save)
        making = asyncio.create_task(broker.topics.create(TopicConfig("t", 2, 2)))
        asking = asyncio.create_task(broker.core.client().call(355, configType="topics"))
        assert (await asking).code == 0
        assert next(later) < 100, "it waited until nothing changed any more"
        await making


@in_loop
async def test_a_write_that_no_table_waits_for_can_be_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop must wait for every write, also for one that no table waits for: the next process
    writes the same files."""
    disk, begun, real_create = threading.Event(), threading.Event(), JournalFile.create

    def slow(file: JournalFile, *content: Any) -> int:
        begun.set()
        assert disk.wait(HANG_S)
        return real_create(file, *content)

    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        await broker.topics.save_whole()
        with monkeypatch.context() as patch:
            patch.setattr(JournalFile, "create", slow)
            broker.journal.compact()
            await asyncio.to_thread(begun.wait, HANG_S)
            disk.set()
            await broker.journal.ended()
            assert not broker.journal.is_writing


@in_loop
async def test_a_copy_that_cannot_be_made_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        client = broker.core.client()
        assert (await client.call(355, configType="topics")).code == 0

        def fail(file: JsonFile, text: bytes) -> None:
            raise OSError(28, "No space left on device")

        backup = tmp_path / "config" / "topics.json.bak"
        backup.unlink()
        with monkeypatch.context() as patch:
            patch.setattr(JsonFile, "_copy_to_backup", fail)
            reply = await client.call(355, configType="topics")
        assert reply.code == 1 and "topics.json.bak cannot be written" in (reply.remark or "")
        assert (await client.call(355, configType="topics")).code == 0
        assert backup.exists()


@in_loop
async def test_unknown_tables_are_named(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(355, configType="topics;pops")
        assert reply.code == 1 and "pops; known are topics" in (reply.remark or "")
        reply = await client.call(355)
        assert reply.code == 1 and "configType" in (reply.remark or "")


@in_loop
async def test_timers_stay_in_files(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(5001, E_T="F")
        assert (reply.code, reply.remark) == (0, "switch timer engine success")
        for engine, why in (("R", "timerRocksDBEnable must"), ("X", "param"), ("", "param")):
            reply = await client.call(5001, E_T=engine)
            assert reply.code == 29 and (reply.remark or "").startswith(why), reply.remark
    async with control(tmp_path, timerWheelEnable=False) as broker:
        reply = await broker.core.client().call(5001, E_T="F")
        assert (reply.code, reply.remark) == (29, "broker timerWheelEnable is false")


@in_loop
async def test_pops_have_no_records_to_be_moved(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        assert (await broker.core.client().call(200056)).code == 0


@in_loop
async def test_what_is_not_supported_is_told_by_number(tmp_path: Path) -> None:
    codes = [code for row in read_page().values() for code in row.codes]
    assert len(codes) == 13
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for code in codes:
            reply = await client.call(code, topic="t", group="g")
            assert (reply.code, reply.remark) == (3, f" request type {code} not supported")
