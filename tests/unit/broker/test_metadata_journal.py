"""What a start finds after a kill between a change and the JSON file, a torn tail, damage in the
middle, another broker's JSON file; and what a change costs.

Method: control() of the real tables with a core that stands in; a kill is a copy of the directory
while the broker runs.
"""

import json
import shutil
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.base.journal_file import JournalFile
from rmq.base.json_file import JsonFile
from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.metadata_journal import NAME, MetadataJournal
from rmq.broker.tables.topic_config import TopicConfig

MANY = 100_000


async def killed_with_changes(directory: Path, copy: Path) -> None:
    """One topic in the JSON file; two made, one changed and one deleted after it."""
    async with control(directory) as broker:
        for name in ("first", "gone"):
            await broker.topics.create(TopicConfig(name, 2, 2))
        await broker.groups.update(GroupConfig("g", retry_times_max=5))
    async with control(directory) as broker:
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
    assert "second" not in written  # else nothing of the journal is tested
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
    """Apache's broker drops the members it does not know; groups it did not write stay."""
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
    assert "was written by another broker, or by hand" in caplog.text
    async with control(tmp_path / "c") as broker:
        assert queues(broker) == {"first": 8, "gone": 2, "second": 5}


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
    """And nothing is appended to that journal again: a later sync would not cover what it lost."""
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


def failing(file: JournalFile, records: object) -> int:
    raise OSError(5, "Input/output error")


@in_loop
async def test_a_hundred_thousand_changes_apply(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("first", 1, 1))
        config = tmp_path / "config"
        shutil.copytree(config, tmp_path / "b" / "config")
    journal = JournalFile(tmp_path / "b" / "config" / NAME)
    content = JsonFile(tmp_path / "b/config/topics.json").load()
    assert content is not None
    first = content["rmqJournal"]["sequence"] + 1
    member = TopicConfig("t").members()
    journal.append(
        (
            first + number,
            json.dumps(
                {
                    "table": "topics.json",
                    "put": {"topicConfigTable": {f"t{number // 2}": member}},
                    "remove": {"topicConfigTable": [f"t{number // 2}"]} if number % 4 == 3 else {},
                }
            ).encode(),
        )
        for number in range(MANY)
    )
    found, marked, news = MetadataJournal(tmp_path / "b" / "config").load(
        JsonFile(tmp_path / "b/config/topics.json")
    )
    assert found is not None and marked and news
    left = {name for name in found["topicConfigTable"] if name[0] == "t"} - {"test"}
    assert left == {f"t{number}" for number in range(0, MANY // 2, 2)}


@in_loop
async def test_the_json_files_follow_when_nothing_changes_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("first", 1, 1))
        await broker.topics.create(TopicConfig("second", 1, 1))
        path = tmp_path / "config" / "topics.json"
        broker.journal.tidy()
        await broker.core.until(lambda: not broker.journal.is_writing)
        assert b'"second"' not in path.read_bytes()
        monkeypatch.setattr("rmq.broker.tables.metadata_journal.QUIET_S", 0.0)
        broker.journal.tidy()
        await broker.core.until(lambda: not broker.journal.is_writing)
        assert b'"second"' in path.read_bytes()
        assert not JournalFile(path.with_name(NAME)).read().records
