"""Where the log stood when topics were deleted: the file that says so, and what becomes of its
entries."""

import json
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.tables.deleted_topics import deleted_topics
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig

CREATE = {
    "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


def write(directory: Path, table: object) -> Path:
    path = directory / "config" / "rmqDeletedTopics.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"deletedTopics": table}))
    return path


@in_loop
async def test_a_deletion_is_answered_when_the_file_says_where_the_log_was(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        broker.core.log_end = 5000
        await client.call(17, topic="t", **CREATE)
        assert (await client.call(215, topic="t")).code == 0
        ((name, (offset, ms)),) = deleted_topics(tmp_path / "config").items()
        assert (name, offset) == (b"t", 5000) and ms > 1_600_000_000_000
        broker.core.log_end = 6000
        await client.call(17, topic="t", **CREATE)
        assert (await client.call(215, topic="t")).code == 0
        assert deleted_topics(tmp_path / "config")[b"t"][0] == 6000


@in_loop
async def test_a_slave_is_told_of_what_is_taken_from_the_master_that_was(tmp_path: Path) -> None:
    """A slave of this broker must be told of deletions that this broker copied from its former
    master, although its table of topics has not changed."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        broker.core.log_end = 5000
        for marks in ({"t": (4000, 7)}, {"u": (4500, 8)}):
            await broker.topics.copy(broker.topics.all(), 5000, marks)
            told = json.loads((await client.call(21, rmqDeleted="true")).body)["rmqDeletedTopics"]
            assert marks.keys() <= told.keys()
        assert told == {"t": [4000, 7], "u": [4500, 8]}
        plain = json.loads((await client.call(21)).body)
        assert "rmqDeletedTopics" not in plain


@in_loop
async def test_the_retry_topic_of_a_group_does_not_go_with_another_ones_topic(
    tmp_path: Path,
) -> None:
    """When topic orders is deleted, %RETRY%eu_orders must stay: it may hold what group eu pops
    again of orders, but also the retries of group eu_orders."""
    retries = {"%RETRY%eu_orders", "%RETRY%us_orders", "%RETRY%us+orders"}
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for group in ("eu", "us", "eu_orders"):
            await broker.groups.update(GroupConfig(group))
        for topic in ("orders", *retries):
            await broker.topics.create(TopicConfig(topic, 1, 1))
        assert (await client.call(215, topic="orders")).code == 0
        assert {topic for topic in retries if topic in broker.topics} == {"%RETRY%eu_orders"}


@in_loop
async def test_no_entry_lies_behind_the_end_of_a_log_that_is_shorter_now(tmp_path: Path) -> None:
    write(tmp_path, {"t": [5000, 7]})
    async with control(tmp_path):
        assert deleted_topics(tmp_path / "config") == {b"t": (0, 7)}


@pytest.mark.parametrize("entry", [5, [1], [1, "2"], [-1, 2], [True, 2], [1 << 70, 2], None])
def test_what_is_no_entry_is_passed_over(tmp_path: Path, entry: object) -> None:
    write(tmp_path, {"t": entry, "u": [5, 6]})
    assert deleted_topics(tmp_path / "config") == {b"u": (5, 6)}


def test_a_damaged_file_is_no_reason_not_to_start(tmp_path: Path) -> None:
    write(tmp_path, {"u": [5, 6]}).write_bytes(b"{")
    assert deleted_topics(tmp_path / "config") == {}
