"""The table of subscription groups and its requests."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop
from support.stored_table import stored
from support.waiting import HANG_S

from rmq.base.journal_file import JournalFile
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson


def body(name: str, **members: object) -> bytes:
    return fastjson.dumps({**GroupConfig(name).members(), **members})


@in_loop
async def test_a_group_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        assert (await client.call(200, body("g", retryMaxTimes=3))).code == 0
        content = stored(tmp_path, "subscriptionGroup.json")
        assert content["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3
        assert broker.core.groups[b"g"] == (1, 1)
        assert (await client.call(200, body("g", consumeEnable=False))).code == 0
        assert broker.core.groups[b"g"] == (0, 1)
    async with control(tmp_path) as again:
        assert again.core.groups[b"g"] == (0, 1)


@in_loop
async def test_who_deletes_what_is_being_deleted_waits_for_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second deletion of the same group (207) or topic (215) must wait until the file is written.
    It once found nothing left to delete, and was answered before any file said so."""
    disk, real_append = threading.Event(), JournalFile.append
    async with control(tmp_path) as broker:
        first, second = broker.core.client(), broker.core.client()
        assert (await first.call(200, body("g"))).code == 0
        await broker.topics.create(TopicConfig("t", 1, 1))
        monkeypatch.setattr(
            JournalFile, "append", lambda *given: (disk.wait(HANG_S), real_append(*given))[1]
        )
        asked = [
            asyncio.create_task(client.call(code, **{field: name}))
            for code, field, name in ((207, "groupName", "g"), (215, "topic", "t"))
            for client in (first, second)
        ]
        done, _ = await asyncio.wait(asked, timeout=0.3)
        assert not done
        disk.set()
        assert [(await task).code for task in asked] == [0, 0, 0, 0]
        content = stored(tmp_path, "subscriptionGroup.json")
        assert "g" not in content["subscriptionGroupTable"]


@in_loop
async def test_a_deleted_group_is_forbidden_nothing_in_the_file_either(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        assert (await client.call(353, group="g", topic="t", readable=False)).code == 0
        assert (await client.call(207, groupName="g")).code == 0  # nobody ever made the group
        content = stored(tmp_path, "subscriptionGroup.json")
        assert content["forbiddenTable"] == {}


@in_loop
async def test_preset_groups_exist(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateSubscriptionGroup=False) as broker:
        assert b"TOOLS_CONSUMER" in broker.core.groups
        assert (await broker.core.client().call(352, group="mine")).code == 26


@pytest.mark.parametrize(
    ("name", "members", "code"),
    [
        ("a/b", {}, 29),
        ("g" * 121, {}, 29),
        ("g", {"retryQueueNums": -1}, 1),
        ("g", {"retryMaxTimes": "often"}, 1),
        ("g", {"subscriptionDataSet": 4}, 1),
    ],
)
def test_wrong_groups_are_refused(
    tmp_path: Path, name: str, members: dict[str, object], code: int
) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            reply = await broker.core.client().call(200, body(name, **members))
            assert reply.code == code
            assert name.encode() not in broker.core.groups

    run()


@in_loop
async def test_many_groups_and_the_whole_table(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        groups = {"groupConfigList": [GroupConfig(f"g{n}").members() for n in range(3)]}
        assert (await client.call(225, fastjson.dumps(groups))).code == 0
        reply = await client.call(201)
        table = json.loads(reply.body)["subscriptionGroupTable"]
        assert {"g0", "g1", "g2"} <= set(table)
        assert int(reply.fields["totalGroupNum"]) == len(table)
        one = json.loads((await client.call(352, group="g1")).body)
        assert one["groupRetryPolicy"] == {"type": "CUSTOMIZED"}


@in_loop
async def test_a_deleted_group_keeps_its_offsets_unless_asked(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for clean, left in ((False, 5), (True, -1)):
            await client.call(200, body("g"))
            broker.offsets.commit("g", "t", 0, 5)
            assert (await client.call(207, groupName="g", cleanOffset=clean)).code == 0
            assert b"g" not in broker.core.groups
            assert broker.offsets.query("g", "t", 0) == left


@in_loop
async def test_reading_is_forbidden_and_allowed_again(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(353, group="g", topic="t", readable=False)
        assert json.loads(reply.body) == {"group": "g", "readable": False, "topic": "t"}
        assert not broker.groups.may_read("g", "t")
        assert broker.groups.may_read("g", "u")
    async with control(tmp_path) as again:
        assert not again.groups.may_read("g", "t")
        await again.core.client().call(353, group="g", topic="t", readable=True)
        assert again.groups.may_read("g", "t")
