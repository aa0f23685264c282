"""What a start finds after a kill between a change and the write of the JSON file, after a torn
tail, after damage in the middle, and with another broker's JSON file; and what a change costs.

Method: control() of the real tables with a core that stands in; a copy of the directory of a
running broker is what a kill leaves.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop
from support.volume import volume

from rmq.base.journal_file import METADATA_NAME as NAME
from rmq.base.journal_file import JournalFile
from rmq.base.json_file import JsonFile
from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.metadata_journal import MetadataJournal
from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import StoreError

MANY = volume(20_000, 100_000)
UNUSED = NAME + ".unused"


async def killed_with_changes(directory: Path, copy: Path, log_end: int = 0) -> None:
    """Copies a store as a kill leaves it: topics first and gone and group g are in the JSON files,
    and the changes after them are only in the journal."""
    core = FakeCore()
    core.log_end = log_end
    async with control(directory) as broker:
        for name in ("first", "gone"):
            await broker.topics.create(TopicConfig(name, 2, 2))
        await broker.groups.update(GroupConfig("g", retry_times_max=5))
    async with control(directory, core) as broker:
        await broker.topics.create(TopicConfig("second", 3, 3))
        await broker.topics.update(TopicConfig("first", 4, 4))
        await broker.topics.delete("gone")
        await broker.groups.forbid_reading("g", "first", True)
        await broker.topics.create(TopicConfig("third", 1, 1))
        shutil.copytree(directory, copy)


def queues(broker: Broker) -> dict[str, int]:
    found = {name: broker.topics.get(name) for name in ("first", "gone", "second", "third")}
    return {name: topic.read_queues for name, topic in found.items() if topic is not None}


@in_loop
async def test_a_kill_takes_no_change_back(tmp_path: Path) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    written = json.loads((tmp_path / "b/config/topics.json").read_bytes())["topicConfigTable"]
    assert "second" not in written  # otherwise the journal would not be tested
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 4, "second": 3, "third": 1}
        assert not broker.groups.may_read("g", "first")
        await broker.topics.create(TopicConfig("gone", 7, 7))
        shutil.copytree(tmp_path / "b", tmp_path / "c")
    async with control(tmp_path / "c") as broker:
        assert queues(broker) == {"first": 4, "second": 3, "third": 1, "gone": 7}


@in_loop
async def test_after_a_stop_the_json_files_hold_everything(tmp_path: Path) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    for copy in ("topics.json", "topics.json.bak"):
        table = json.loads((tmp_path / "a/config" / copy).read_bytes())["topicConfigTable"]
        assert {"first", "second", "third"} <= table.keys() and "gone" not in table
    assert not JournalFile(tmp_path / "a/config" / NAME).read().records


@in_loop
async def test_a_torn_record_is_dropped_and_all_before_it_count(tmp_path: Path) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    journal = tmp_path / "b/config" / NAME
    whole = journal.read_bytes()
    for cut in (1, 30, len(whole) - whole.rindex(b"RMQJ") - 1):
        journal.write_bytes(whole[:-cut])
        shutil.copytree(tmp_path / "b", tmp_path / f"cut-{cut}")
        async with control(tmp_path / f"cut-{cut}") as broker:
            assert queues(broker) == {"first": 4, "second": 3}
            await broker.topics.create(TopicConfig("third", 9, 9))
            shutil.copytree(tmp_path / f"cut-{cut}", tmp_path / f"again-{cut}")
        async with control(tmp_path / f"again-{cut}") as broker:
            assert queues(broker) == {"first": 4, "second": 3, "third": 9}


@in_loop
async def test_damage_in_the_middle_is_named_and_costs_that_change_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    journal = tmp_path / "b/config" / NAME
    data = bytearray(journal.read_bytes())
    data[data.index(b'"second"') + 2] ^= 1
    journal.write_bytes(data)
    caplog.clear()
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 4, "third": 1}
        assert not broker.groups.may_read("g", "first")
    assert f"{journal} is damaged" in caplog.text
    assert journal.with_name(NAME + ".damaged").read_bytes() == data
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 4, "third": 1}


@in_loop
async def test_what_another_broker_wrote_wins_over_an_older_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The JSON file of Apache's broker, which drops members it does not know, must win over the
    journal. The groups, whose file it did not write, keep what the journal has."""
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    file = JsonFile(tmp_path / "b/config/topics.json")
    content = file.load()
    assert content is not None
    del content["rmqJournal"]
    content["topicConfigTable"]["first"]["readQueueNums"] = 8
    file.path.write_bytes(json.dumps(content).encode())
    caplog.clear()
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 8, "gone": 2}
        assert not broker.groups.may_read("g", "first")
        await broker.topics.create(TopicConfig("second", 5, 5))
        shutil.copytree(tmp_path / "b", tmp_path / "c")
    assert "topics.json was written by another broker since: it is used, and 4 rec" in caplog.text
    assert "is kept as" in caplog.text and not (tmp_path / "a/config" / UNUSED).exists()
    assert b"second" in (tmp_path / "b/config" / UNUSED).read_bytes()
    async with control(tmp_path / "c") as broker:
        assert queues(broker) == {"first": 8, "gone": 2, "second": 5}


@in_loop
async def test_a_file_edited_by_hand_is_used_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was edited by hand must win over the journal, even if its member rmqJournal was
    left in it. It has no checksum, because the editor must remove that."""
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    path = tmp_path / "b/config/topics.json"
    content = json.loads(path.read_bytes())
    del content["rmqChecksum"]
    content["topicConfigTable"]["first"]["readQueueNums"] = 8
    path.write_bytes(json.dumps(content).encode())
    caplog.clear()
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 8, "gone": 2}
        assert not broker.groups.may_read("g", "first")
        await broker.topics.create(TopicConfig("second", 5, 5))
        shutil.copytree(tmp_path / "b", tmp_path / "c")
    assert "topics.json was edited by hand since: it is used" in caplog.text
    assert b"third" in (tmp_path / "b/config" / UNUSED).read_bytes()
    async with control(tmp_path / "c") as broker:
        assert queues(broker) == {"first": 8, "gone": 2, "second": 5}


@in_loop
async def test_a_file_from_a_backup_is_used_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file from a backup must win over the journal, which lacks the changes between the backup
    and the journal's beginning."""
    async with control(tmp_path / "a") as broker:
        await broker.topics.create(TopicConfig("first", 1, 1))
        shutil.copytree(tmp_path / "a/config", tmp_path / "backup")
        await broker.topics.create(TopicConfig("second", 2, 2))
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    for name in ("topics.json", "topics.json.bak"):
        shutil.copyfile(tmp_path / "backup" / name, tmp_path / "b/config" / name)
    caplog.clear()
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 1}
        assert not broker.groups.may_read("g", "first")
        await broker.topics.create(TopicConfig("second", 7, 7))
        shutil.copytree(tmp_path / "b", tmp_path / "c")
    assert "topics.json is older than the journal, as from a backup: it is used" in caplog.text
    async with control(tmp_path / "c") as broker:
        assert queues(broker) == {"first": 1, "second": 7}


@in_loop
async def test_the_copy_of_a_json_file_takes_the_journal_as_the_file_does(tmp_path: Path) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b/config/topics.json").write_bytes(b"")
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 4, "second": 3, "third": 1}


@in_loop
async def test_a_damaged_header_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    journal = tmp_path / "b/config" / NAME
    for at in (0, 5, 19, 30):
        shutil.copytree(tmp_path / "b", tmp_path / f"header-{at}")
        data = bytearray(journal.read_bytes())
        data[at] ^= 1
        (tmp_path / f"header-{at}/config" / NAME).write_bytes(data)
        caplog.clear()
        async with control(tmp_path / f"header-{at}") as broker:
            assert queues(broker) == {"first": 4, "second": 3, "third": 1}
            assert f"{NAME} is damaged: its header is damaged" in caplog.text
            await broker.topics.create(TopicConfig("gone", 7, 7))
            shutil.copytree(tmp_path / f"header-{at}", tmp_path / f"again-{at}")
        async with control(tmp_path / f"again-{at}") as broker:
            assert queues(broker) == {"first": 4, "second": 3, "third": 1, "gone": 7}


@in_loop
async def test_what_was_read_is_synced_before_anyone_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal must be synced anew before anyone is served. The former process may have been
    killed between the write of a record and its sync, or that sync may have failed: then only the
    page cache has the record."""
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    journal = tmp_path / "b/config" / NAME
    before, old = JournalFile(journal).read(), journal.stat().st_ino
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    async with control(tmp_path / "b") as broker:
        assert f"{journal}.new" in synced
        assert JournalFile(journal).read() == before and journal.stat().st_ino != old
        await broker.topics.create(TopicConfig("gone", 7, 7))
        assert len(JournalFile(journal).read().records) == len(before.records) + 1


@in_loop
async def test_a_torn_end_finds_topics_that_have_queues(tmp_path: Path) -> None:
    """A torn end may be a record that was once whole. So topics that have queues must be found
    again; deleted topics stay deleted, and known topics keep the number of queues that they were
    given."""
    await killed_with_changes(tmp_path / "a", tmp_path / "b", log_end=100)
    journal = tmp_path / "b/config" / NAME
    journal.write_bytes(journal.read_bytes()[:-1])
    core = FakeCore()
    core.log_end = 100
    core.queues = {(b"third", 5): [], (b"gone", 1): [], (b"first", 9): []}
    async with control(tmp_path / "b", core) as broker:
        assert queues(broker) == {"first": 4, "second": 3, "third": 6}


@in_loop
async def test_a_journal_of_a_newer_version_is_not_thrown_away(tmp_path: Path) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("rmq.base.journal_file.VERSION", 2)
        journal = JournalFile(tmp_path / "b/config" / NAME)
        journal.create("5f0c", {})
    with pytest.raises(StoreError, match="it is of version 2, this version of rmq knows 1"):
        async with control(tmp_path / "b"):
            pass


@in_loop
async def test_a_missing_journal_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await killed_with_changes(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b/config" / NAME).unlink()
    caplog.clear()
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 2, "gone": 2} or "second" not in queues(broker)
    assert f"{NAME} is missing: changes behind" in caplog.text


@in_loop
async def test_a_failed_append_is_made_up_for_by_the_json_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed append the change must be in the JSON file, and a new journal begins: a later
    sync of the old one would not cover what that append lost."""
    async with control(tmp_path / "a") as broker:
        await broker.topics.create(TopicConfig("first", 1, 1))
        old = (tmp_path / "a/config" / NAME).stat().st_ino
        with monkeypatch.context() as patch:
            patch.setattr(JournalFile, "append", failing)
            await broker.topics.create(TopicConfig("second", 2, 2))
        assert (tmp_path / "a/config" / NAME).stat().st_ino != old
        assert not JournalFile(tmp_path / "a/config" / NAME).read().records
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    async with control(tmp_path / "b") as broker:
        assert queues(broker) == {"first": 1, "second": 2}


def failing(file: JournalFile, sequence: int, payload: bytes) -> int:
    raise OSError(5, "Input/output error")


@in_loop
async def test_a_great_many_changes_apply(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("first", 1, 1))
        config = tmp_path / "config"
        shutil.copytree(config, tmp_path / "b" / "config")
    journal = JournalFile(tmp_path / "b" / "config" / NAME)
    content = JsonFile(tmp_path / "b/config/topics.json").load()
    assert content is not None
    first = content["rmqJournal"]["sequence"] + 1
    member = TopicConfig("t").members()
    read = journal.read()
    changes = (
        {
            "table": "topics.json",
            "put": {"topicConfigTable": {f"t{number // 2}": member}},
            "remove": {"topicConfigTable": [f"t{number // 2}"]} if number % 4 == 3 else {},
        }
        for number in range(MANY)
    )
    records = [(first + at, json.dumps([change]).encode()) for at, change in enumerate(changes)]
    journal.create(read.identity, read.bases, records)
    found, marked, news = MetadataJournal(tmp_path / "b" / "config").load(
        JsonFile(tmp_path / "b/config/topics.json")
    )
    assert found is not None and marked and news
    left = {name for name in found["topicConfigTable"] if name[0] == "t"} - {"test"}
    assert left == {f"t{number}" for number in range(0, MANY // 2, 2)}


@pytest.mark.parametrize("limit", ["QUIET_MAX_S", "AGE_MAX_S"])
@in_loop
async def test_the_json_files_follow_when_nothing_changes_any_more_and_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("first", 1, 1))
        await broker.topics.create(TopicConfig("second", 1, 1))
        path = tmp_path / "config" / "topics.json"
        broker.journal.tidy()
        await broker.core.until(lambda: not broker.journal.is_writing)
        assert b'"second"' not in path.read_bytes()
        monkeypatch.setattr(f"rmq.broker.tables.metadata_journal.{limit}", 0.0)
        broker.journal.tidy()
        await broker.core.until(lambda: not broker.journal.is_writing)
        assert b'"second"' in path.read_bytes()
        assert not JournalFile(path.with_name(NAME)).read().records
