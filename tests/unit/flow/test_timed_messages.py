"""Timed messages in the reactor: a real shard core, loopback sockets, short delays."""

import base64
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import driven_clock
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.live_broker import entries, fill_log, live_broker, open_core, records, served
from support.name_server import in_loop
from support.store_copies import copy_store
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.errors import StoreError
from rmq.format.message import StoredMessage, encode_properties, tags_code
from rmq.offline.checker import check_store

# Waits end at once: the clock jumps ahead.
pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

TIMER = "rmq_sys_wheel_timer"
# The committer writes a quarter of the pool, 4 MiB, at once; less than that waits longer than a
# test.
POOL = {
    "transientStorePoolEnable": True, "transientStorePoolSize": 1,
    "mappedFileSizeCommitLog": 16 << 20,
    "commitCommitLogLeastPages": 1 << 20, "commitIntervalCommitLog": 60_000,
    "commitCommitLogThoroughInterval": 60_000,
}  # fmt: skip
HOUR_MS = 3_600_000  # longer than a test: to get there the broker's clock is set forward by it


def now_ms() -> int:
    return int(clock.wall() * 1000)


def after(seconds: float, **more: str) -> str:
    return encode_properties({"TIMER_DELAY_MS": str(round(seconds * 1000)), **more}).decode()


def at(due_ms: int, **more: str) -> str:
    return encode_properties({"TIMER_DELIVER_MS": str(due_ms), **more}).decode()


async def full_disk(*_: object) -> None:
    raise StoreError("config/topics.json cannot be written: No space left on device")


def bodies(broker: Broker, topic: str = "t", queue: int = 0) -> list[bytes]:
    return [message.body for message in records(broker, topic, queue)]


@in_loop
async def test_a_timed_message_waits_as_apache_stores_it_and_comes_complete(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"first", 1)
        due = now_ms() + 5000
        reply = await client.send(
            "t", b"later", 1, h=7, g=123,
            i=at(due, TAGS="a", KEYS="k", REAL_TOPIC="lie", UNIQ_KEY="U", TIMER_ROLL_TIMES="9"),
        )  # fmt: skip
        assert (reply.code, reply.fields["queueId"], reply.fields["queueOffset"]) == (0, "1", "0")
        waiting = records(broker, TIMER)[0]
        kept = waiting.properties
        assert kept["TIMER_OUT_MS"] == str((due - 1) // 1000 * 1000)
        assert (kept["REAL_TOPIC"], kept["REAL_QID"]) == ("t", "1")
        assert "TIMER_ROLL_TIMES" not in kept
        assert reply.fields["msgId"] == waiting.message_id
        handle = base64.urlsafe_b64decode(reply.fields["recallHandle"]).decode()
        assert handle == f"v1 t broker-a {int(kept['TIMER_OUT_MS']) + 1} U"
        await until(lambda: len(records(broker, "t", 1)) == 2)
        came = records(broker, "t", 1)[1]
        # How late it is: tests/process and bench measure that.
        assert came.store_timestamp_ms >= due
        assert (came.body, came.flag, came.born_timestamp_ms) == (b"later", 7, 123)
        added = {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
        assert came.properties.keys() - kept.keys() == added
        assert {name: came.properties[name] for name in kept} == kept
        assert due <= int(came.properties["TIMER_DEQUEUE_MS"]) <= now_ms()
        assert entries(broker, "t", 1)[1][2] == tags_code("a")
        stats = broker.core.stats()
        assert (stats["timers_delivered"], stats["timers_dropped"]) == (1, 0)


@in_loop
async def test_each_property_says_when(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        before = now_ms()
        await client.send("t", b"sec", i="TIMER_DELAY_SEC\x0120\x02TIMER_DELIVER_MS\x015\x02")
        await client.send("t", b"ms", i="TIMER_DELAY_MS\x0110250\x02TIMER_DELIVER_MS\x015\x02")
        await client.send("t", b"at", i=at(before + 20_000))
        await client.send("t", b"past", i=at(before - 5))
        await client.send("t", b"none", i="TIMER_DELAY_SEC\x010\x02")
        # A message that is due already is stored in its own topic at once.
        assert len(entries(broker, TIMER)) == 3
        driven_clock.pass_some_time(9)
        await until(lambda: len(bodies(broker)) == 4)
        driven_clock.pass_some_time(8)
        await until(lambda: len(bodies(broker)) == 6)
        waited = {each.body: each.store_timestamp_ms - before for each in records(broker, "t")}
        assert waited[b"past"] <= waited[b"none"]
        for name, asked_ms in ((b"ms", 10_250), (b"at", 20_000), (b"sec", 20_000)):
            assert waited[name] >= asked_ms


@in_loop
async def test_what_cannot_be_served_is_refused_in_apaches_words(tmp_path: Path) -> None:
    text = (
        "timer message illegal, the delay time should not be bigger than the max delay "
        "5000ms; or if set del msg, the delay time should be bigger than the current time"
    )
    async with served(tmp_path, timerMaxDelaySec="5") as (broker, client):
        await client.send("t", b"make")
        for properties in (
            "TIMER_DELAY_SEC\x016\x02",
            "TIMER_DELAY_SEC\x01soon\x02",
            "TIMER_DELAY_MS\x019223372036854775807\x02",
            at(now_ms() + 9000),
            at(now_ms() - 1, TIMER_DEL_UNIQKEY="t+U"),
        ):
            reply = await client.send("t", i=properties)
            assert (reply.code, reply.remark) == (13, text)
        broker.settings.set("timerMaxDelaySec", str(10 * 365 * 86400))
        broker.settings_changed(["timerMaxDelaySec"])
        assert (await client.send("t", i="TIMER_DELAY_SEC\x01300000000\x02")).code == 0
        # Keys of other messages, which may belong to somebody else.
        for key in ("U", "u+U", "t", "tt+U", "+t"):
            marks = at(now_ms() + 4000, TIMER_DEL_UNIQKEY=key)
            for more in ("", "TRAN_MSG\x01true\x02PGROUP\x01P\x02"):
                reply = await client.send("t", i=marks + more)
                assert (reply.code, "own topic and a +" in str(reply.remark)) == (13, True), key
        assert len(entries(broker, "t")) == 1
        assert (await client.send("t", i=f"TIMER_DEL_UNIQKEY\x01{key}\x02")).code == 0, "no timer"
    async with served(tmp_path / "off", timerWheelEnable=False) as (broker, client):
        await client.send("t", b"make")
        reply = await client.send("t", i="TIMER_DELAY_SEC\x011\x02")
        assert reply.code == 1
        assert reply.remark == ("accurate timer message is not enabled, timerWheelEnable is false")
        assert (await client.send("t", i="TIMER_OUT_MS\x011\x02TIMER_DELAY_SEC\x011\x02")).code == 0


@in_loop
async def test_thousands_come_in_the_order_of_their_times(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        start = now_ms() + HOUR_MS + 1500
        for n in range(4000):
            due = start + n * 7919 % 500
            opaque = client.post_send("t", b"%d" % due, i=at(due))
            if n % 500 == 499:
                await client.reply(opaque)
        clock.set_wall(HOUR_MS / 1000)
        await until(lambda: broker.core.queue_range(b"t", 0) == (0, 4001))
        dues = [int(body) for body in bodies(broker)[1:]]
        assert dues == sorted(dues)
        stored = [message.store_timestamp_ms for message in records(broker, "t")[1:]]
        assert all(when >= due for when, due in zip(stored, dues, strict=True))


@in_loop
async def test_what_waits_survives_a_stop_and_is_delivered_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        for n in range(200):
            await client.send("t", b"a%d" % n, i=after(0.001 * (n % 10)))
        await until(lambda: len(bodies(broker)) == 201)
        for n in range(200):
            client.post_send("t", b"b%d" % n, i=after(1.5))
        await client.send("t", b"last", i=after(1.5))
    async with live_broker(tmp_path) as broker:
        assert broker.core.stats()["timers_covers"] == 2 * 381  # 20 messages were due at once
        await until(lambda: len(bodies(broker)) == 402)
        await pass_seconds(broker.core, 0.2)
        assert len(bodies(broker)) == 402
        assert len(set(bodies(broker))) == 402


@in_loop
async def test_recalled_messages_do_not_come(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        handles = []
        due = now_ms() + 20_000
        for n in range(20):
            properties = at(due) if n % 2 else "TIMER_DELAY_SEC\x0120\x02"
            reply = await client.send("t", b"%d" % n, i=properties)
            handles.append(reply.fields["recallHandle"])
        for handle in handles[:10]:
            reply = await client.call(370, topic="t", recallHandle=handle, producerGroup="P")
            assert reply.code == 0
            assert reply.fields["msgId"] == base64.urlsafe_b64decode(handle).split()[4].decode()
        driven_clock.pass_some_time(18)
        await until(lambda: len(bodies(broker)) == 11)
        await pass_seconds(broker.core, 0.3)
        assert sorted(int(body) for body in bodies(broker)[1:]) == list(range(10, 20))
        assert broker.core.stats()["timers_recalled"] == 10


@in_loop
async def test_a_recall_that_cannot_be_is_refused_in_apaches_words(tmp_path: Path) -> None:
    def handle(*items: object) -> str:
        return base64.urlsafe_b64encode(" ".join(map(str, items)).encode()).decode()

    soon = now_ms() + 60_000
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")

        async def refusal(topic: str, text: str) -> tuple[int, Any]:
            reply = await client.call(370, topic=topic, recallHandle=text)
            return reply.code, reply.remark

        name = broker.settings.brokerName
        assert (await refusal("u", "x"))[0] == 17
        assert await refusal("t", "!!") == (604, "recall handle is invalid")
        assert await refusal("t", handle("v2", "t", name, soon, "U")) == (
            604, "recall handle is invalid")  # fmt: skip
        assert await refusal("t", handle("v1", "u", name, soon, "U")) == (
            604, "recall failed, topic not match")  # fmt: skip
        assert await refusal("t", handle("v1", "t", "b", soon, "U")) == (
            604, "recall failed, broker service not available")  # fmt: skip
        for time_ in (now_ms() - 1, now_ms() + 259_200_000 + 5000, "x"):
            assert await refusal("t", handle("v1", "t", name, time_, "U")) == (
                604, "recall failed, timestamp invalid")  # fmt: skip
        assert (await refusal("t", handle("v1", "t", name, soon, "U")))[0] == 0
        broker.settings.set("recallMessageEnable", "false")
        broker.settings_changed(["recallMessageEnable"])
        assert await refusal("t", handle("v1", "t", name, soon, "U")) == (
            16, "recall failed, operation is forbidden")  # fmt: skip


@in_loop
async def test_a_step_of_the_clock_delivers_no_delay_early_nor_late(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A message with a delay keeps its remaining time; a message with a time waits until the clock
    says that time."""
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        sent_ms = now_ms()
        await client.send("t", b"delay", i=after(1.2))
        await client.send("t", b"time", i=at(sent_ms + HOUR_MS + 2200))
        clock.set_wall(HOUR_MS / 1000)
        await until(lambda: len(bodies(broker)) == 3)
        came = {each.body: each.store_timestamp_ms - HOUR_MS - sent_ms
                for each in records(broker, "t")}  # fmt: skip
        # A delay is measured by another clock, and each clock counts whole ms.
        assert came[b"delay"] >= 1199
        assert came[b"time"] >= 2200
        sent_ms = now_ms()
        await client.send("t", b"back", i=after(7.0))
        await client.send("t", b"long", i=at(now_ms() + 5000))
        clock.set_wall(-HOUR_MS / 1000)
        await until(lambda: len(bodies(broker)) == 4)
        assert bodies(broker)[3] == b"back"
        assert records(broker, "t")[3].store_timestamp_ms + HOUR_MS - sent_ms >= 6900


@in_loop
async def test_records_that_left_memory_are_fetched_by_a_disk_reader(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with served(tmp_path, flushDiskType="SYNC_FLUSH") as (broker, client):
        due = now_ms() + HOUR_MS
        for n in range(100):
            client.post_send("t", b"%d" % n, i=at(due))
        await client.send("t", b"last", i=at(due))
        await fill_log(broker, client, "fill", 12 << 20)  # the ring of 8 MiB has moved on
    for path in (tmp_path / "commitlog").iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    async with live_broker(tmp_path) as broker:
        clock.set_wall(HOUR_MS / 1000)
        await until(lambda: broker.core.queue_range(b"t", 0) == (0, 101))
        assert bodies(broker) == [b"%d" % n for n in range(100)] + [b"last"]
        stats = broker.core.stats()
        assert (stats["timers_dropped"], stats["timers_fetches"] > 0) == (0, True)


@in_loop
async def test_a_deleted_topic_comes_back_and_holds_up_no_other(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        due = now_ms() + HOUR_MS
        await client.send("u", b"later", 3, i=at(due))
        await client.send("t", b"after", i=at(due + 1))
        assert await broker.topics.delete("u")
        clock.set_wall(HOUR_MS / 1000)
        await until(lambda: records(broker, "u", 3) and len(bodies(broker)) == 2)
        assert broker.topics.require("u").write_queues == 4
        assert broker.core.stats()["timers_dropped"] == 0


@in_loop
async def test_a_message_waits_as_long_as_its_topic_cannot_be_made(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        await client.send("u", b"later", 3, i=at(now_ms() + HOUR_MS))
        assert await broker.topics.delete("u")
        with monkeypatch.context() as patch:
            patch.setattr(broker.topics, "create", full_disk)
            clock.set_wall(HOUR_MS / 1000)
            await pass_seconds(broker.core, 20, 1.0)
        assert broker.core.stats()["timers_dropped"] == 0
        await until(lambda: records(broker, "u", 3))


@in_loop
async def test_a_message_far_off_is_stored_anew_before_its_log_file_goes(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        broker.core.set_option("timer_roll_ms", 1000)
        await client.send("t", b"make")
        due = now_ms() + 5000
        await client.send("t", b"far", i=at(due))
        await until(lambda: len(bodies(broker)) == 2)
        waiting: list[StoredMessage] = records(broker, TIMER)
        assert len(waiting) >= 3
        for times, (before, again) in enumerate(itertools.pairwise(waiting), 1):
            # The last wait is half as long.
            assert again.store_timestamp_ms - before.store_timestamp_ms >= 500
            assert again.properties["TIMER_ROLL_TIMES"] == str(times)
            assert again.properties["TIMER_OUT_MS"] == before.properties["TIMER_OUT_MS"]
            assert (again.body, again.properties["REAL_TOPIC"]) == (b"far", "t")
        came = records(broker, "t")[1]
        assert came.store_timestamp_ms >= due
        rolled = len(waiting) - 1
        assert came.properties["TIMER_ROLL_TIMES"] == str(rolled)
        assert broker.core.stats()["timers_rolled"] == rolled


@in_loop
async def test_a_committed_transaction_may_be_timed(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        due = now_ms() + 5000
        reply = await client.send(
            "t", b"half", f=4, i=at(due, TRAN_MSG="true", PGROUP="P", UNIQ_KEY="U")
        )
        assert "recallHandle" not in reply.fields
        assert len(records(broker, TIMER)) == 0
        ended = await client.call(
            37, producerGroup="P", tranStateTableOffset=reply.fields["queueOffset"],
            commitLogOffset=int(reply.fields["msgId"][-16:], 16), commitOrRollback=8,
            fromTransactionCheck=False, msgId="U", transactionId="U",
        )  # fmt: skip
        assert ended.code == 0
        await until(lambda: len(bodies(broker)) == 2)
        came = records(broker, "t")[1]
        assert came.store_timestamp_ms >= due
        assert came.sys_flag & 0xC == 8


@in_loop
async def test_a_store_of_apache_goes_on_by_its_own_check_file(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """Apache's entries have hashes as tag codes, and TIMER_OUT_MS in whole seconds."""
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        second = now_ms() // 1000 * 1000
        for n, out in enumerate((second - 9000, second - 8000, second + HOUR_MS)):
            properties = encode_properties({
                "TIMER_OUT_MS": str(out), "TIMER_DELIVER_MS": str(out + 345),
                "REAL_TOPIC": "t", "REAL_QID": "0", "UNIQ_KEY": str(n),
            })  # fmt: skip
            broker.core.append(
                TIMER.encode(), 0, b"%d" % n, properties, 0, 0, out, b"\x7f\0\0\1\0\0\0\1", 0, 0
            )
        await until(lambda: len(bodies(broker)) == 3)  # two are long overdue
    for path in (tmp_path / "rmqTimers").rglob("*"):
        if path.is_file():
            path.unlink()
    numbers = [second - 8000, 0, 3, 0, 0, 0, 0]
    (tmp_path / "config" / "timercheck").write_bytes(
        b"".join(number.to_bytes(8, "big") for number in numbers)
    )
    async with live_broker(tmp_path) as broker:
        await until(lambda: len(bodies(broker)) == 4)
        clock.set_wall(HOUR_MS / 1000)
        await until(lambda: len(bodies(broker)) == 5)
        assert bodies(broker)[3:] == [b"1", b"2"]  # Apache had delivered the slot of message 0
        assert records(broker, "t")[4].store_timestamp_ms >= second + 345


@in_loop
async def test_what_apache_delivered_between_two_runs_is_not_delivered_again(
    tmp_path: Path,
) -> None:
    """Apache's check file is then beyond rmq's position, and Apache's wheel exists. A check file of
    rmq is never beyond its position; one without a wheel, or with a time days ahead, is damaged."""
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        await client.send("t", b"0", i=after(0.1))
        await client.send("t", b"1", i=after(6))
        due = now_ms() + 6000
        await client.send("t", b"2", i=after(14))
        await until(lambda: len(bodies(broker)) == 2)
    check = tmp_path / "config" / "timercheck"
    numbers = [int.from_bytes(check.read_bytes()[at : at + 8], "big") for at in range(0, 56, 8)]
    second = (max(now_ms(), due) + 1999) // 1000 * 1000
    numbers[0], numbers[2] = second, 3  # Apache has delivered message 1, and has 2 in its wheel
    check.write_bytes(b"".join(number.to_bytes(8, "big") for number in numbers))
    (tmp_path / "timerwheel").write_bytes(bytes(1024))
    driven_clock.pass_some_time(max(0, second - now_ms()) / 1000)
    async with live_broker(tmp_path) as broker:
        await until(lambda: b"2" in bodies(broker))
        await pass_seconds(broker.core, 0.2)
        assert bodies(broker) == [b"make", b"0", b"2"]


@pytest.mark.parametrize("wheel", [False, True])
@in_loop
async def test_a_flipped_bit_in_the_check_file_loses_no_timed_message(
    tmp_path: Path, wheel: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The file has no checksum; if it were taken for Apache's, every waiting message would be taken
    for delivered."""
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        await client.send("t", b"0", i=after(2))
    check = tmp_path / "config" / "timercheck"
    data = bytearray(check.read_bytes())
    data[2] ^= 0x40  # in the bytes of the time, which is then years ahead
    check.write_bytes(data)
    if wheel:
        (tmp_path / "timerwheel").write_bytes(bytes(1024))
    async with live_broker(tmp_path) as broker:
        await until(lambda: bodies(broker) == [b"make", b"0"])
    assert wheel == (f"{check} is damaged and not used" in caplog.text)


async def client_sees_a_new_one(broker: Broker) -> None:
    """Waits for a new timed message: then everything that was due before it has come."""
    async with BrokerClient(broker.core.port) as client:
        await client.send("t", b"new", i=after(0.3))
    await until(lambda: b"new" in bodies(broker))


@pytest.mark.parametrize("length", [0, 50, 100, 512, 1024, 4096])
@pytest.mark.parametrize("how", ["zeroed up to", "cut at"])
@in_loop
async def test_a_damaged_position_repeats_nothing_while_a_copy_is_whole(
    tmp_path: Path, how: str, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        for n in range(5):
            await client.send("t", b"%d" % n, i=after(0.1))
        await until(lambda: len(bodies(broker)) == 6)
        position = tmp_path / "rmqTimers" / "position"
        data = position.read_bytes()  # as it is after a kill
    (tmp_path / "config" / "timercheck").unlink()
    position.write_bytes(data[:length] if how == "cut at" else bytes(length) + data[length:])
    whole = length >= 100 or how == "zeroed up to"  # a slot uses 88 bytes
    async with live_broker(tmp_path) as broker:
        await client_sees_a_new_one(broker)
        assert not whole or len(bodies(broker)) == 7
    if (how == "zeroed up to" and length) or not whole:
        assert f"{position} is damaged" in caplog.text


def log_ends(position: Path) -> list[int]:
    """The log offsets that the slots of the file need (timer_position.pyx)."""
    data = position.read_bytes()
    slots = [data[at : at + 88] for at in (0, 512, 4096)]
    return [int.from_bytes(slot[56:64], "big") for slot in slots if any(slot)]


@in_loop
async def test_a_position_beyond_the_log_does_not_count_when_the_log_has_grown(
    tmp_path: Path,
) -> None:
    """A power cut took the deliveries to which the position refers."""
    live, cut = tmp_path / "live", tmp_path / "cut"
    position = Path("rmqTimers", "position")
    async with served(live) as (broker, client):
        await client.send("t", b"make")
        await client.send("t", b"timed", i=after(0.1))
        copy_store(live, cut)
        end = broker.core.log_range()[1]
        await until(lambda: len(bodies(broker)) == 2)
        await until(lambda: max(log_ends(live / position)) > end)
        shutil.copy(live / position, cut / position)
    _, core = open_core(cut)
    core.start()
    core.stop()
    assert max(log_ends(cut / position), default=0) <= end
    async with live_broker(cut) as broker:
        await until(lambda: bodies(broker) == [b"make", b"timed"])


@in_loop
async def test_what_was_delivered_into_a_store_pool_comes_after_a_kill(tmp_path: Path) -> None:
    live, killed = tmp_path / "live", tmp_path / "killed"
    async with served(live, **POOL) as (broker, client):
        stats = broker.core.stats
        await client.send("t", b"make")
        await client.send("t", b"timed", i=after(5))
        for _ in range(5):  # until the committer must write
            await client.send("t", bytes(900_000))
        await until(lambda: len(entries(broker, TIMER)) == 1, still=True)
        await pass_seconds(broker.core, 6)
        await until(lambda: stats()["timers_delivered"] == 1, still=True)
        await pass_seconds(broker.core, 0.1)  # the position is written in that turn
        copy_store(live, killed)
        assert b"timed" not in bodies(broker), "the committer has written it"
        # Now the committer must write: a stop would wait for a minute until it does.
        for _ in range(5):
            await client.send("t", bytes(900_000))
        await until(lambda: b"timed" in bodies(broker), still=True)
    async with live_broker(killed, mappedFileSizeCommitLog=16 << 20) as broker:
        await until(lambda: b"timed" in bodies(broker))


@in_loop
async def test_a_binary_client_is_served_alike(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path) as broker,
        BrokerClient(broker.core.port, serialize_type=1) as client,
    ):
        await client.send("t", b"make")
        reply = await client.send("t", b"x", i=after(0.2, UNIQ_KEY="U"))
        assert base64.urlsafe_b64decode(reply.fields["recallHandle"]).startswith(b"v1 t broker-a ")
        await until(lambda: len(bodies(broker)) == 2)


@in_loop
async def test_a_stop_tells_apache_the_oldest_that_waits(tmp_path: Path) -> None:
    check = tmp_path / "config" / "timercheck"

    def numbers() -> list[int]:
        data = check.read_bytes()
        assert len(data) == 56
        return [int.from_bytes(data[at : at + 8], "big") for at in range(0, 56, 8)]

    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        for n in range(20):
            await client.send("t", b"%d" % n, i=after(600 if n == 13 else 0.1))
        await until(lambda: len(bodies(broker)) == 20)
        (tmp_path / "timerlog").mkdir()
        (tmp_path / "timerlog" / "0").write_bytes(b"old")
        (tmp_path / "timerwheel").write_bytes(b"old")
        last = records(broker, "t")[-1].store_timestamp_ms
    fired, _, offset, of_master, *_ = numbers()
    assert (offset, of_master) == (13, 13)
    assert last - 2000 < fired <= last
    assert fired % 1000 == 0
    assert not (tmp_path / "timerlog").exists()
    assert not (tmp_path / "timerwheel").exists()
    async with live_broker(tmp_path / "empty") as broker:
        await pass_seconds(broker.core, 0.1)
    check = tmp_path / "empty" / "config" / "timercheck"
    assert numbers()[2:4] == [0, 0]


@in_loop
async def test_a_damaged_file_of_timers_is_made_anew_from_the_queue(
    clock: DrivenClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker's housekeeping makes them anew; how long the file is seen to be broken depends on
    both."""
    due = now_ms() + HOUR_MS
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        for n in range(1500):
            client.post_send("t", b"%d" % n, i=at(due + n))
        await client.send("t", b"last", i=at(due + 1500))
    (run,) = (tmp_path / "rmqTimers" / "wall").glob("*.run")
    data = bytearray(run.read_bytes())
    assert len(data) == 24 * 1501
    data[24 * 1200] ^= 0x10  # a flipped bit: a fixed value might be there already
    run.write_bytes(data)
    async with live_broker(tmp_path) as broker:
        clock.set_wall((HOUR_MS + 1500) / 1000)
        await until(lambda: broker.core.queue_range(b"t", 0) == (0, 1502))
        assert caplog.text.count("a file of timers is damaged: all are made anew") == 1
        assert broker.core.stats()["timers_broken"] == 0
        await pass_seconds(broker.core, 0.2)
        assert bodies(broker)[1:] == [b"%d" % n for n in range(1500)] + [b"last"]


@in_loop
async def test_what_the_log_has_become_too_small_for_is_passed_with_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = bytes(3 << 20)
    due = now_ms() + 5000
    async with served(tmp_path, rmqRingBytes=16 << 20, maxMessageSize=4 << 20) as (_, client):
        await client.send("t", b"make")
        for body in (large, b"small"):
            assert (await client.send("t", body, i="DELAY\x012\x02")).code == 0  # level 2 is 5 s
            assert (await client.send("t", body, i=at(due))).code == 0
    async with live_broker(tmp_path, rmqRingBytes=4 << 20) as broker:
        await until(lambda: len(bodies(broker)) == 3)
        assert bodies(broker) == [b"make", b"small", b"small"]
        stats = broker.core.stats()
        assert (stats["timers_dropped"], stats["delayed_dropped"]) == (1, 1)
    assert caplog.text.count("is passed: it is larger than the log takes by now") == 2


@in_loop
async def test_a_store_with_timed_messages_that_have_tags_is_sound(tmp_path: Path) -> None:
    """The queue of timed messages has due times where other queues have tag codes."""
    async with served(tmp_path) as (_, client):
        assert (await client.send("t", b"later", i=after(60, TAGS="a"))).code == 0
    assert check_store(tmp_path, strict=True).problems == []
