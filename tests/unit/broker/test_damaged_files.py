"""Each config file is cut, zeroed or turned into something else, with and without a whole .bak.

The rule is the same for all files. With one whole copy the start uses that copy and says so.
Without one, the start goes on if what is lost can be set right later, and is refused with advice if
going on could not be undone (the table in rmq/base/json_file.py). The damaged file is kept under
another name.
"""

import asyncio
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.base.json_file import JsonFile
from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.queue_mapping import LogicQueueItem, QueueMapping
from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import StoreCorruptError
from rmq.format.fastjson import MessageQueue
from shards.shards_file import ShardsFile, ShardsState

GOES_ON = {
    "consumerOffset.json": "consumeFromWhere",
    "consumerOrderInfo.json": "comes again",
    "messageRequestMode.json": "setConsumeMode",
    "rmqLocks.json": "first consumer that asks",
}
REFUSES = {
    "topics.json": "come back with these queues",
    "subscriptionGroup.json": "not allowed to consume",
    "delayOffset.json": "delivered again",
    "topicQueueMapping.json": "updateStaticTopic",
}
FILES = [*GOES_ON, *REFUSES]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "all but the checksum": lambda data: data[: data.rindex(b",")],
    "all but one": lambda data: data[:-1],
    "zeroed": lambda data: bytes(len(data)),
    "a page zeroed": lambda data: data[:20] + bytes(max(0, len(data) - 40)) + data[-20:],
    "garbage": lambda data: bytes((each * 167 + 13) % 256 for each in data),
    "another's": lambda _: b"<html>404</html>",
    "a list": lambda _: b"[1, 2]",
    "deep": lambda _: b'{"a":' * 100_000,
    "another shape": lambda _: (
        b'{"topicConfigTable":[],"subscriptionGroupTable":7,"offsetTable":"x",'
        b'"table":true,"messageRequestModeMap":[1],"locks":"none","topicQueueMappingInfoMap":[]}'
    ),
    "a flipped bit": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    ),
}
MAPPING = QueueMapping(
    "t", "broker-a", 3, 5, hosted_queues={2: (LogicQueueItem(0, 1, "broker-a"),)}
)
BLOCK = {"cm": 0, "i": 60_000, "l": 0, "o": [5, 1], "oc": {}, "ot": {}, "popTime": 5}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A store with some content in each table, and what a broker knows of it after a clean stop."""
    directory = tmp_path_factory.mktemp("made")

    async def make() -> dict[str, object]:
        await make_all(directory)
        async with control(directory) as broker:
            return known(broker)

    return directory, asyncio.run(make())


@pytest.fixture
def wanted(made: tuple[Path, dict[str, object]], tmp_path: Path) -> dict[str, object]:
    """Copies the store of `made` to tmp_path, and returns what a broker must know of it."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return made[1]


async def make_all(directory: Path) -> None:
    """Puts some content into each table. The core that stands in keeps neither delays nor popped
    batches, so their files are written here in the form that they would have."""
    config = directory / "config"
    async with control(directory) as broker:
        await broker.topics.create(TopicConfig("t", 3, 3))
        await broker.groups.update(GroupConfig("g", retry_times_max=5))
        broker.offsets.commit("g", "t", 1, 77)
        await broker.request_modes.set("t", "g", "POP", 2)
        await broker.queue_mappings.put(MAPPING, force=False)
        broker.locks.lock("g", [MessageQueue("t", "b", 0)], "c1")
        await broker.locks.saved()
    JsonFile(config / "delayOffset.json").save({"offsetTable": {"1": 0, "3": 0}})
    JsonFile(config / "consumerOrderInfo.json").save({"table": {"t@g": {"0": BLOCK}}})


def known(broker: Broker) -> dict[str, object]:
    """What each table has of that content, by file."""
    group = broker.groups.get("g")
    return {
        "topics.json": broker.topics.get("t"),
        "subscriptionGroup.json": group is not None and group.retry_times_max,
        "consumerOffset.json": broker.offsets.query("g", "t", 1),
        "messageRequestMode.json": broker.request_modes.of("t", "g"),
        "topicQueueMapping.json": broker.queue_mappings.get("t"),
        "rmqLocks.json": broker.locks.lock("g", [MessageQueue("t", "b", 0)], "c2"),
        "consumerOrderInfo.json": len(broker.core.pop_orders()),
        "delayOffset.json": "",
    }


def damage(path: Path, kind: str) -> bytes:
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    return path.read_bytes()


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", FILES)
@in_loop
async def test_a_damaged_file_gives_way_to_its_backup(
    name: str, kind: str, wanted: dict[str, object], tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    path = tmp_path / "config" / name
    left = damage(path, kind)
    caplog.clear()
    async with control(tmp_path) as broker:
        assert known(broker) == wanted
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith(f"{path} is damaged: ") for line in lines)
    assert any(f"{path}.bak is used instead of {path}: changes since 20" in line for line in lines)
    assert path.with_name(name + ".damaged").read_bytes() == left
    assert JsonFile(path).load() is not None, "a stop leaves whole copies again"
    assert JsonFile(path.with_name(name + ".bak")).load() is not None


@pytest.mark.parametrize("backup", ["gone", "damaged"])
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", GOES_ON)
@in_loop
async def test_without_a_whole_copy_the_start_goes_on_and_says_what_is_lost(
    name: str, kind: str, backup: str, wanted: dict[str, object], tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    path = tmp_path / "config" / name
    left = damage(path, kind)
    if backup == "gone":
        path.with_name(name + ".bak").unlink()
    else:
        damage(path.with_name(name + ".bak"), kind)
    caplog.clear()
    async with control(tmp_path) as broker:
        found = known(broker)
        assert found[name] != wanted[name]
        others = found.keys() - {name}
        assert {each: found[each] for each in others} == {each: wanted[each] for each in others}
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [line for line in lines if line.startswith(f"{path}: no whole copy is left")]
    assert GOES_ON[name] in "".join(lines)
    assert path.with_name(name + ".damaged").read_bytes() == left
    async with control(tmp_path):  # the next start has nothing to report
        pass


@pytest.mark.parametrize("backup", ["gone", "damaged"])
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", REFUSES)
@pytest.mark.usefixtures("wanted")
@in_loop
async def test_what_cannot_be_done_without_refuses_the_start_with_advice(
    name: str, kind: str, backup: str, tmp_path: Path
) -> None:
    path = tmp_path / "config" / name
    left = damage(path, kind)
    if backup == "gone":
        path.with_name(name + ".bak").unlink()
    else:
        damage(path.with_name(name + ".bak"), kind)
    with pytest.raises(StoreCorruptError, match=REFUSES[name]) as caught:
        async with control(tmp_path):
            pass
    assert f"no whole copy is left: {path}: " in str(caught.value)
    assert path.read_bytes() == left, "what is refused is left as it is"
    path.unlink()  # as the refusal advises
    path.with_name(name + ".bak").unlink(missing_ok=True)
    async with control(tmp_path) as broker:
        assert "TBW102" in broker.topics


@pytest.mark.parametrize("name", FILES)
@in_loop
async def test_a_copy_is_there_from_the_first_save_on(name: str, tmp_path: Path) -> None:
    """Damage to the file must not damage its copy: they must share no blocks."""
    await make_all(tmp_path)
    path, backup = tmp_path / "config" / name, tmp_path / "config" / (name + ".bak")
    assert backup.read_bytes() == path.read_bytes() or name == "rmqLocks.json"
    assert path.stat().st_ino != backup.stat().st_ino


def test_the_first_save_of_all_leaves_two_copies(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "a.json.bak"]
    for name in ("a.json", "a.json.bak"):
        (tmp_path / name).write_bytes(b"")
        assert JsonFile(tmp_path / "a.json").load() == {"n": 1}
        file.save({"n": 1})


def test_what_is_damaged_never_becomes_the_backup(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    file.save({"n": 2})
    file.path.write_bytes(b"{")
    again = JsonFile(file.path)
    assert again.load() == {"n": 1}
    again.save({"n": 3})
    again.path.write_bytes(b"{")
    assert JsonFile(file.path).load() == {"n": 1}


def test_a_clean_stop_leaves_the_newest_content_twice(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.settle()
    assert list(tmp_path.iterdir()) == []
    file.save({"n": 1})
    file.save({"n": 2})
    assert json.loads(file.backup_path.read_bytes())["n"] == 1
    file.settle()
    assert json.loads(file.backup_path.read_bytes())["n"] == 2
    assert file.path.stat().st_ino != file.backup_path.stat().st_ino
    before = file.backup_path.stat().st_ino
    file.settle()
    assert file.backup_path.stat().st_ino == before


@in_loop
async def test_topics_that_no_copy_names_are_found_by_their_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("old", 2, 2, 4))
        await broker.topics.create(TopicConfig("grown", 2, 2, 4))
    places = (("new", 0), ("new", 6), ("%RETRY%g", 0), ("old", 1), ("grown", 3),
              ("SCHEDULE_TOPIC_XXXX", 2), ("no topic!", 0), ("huge", 99999999))  # fmt: skip
    queues: dict[tuple[bytes, int], list[bytes]] = {(t.encode(), q): [] for t, q in places}
    (tmp_path / "config" / "topics.json").write_bytes(b"")
    core = FakeCore()
    core.queues.update(queues)
    async with control(tmp_path, core) as broker:
        assert broker.topics.get("old") == TopicConfig("old", 2, 2, 4)
        assert broker.topics.get("grown") == TopicConfig("grown", 4, 4, 4)
        assert broker.topics.get("new") == TopicConfig("new", 7, 7)
        assert broker.topics.get("%RETRY%g") == TopicConfig("%RETRY%g", 1, 1)
        assert broker.topics.require("SCHEDULE_TOPIC_XXXX").read_queues == 18
        assert "no topic!" not in broker.topics and "huge" not in broker.topics
        assert (b"new", 7, 7, 6, 0) in [tuple(each) for each in put_topics(broker)]
    assert "topic new is taken from its queues: 7" in caplog.text
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "config" / name).unlink()
    core = FakeCore()
    core.queues.update(queues)
    async with control(tmp_path, core) as broker:
        assert broker.topics.get("old") == TopicConfig("old", 2, 2)


def put_topics(broker: Broker) -> list[tuple[object, ...]]:
    core = broker.core
    assert isinstance(core, FakeCore)
    return [(name, *row) for name, row in core.topics.items()]


@pytest.mark.parametrize("kind", ["empty", "one byte", "half", "all but one", "zeroed", "garbage"])
def test_how_many_shards_there_are_is_not_guessed(kind: str, tmp_path: Path) -> None:
    ShardsFile(tmp_path).save(ShardsState(3, (2,)))
    path = tmp_path / "config" / "shards.json"
    damage(path, kind)
    assert ShardsFile(tmp_path).load() == ShardsState(3, (2,))
    path.write_bytes(b"{")
    damage(path.with_name("shards.json.bak"), kind)
    with pytest.raises(StoreCorruptError, match=r'Write \{"shards":N\} into it'):
        ShardsFile(tmp_path).load()
