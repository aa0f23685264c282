"""What consumers send back, and its way through the delay queues. Delays are made short."""

import asyncio
import json
import struct
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker.delays import parse_levels
from rmq.broker.groups import GroupConfig
from rmq.errors import ConfigError
from rmq.format.message import StoredMessage, decode_message

SCHEDULE = b"SCHEDULE_TOPIC_XXXX"


def messages(core: FakeCore, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    units = core.queues.get((topic.encode(), queue_id), [])
    return [decode_message(core.records[struct.unpack(">qiq", unit)[0]])[0] for unit in units]


def test_levels_are_read() -> None:
    assert parse_levels("1s 5m 2h 1d") == [1000, 300_000, 7_200_000, 86_400_000]
    for text in ("", "5", "s", "1x", " ".join(["1s"] * 19)):
        with pytest.raises(ConfigError):
            parse_levels(text)


@in_loop
async def test_a_failed_message_comes_again_after_its_delay(tmp_path: Path) -> None:
    async with control(tmp_path, messageDelayLevel="1s 1s 0s 1h") as broker:
        core, client = broker.core, broker.core.client()
        source = core.store(
            "t", 0, b"job", flag=7, born_timestamp_ms=11, properties_bytes=b"TAGS\1a\2KEYS\1k\2"
        )
        reply = await client.call(36, offset=source.physical_offset, group="g", delayLevel=0)
        assert reply.code == 0
        await core.until(lambda: messages(core, "%RETRY%g"))
        again = messages(core, "%RETRY%g")[0]
        assert (again.body, again.flag, again.born_timestamp_ms) == (b"job", 7, 11)
        assert again.reconsume_times == 1
        kept = again.properties
        assert (kept["TAGS"], kept["KEYS"], kept["RETRY_TOPIC"]) == ("a", "k", "t")
        assert kept["ORIGIN_MESSAGE_ID"] == source.message_id
        assert (kept["DELAY"], kept["REAL_TOPIC"], kept["REAL_QID"]) == ("3", "%RETRY%g", "0")
        # The second failure of the same message keeps where it came from and waits longer.
        assert (
            await client.call(36, offset=again.physical_offset, group="g", delayLevel=0)
        ).code == 0
        waiting = messages(core, SCHEDULE.decode(), 3)[0]
        assert waiting.reconsume_times == 2
        assert waiting.properties["ORIGIN_MESSAGE_ID"] == source.message_id
        assert waiting.properties["RETRY_TOPIC"] == "t"


@in_loop
async def test_the_tags_code_of_a_waiting_message_is_when_it_is_due(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        source = broker.core.store("t", 0)
        client = broker.core.client()
        await client.call(36, offset=source.physical_offset, group="g", delayLevel=4)
        waiting = messages(broker.core, SCHEDULE.decode(), 3)[0]
        due = struct.unpack(">qiq", broker.core.queues[SCHEDULE, 3][0])[2]
        assert 29_000 <= due - waiting.store_timestamp_ms <= 31_000
        await asyncio.sleep(0.05)
        assert messages(broker.core, "%RETRY%g") == []


@in_loop
async def test_the_last_failure_goes_to_the_dead_letters(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        await broker.groups.update(GroupConfig("g", retry_times_max=2))
        tired = core.store("%RETRY%g", 0, b"x", reconsume_times=2)
        fresh = core.store("t", 0, b"y")
        ask = {"offset": tired.physical_offset, "group": "g", "delayLevel": 0}
        assert (await client.call(36, **ask)).code == 0
        assert (await client.call(36, **{**ask, "offset": fresh.physical_offset,
                                         "delayLevel": -1})).code == 0  # fmt: skip
        dead = messages(core, "%DLQ%g")
        assert [message.body for message in dead] == [b"x", b"y"]
        assert dead[0].reconsume_times == 3
        assert (await client.call(36, **ask, maxReconsumeTimes=16)).code == 0
        assert len(messages(core, "%DLQ%g")) == 2


@in_loop
async def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateSubscriptionGroup=False) as broker:
        client = broker.core.client()
        source = broker.core.store("t", 0)
        ask = {"offset": source.physical_offset, "group": "g", "delayLevel": 0}
        assert (await client.call(36, **ask)).code == 26
        await broker.groups.update(GroupConfig("g"))
        assert (await client.call(36, **{**ask, "offset": 1})).code == 1
        assert (await client.call(36, **{**ask, "offset": -1})).code == 1
        assert (await client.call(36, **{**ask, "group": "a/b"})).code == 29
        await broker.groups.update(GroupConfig("g", retry_queues=0))
        assert (await client.call(36, **ask)).code == 0  # dropped, as the group wants it
        assert messages(broker.core, SCHEDULE.decode(), 2) == []


@in_loop
async def test_what_waits_survives_a_restart_and_is_delivered_once(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core, messageDelayLevel="0s 1h") as broker:
        source = core.store("t", 0, b"a")
        client = core.client()
        ask = {"offset": source.physical_offset, "group": "g"}
        await client.call(36, **ask, delayLevel=1)
        await core.until(lambda: messages(core, "%RETRY%g"))
        await client.call(36, **ask, delayLevel=2)
    table = json.loads((tmp_path / "config" / "delayOffset.json").read_bytes())["offsetTable"]
    assert table == {"1": 1, "2": 0}
    unit = core.queues[SCHEDULE, 1][0]
    core.queues[SCHEDULE, 1][0] = unit[:12] + struct.pack(">q", 1)  # due meanwhile
    async with control(tmp_path, core, messageDelayLevel="0s 0s") as broker:
        await core.until(lambda: len(messages(core, "%RETRY%g")) == 2)
        await asyncio.sleep(0.05)
        assert len(messages(core, "%RETRY%g")) == 2
        assert broker.delays.members()["offsetTable"] == {"1": 1, "2": 1}


@in_loop
async def test_a_store_that_refuses_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq.broker.delays.RETRY_S", 0.02)
    core = FakeCore()
    source = core.store("t", 0)
    async with control(tmp_path, core, messageDelayLevel="1s") as broker:
        client = core.client()
        core.refuse_appends = "no space"
        ask = {"offset": source.physical_offset, "group": "g", "delayLevel": 1}
        reply = await client.call(36, **ask)
        assert (reply.code, "no space" in (reply.remark or "")) == (1, True)
        core.refuse_appends = None
        assert (await client.call(36, **ask)).code == 0
        core.refuse_appends = "no space"
        await asyncio.sleep(1.2)
        assert broker.delays.members()["offsetTable"] == {"1": 0}
        core.refuse_appends = None
        await core.until(lambda: messages(core, "%RETRY%g"))


@in_loop
async def test_a_damaged_waiting_message_is_passed(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core, messageDelayLevel="0s") as broker:
        core.store(SCHEDULE.decode(), 0, properties_bytes=b"REAL_TOPIC\1../x\2")
        source = core.store("t", 0, b"fine")
        client = core.client()
        await client.call(36, offset=source.physical_offset, group="g", delayLevel=1)
        await core.until(lambda: messages(core, "%RETRY%g"))
        assert broker.delays.members()["offsetTable"] == {"1": 2}
