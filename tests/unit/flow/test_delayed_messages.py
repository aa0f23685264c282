"""Delay levels in the reactor: a real shard core, loopback sockets, levels made short."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.live_broker import entries, fill_log, live_broker, records, served
from support.name_server import in_loop
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.errors import StoreError
from rmq.format.message import tags_code

# Waits end at once: the clock jumps ahead.
pytestmark = pytest.mark.usefixtures("clock")

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
HOUR_MS = 3_600_000
TICK = 0.001  # the broker's clock counts whole ms: an event at 0.9 ms has the time of its beginning


def now_ms() -> int:
    return int(clock.wall() * 1000)


@in_loop
async def test_a_delayed_message_waits_in_its_level_and_comes_complete(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s 2s") as (broker, client):
        await client.send("t", b"first", 1)
        before = now_ms()
        reply = await client.send(
            "t", b"later", 1, h=7, g=123,
            i="DELAY\x011\x02TAGS\x01a\x02KEYS\x01k\x02REAL_TOPIC\x01lie\x02UNIQ_KEY\x01U\x02",
        )  # fmt: skip
        assert (reply.code, reply.fields["queueId"]) == (0, "1")
        assert reply.fields["queueOffset"] == "0"
        assert reply.fields["transactionId"] == "U"
        assert len(records(broker, "t", 1)) == 1
        waiting = records(broker, SCHEDULE, 0)[0]
        due = entries(broker, SCHEDULE, 0)[0][2]
        assert before + 1000 <= due <= now_ms() + 1000
        assert due - waiting.store_timestamp_ms == 1000
        kept = waiting.properties
        assert (kept["DELAY"], kept["REAL_TOPIC"], kept["REAL_QID"]) == ("1", "t", "1")
        assert reply.fields["msgId"] == waiting.message_id
        await until(lambda: len(records(broker, "t", 1)) == 2)
        assert due <= now_ms()  # how late it is: tests/process and bench measure that
        came = records(broker, "t", 1)[1]
        assert came.store_timestamp_ms >= due
        assert (came.body, came.flag, came.born_timestamp_ms) == (b"later", 7, 123)
        assert came.born_host == waiting.born_host
        assert came.properties == kept
        assert (kept["TAGS"], kept["KEYS"]) == ("a", "k")
        assert entries(broker, "t", 1)[1][2] == tags_code("a")
        stats = broker.core.stats()
        assert (stats["delayed_delivered"], stats["delayed_dropped"]) == (1, 0)


@in_loop
async def test_a_level_above_the_highest_is_the_highest(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s 5m") as (broker, client):
        reply = await client.send(
            "t", b"x", i="DELAY\x0199\x02TIMER_DELAY_SEC\x013\x02TIMER_DELIVER_MS\x015\x02"
        )
        assert reply.code == 0
        waiting = records(broker, SCHEDULE, 1)[0]
        assert waiting.properties["DELAY"] == "2"
        assert not [name for name in waiting.properties if name.startswith("TIMER")]
        assert (await client.send("t", b"x", i="DELAY\x010\x02")).code == 0
        assert len(records(broker, "t")) == 1
        long = "p\x01" + "x" * 32_700 + "\x02"
        assert (await client.send("t", b"x", i=long + "DELAY\x011\x02")).code == 13


@in_loop
async def test_the_order_of_a_level_is_the_order_of_its_sends(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path, messageDelayLevel="1s") as broker,
        BrokerClient(broker.core.port, serialize_type=1) as client,
    ):
        await client.send("t", b"make")
        opaques = [client.post_send("t", b"%d" % n, i="DELAY\x011\x02") for n in range(3000)]
        for opaque in opaques:
            assert (await client.reply(opaque)).code == 0
        await until(lambda: len(entries(broker, "t")) == 3001)
        came = records(broker, "t")[1:]
        assert [message.body for message in came] == [b"%d" % n for n in range(3000)]
        waited = [message.store_timestamp_ms for message in came]
        dues = [entry[2] for entry in entries(broker, SCHEDULE)]
        assert all(stored >= due for stored, due in zip(waited, dues, strict=True))


@in_loop
async def test_what_waits_survives_a_restart_and_is_delivered_once(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s 1h") as (broker, client):
        await client.send("t", b"a", i="DELAY\x011\x02")
        await until(lambda: len(records(broker, "t")) == 1)
        await client.send("t", b"b", i="DELAY\x012\x02")
    file = json.loads((tmp_path / "config" / "delayOffset.json").read_bytes())
    assert file["offsetTable"] == {"1": 1, "2": 0}
    async with live_broker(tmp_path, messageDelayLevel="1s 2s") as broker:
        await until(lambda: broker.core.queue_range(b"t", 0) == (0, 2))
        await pass_seconds(broker.core, 0.3)
        assert broker.core.queue_range(b"t", 0) == (0, 2)
        assert broker.core.delay_offsets()[0] == [1, 1]


@in_loop
async def test_records_that_left_memory_are_fetched_by_a_disk_reader(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1h", flushDiskType="SYNC_FLUSH") as (
        broker,
        client,
    ):
        for n in range(100):
            client.post_send("t", b"%d" % n, i="DELAY\x011\x02")
        await client.send("t", b"last", i="DELAY\x011\x02")
        await fill_log(broker, client, "fill", 12 << 20)  # the ring of 8 MiB has moved on
    for path in (tmp_path / "commitlog").iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    async with live_broker(tmp_path, messageDelayLevel="1s") as broker:
        await until(lambda: broker.core.queue_range(b"t", 0) == (0, 101))
        assert [message.body for message in records(broker, "t")][98:] == [b"98", b"99", b"last"]
        stats = broker.core.stats()
        assert (stats["delayed_dropped"], stats["delayed_fetches"] > 0) == (0, True)


@in_loop
async def test_an_entry_that_points_into_apaches_extension_is_due_by_its_record(
    tmp_path: Path,
) -> None:
    """With enableConsumeQueueExt the queue entry has an address instead of the due time, so the due
    time must come from the record."""
    async with served(tmp_path, messageDelayLevel="3s") as (_, client):
        assert (await client.send("t", b"later", i="DELAY\x011\x02")).code == 0
        sent_ms = int(clock.wall() * 1000)
    path = tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "0" / "00000000000000000000"
    with path.open("r+b") as file:
        file.seek(12)
        file.write((-(2**63)).to_bytes(8, "big", signed=True))
    async with live_broker(tmp_path, messageDelayLevel="3s") as broker:
        await until(lambda: bool(records(broker, "t")))
        waited_ms = records(broker, "t")[0].store_timestamp_ms - sent_ms
        assert 2900 <= waited_ms < HOUR_MS


@in_loop
async def test_a_deleted_topic_comes_back_for_what_is_due(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1h") as (broker, client):

        def set_delay(ms: int) -> None:
            """Makes waiting messages due only now, so that a deletion on a slow disk is not too
            late."""
            offsets, _ = broker.core.delay_offsets(1)
            broker.core.set_delay_levels([ms], offsets)

        await client.send("t", b"later", 3, i="DELAY\x011\x02")
        assert await broker.topics.delete("t")
        set_delay(100)
        await until(lambda: records(broker, "t", 3))
        assert broker.topics.require("t").write_queues == 4
        set_delay(HOUR_MS)
        await client.send("u", b"later", 3, i="DELAY\x011\x02")
        await broker.topics.delete("u")
        await client.send("u", b"fewer queues now", 0, d=2)
        set_delay(100)
        await until(lambda: records(broker, "u", 1))
        assert records(broker, "u", 1)[0].body == b"later"


@in_loop
async def test_a_level_waits_as_long_as_a_topic_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full_disk(*_: object) -> None:
        raise StoreError("config/topics.json cannot be written: No space left on device")

    async with served(tmp_path, messageDelayLevel="1h") as (broker, client):
        await client.send("t", b"later", 3, i="DELAY\x011\x02")
        assert await broker.topics.delete("t")
        with monkeypatch.context() as patch:
            patch.setattr(broker.topics, "create", full_disk)
            broker.core.set_delay_levels([100], broker.core.delay_offsets(1)[0])
            await pass_seconds(broker.core, 20, 1.0)
        assert broker.core.stats()["delayed_dropped"] == 0
        await until(lambda: records(broker, "t", 3))


@in_loop
async def test_damaged_waiting_messages_are_passed(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s") as (broker, client):
        for properties in (
            b"",
            b"REAL_TOPIC\1../x\2REAL_QID\0010\2",
            b"REAL_TOPIC\1t\2REAL_QID\1-1\2",
            b"REAL_TOPIC\1t\2REAL_QID\1x\2",
            b"REAL_TOPIC\1SCHEDULE_TOPIC_XXXX\2REAL_QID\0010\2",
            b"REAL_TOPIC\1RMQ_SYS_TRANS_HALF_TOPIC\2REAL_QID\0010\2",
        ):
            broker.core.append(SCHEDULE.encode(), 0, b"bad", properties, 0, 0, 1,
                               bytes(8), 0, 0, 1)  # fmt: skip
        await client.send("t", b"fine", i="DELAY\x011\x02")
        await until(lambda: records(broker, "t"))
        assert [message.body for message in records(broker, "t")] == [b"fine"]
        assert broker.core.stats()["delayed_dropped"] == 6
        assert len(entries(broker, SCHEDULE)) == 7


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
@in_loop
async def test_a_clock_that_is_set_delivers_nothing_early_nor_late(
    clock: DrivenClock, tmp_path: Path, by_ms: int
) -> None:
    async with served(tmp_path, messageDelayLevel="1s 2s") as (broker, client):
        # The turn of the next send may have begun before this, that of the send after it not.
        began_ms = now_ms()
        await client.send("t", b"make")
        began = clock.monotonic()
        await client.send("t", b"before", i="DELAY\x012\x02")
        await pass_seconds(broker.core, 0.1)
        clock.set_wall(by_ms / 1000)
        await pass_seconds(broker.core, 0.02)
        await client.send("t", b"after", i="DELAY\x012\x02")
        passed_ms = now_ms() - by_ms - began_ms
        skewed = entries(broker, SCHEDULE, 1)[1][2] - entries(broker, SCHEDULE, 1)[0][2]
        assert 0 <= skewed - by_ms <= passed_ms
        await until(lambda: len(records(broker, "t")) >= 2)
        assert clock.monotonic() - began >= 2.0 - TICK
        await until(lambda: len(records(broker, "t")) >= 3)
        assert clock.monotonic() - began >= 2.1 - TICK
        assert [each.body for each in records(broker, "t")] == [b"make", b"before", b"after"]


@in_loop
async def test_a_clock_set_back_while_the_broker_was_down_costs_one_delay(tmp_path: Path) -> None:
    async with live_broker(tmp_path, messageDelayLevel="1s") as broker:
        async with BrokerClient(broker.core.port) as client:
            await client.send("t", b"make")
        offsets, _ = broker.core.delay_offsets(1)
        far = now_ms() + 86_400_000
        for n in range(3):
            broker.core.append(SCHEDULE.encode(), 0, b"%d" % n,
                               b"REAL_TOPIC\1t\2REAL_QID\0010\2", 0, 0, 1, bytes(8), 0, 0,
                               far + 100 * n)  # fmt: skip
        began = clock.monotonic()
        broker.core.set_delay_levels([1000], offsets)
        await until(lambda: len(records(broker, "t")) == 4)
        assert clock.monotonic() - began >= 1.1


@in_loop
async def test_a_full_disk_makes_delayed_messages_wait(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s") as (broker, client):
        await client.send("t", b"later", i="DELAY\x011\x02")
        broker.core.set_writable(0, b"the disk is full")
        await pass_seconds(broker.core, 1.3)
        assert records(broker, "t") == []
        broker.core.set_writable(1, b"")
        await until(lambda: records(broker, "t"))


@in_loop
async def test_queues_made_anew_after_a_crash_know_the_configured_delays(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="40s 3s") as (broker, client):
        await client.send("t", b"make")
        for level in (1, 2):
            assert (await client.send("t", b"x", i=f"DELAY\x01{level}\x02")).code == 0
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "abort").touch()
    async with live_broker(tmp_path, messageDelayLevel="40s 3s") as broker:
        for level, delay_ms in ((1, 40_000), (2, 3000)):
            (waiting,) = records(broker, SCHEDULE, level - 1)
            due = entries(broker, SCHEDULE, level - 1)[0][2]
            assert due == waiting.store_timestamp_ms + delay_ms
