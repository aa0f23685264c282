"""What consumers send back, and how it comes into the delay queues. The delivery is the
reactor's: tests/unit/flow."""

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
async def test_a_failed_message_waits_with_what_it_was(tmp_path: Path) -> None:
    async with control(tmp_path, messageDelayLevel="1s 1s 5s 1h") as broker:
        core, client = broker.core, broker.core.client()
        source = core.store(
            "t", 0, b"job", flag=7, born_timestamp_ms=11, properties_bytes=b"TAGS\1a\2KEYS\1k\2"
        )
        reply = await client.call(36, offset=source.physical_offset, group="g", delayLevel=0)
        assert reply.code == 0
        again = messages(core, SCHEDULE.decode(), 2)[0]
        assert (again.body, again.flag, again.born_timestamp_ms) == (b"job", 7, 11)
        assert again.reconsume_times == 1
        kept = again.properties
        assert (kept["TAGS"], kept["KEYS"], kept["RETRY_TOPIC"]) == ("a", "k", "t")
        assert kept["ORIGIN_MESSAGE_ID"] == source.message_id
        assert (kept["DELAY"], kept["REAL_TOPIC"], kept["REAL_QID"]) == ("3", "%RETRY%g", "0")
        # The second failure of the same message keeps where it came from and waits longer.
        delivered = core.store("%RETRY%g", 0, b"job", reconsume_times=1,
                               properties_bytes=again.properties_bytes)  # fmt: skip
        assert (
            await client.call(36, offset=delivered.physical_offset, group="g", delayLevel=0)
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
async def test_the_file_says_how_far_each_level_is_delivered(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core, messageDelayLevel="1s 1h") as broker:
        assert (core.delays_ms, core.delivered_to) == ([1000, 3_600_000], [0, 0])
        core.store(SCHEDULE.decode(), 1)
        core.delivered_to = [0, 1]
        await broker.delays.save()
        table = json.loads((tmp_path / "config" / "delayOffset.json").read_bytes())
        assert table["offsetTable"] == {"1": 0, "2": 1}
        core.store(SCHEDULE.decode(), 0)
        core.delivered_to = [1, 1]
    async with control(tmp_path, core, messageDelayLevel="1s 1h"):
        assert core.delivered_to == [1, 1]


@in_loop
async def test_offsets_wait_for_their_deliveries_to_be_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        for _ in range(9):
            core.store(SCHEDULE.decode(), 0)
        durable = 10
        monkeypatch.setattr(core, "log_range", lambda: (0, core.log_end, durable))
        file = tmp_path / "config" / "delayOffset.json"
        core.delivered_to = [5] + [0] * 17
        await broker.delays.save()
        assert not file.exists()
        synced, core.delivered_to = core.log_end, [7] + [0] * 17
        core.store("t", 0)
        await broker.delays.save()
        assert not file.exists()
        durable = synced
        await broker.delays.save()
        assert json.loads(file.read_bytes())["offsetTable"]["1"] == 5
        await broker.delays.save()
        assert json.loads(file.read_bytes())["offsetTable"]["1"] == 5
        durable = core.log_end
        await broker.delays.save()
        assert json.loads(file.read_bytes())["offsetTable"]["1"] == 7


@pytest.mark.parametrize("said", [99, -1, "x", 10**30])
def test_an_offset_outside_of_its_queue_is_corrected(tmp_path: Path, said: object) -> None:
    @in_loop
    async def run() -> None:
        core = FakeCore()
        for _ in range(3):
            core.store(SCHEDULE.decode(), 0)
        core.queue_minimum[SCHEDULE, 0] = 1
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "delayOffset.json").write_text(
            json.dumps({"offsetTable": {"1": said}})
        )
        async with control(tmp_path, core):
            assert core.delivered_to[0] == (3 if said in (99, 10**30) else 1)

    run()


@in_loop
async def test_a_topic_that_a_due_message_misses_is_made(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        broker.core.report(4, 3, b"gone")
        await broker.core.until(lambda: b"gone" in broker.core.topics)
        assert broker.core.topics[b"gone"] == (3, 3, 6, 0)
        for number, name in ((3, b"../x"), (1 << 40, b"t"), (0, b"t")):
            broker.core.report(4, number, name)
        await asyncio.sleep(0.05)
        assert b"t" not in broker.core.topics


@in_loop
async def test_a_store_that_refuses_is_said_to_the_consumer(tmp_path: Path) -> None:
    core = FakeCore()
    source = core.store("t", 0)
    async with control(tmp_path, core):
        client = core.client()
        core.refuse_appends = "no space"
        ask = {"offset": source.physical_offset, "group": "g", "delayLevel": 1}
        reply = await client.call(36, **ask)
        assert (reply.code, "no space" in (reply.remark or "")) == (1, True)
        core.refuse_appends = None
        assert (await client.call(36, **ask)).code == 0
