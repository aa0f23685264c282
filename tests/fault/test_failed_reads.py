"""Goal: what is due while the disk cannot be read comes as soon as it can be read: a delayed and a
timed message, one that was popped and not acknowledged, the check back of an open transaction. A
sector that is lost for good holds up only its own delay level, its own revive queue or the feed of
the timers.

Method: a whole broker behind the fault shim, on a clock that the test drives. Everything stored is
only on the disk, and every read of the log fails, or every read of a certain byte. All of it comes
due, then the disk works again. How often the reactor turns is seen by the machine's clock, in a
shard of its own. Cannot prove: how long a real disk tries before it gives up.
"""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import broker_process
from support.driven_clock import DrivenClock, process_clock
from support.faults import Faults
from support.faulty_shard import Start
from support.name_server import in_loop
from support.page_cache import drop_from_page_cache, drop_page_cache, is_cached
from support.popping import pop
from support.shard import send
from support.waiting import until, wait_until

from rmq.format import fastjson
from rmq.format.message import decode_message, decode_message_id

MIB = 1 << 20
BODY_BYTES = 50_000
DUE_S = 60
SETTINGS = {
    "rmqRingBytes": 4 * MIB, "maxMessageSize": MIB, "mappedFileSizeCommitLog": 64 * MIB,
    # An index that is behind would bring pages of the log back into memory.
    "messageIndexEnable": "false",
}  # fmt: skip
OPTIONS = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
HALF = 4  # TRANSACTION_PREPARED_TYPE of sysFlag
APART_BYTES = 2 * MIB  # for a record so far behind another one the kernel does not read ahead
IN_RECORD = 100  # the number of a byte in the record


async def end_of(client: BrokerClient, topic: str) -> int:
    return int((await client.call(30, topic=topic, queueId=0)).fields["offset"])


def watched(clock: DrivenClock, condition: Callable[[], object]) -> Callable[[], object]:
    """The same condition for a clock that stands still: no time passes while it is checked."""

    def look() -> object:
        clock.advance(0)
        return condition()

    return look


async def fill(client: BrokerClient, clock: DrivenClock, size: int) -> None:
    for _ in range(size // 100_000):
        assert (await client.send("filler", bytes(100_000))).code == 0
        clock.advance(0)  # no time passes, as in watched()


async def store_all(client: BrokerClient, born_ms: int) -> None:
    """A message of each kind, and so many other messages behind them that the broker has them no
    longer in memory."""
    body = bytes(BODY_BYTES)
    for properties, flags in (
        ("DELAY\x015\x02", 0),  # delay level 5 is a minute
        (f"TIMER_DELAY_SEC\x01{DUE_S}\x02", 0),
        ("TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02", HALF),
    ):
        assert (await client.send("t", body, i=properties, f=flags, g=born_ms)).code == 0
    assert (await client.send("p", body)).code == 0
    assert (await client.heartbeat("g", "p")).code == 0
    assert len(await pop(client, "g", "p", invisibleTime=DUE_S * 1000)) == 1
    for _ in range(80):
        assert (await client.send("filler", bytes(100_000))).code == 0


def is_on_disk_alone(log: Path, length: int = 4 * BODY_BYTES) -> bool:
    """Whether the first bytes of the log are only on the disk."""
    drop_page_cache(log)
    return not is_cached(min(log.iterdir()), length)


async def become_producer(client: BrokerClient) -> None:
    body = {"clientID": client.client_id, "consumerDataSet": [],
            "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
    assert (await client.call(34, fastjson.dumps(body))).code == 0


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOMEM])
def test_what_is_due_while_the_disk_cannot_be_read_comes_when_it_can(
    tmp_path: Path, faults: Faults, error: int
) -> None:
    @in_loop
    async def run(clock: DrivenClock, port: int, store: Path) -> None:
        async with BrokerClient(port) as client:
            for topic in ("t", "filler"):
                assert (await client.send(topic, b"make")).code == 0
            await become_producer(client)
            await store_all(client, clock.now_ms())
            await until(lambda: is_on_disk_alone(store / "commitlog"))
            faults.fail("pread", error, path="commitlog/")
            clock.advance(DUE_S + 1)
            await until(lambda: faults.hits(0) > 20)  # each was tried more than once
            assert await end_of(client, "t") == 1
            faults.clear()
            await until(lambda: is_there(client), still=True)
            question = await client.asked(39)
            assert decode_message(question.body)[0].properties["UNIQ_KEY"] == "U"

    async def is_there(client: BrokerClient) -> bool:
        return await end_of(client, "t") == 3 and len(await pop(client, "g", "p")) == 1

    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path, OPTIONS, {**clock.environment, **faults.environment()}) as broker,
    ):
        run(clock, broker.port, broker.store)
        broker.logged("the disk could not be read [0-9]+ times")
        assert " is passed: " not in broker.log()
        assert "does not come again" not in broker.log()


def test_a_lost_sector_of_one_revive_queue_holds_no_other(tmp_path: Path, faults: Faults) -> None:
    @in_loop
    async def run(clock: DrivenClock, port: int, store: Path) -> None:
        async with BrokerClient(port) as client:
            for topic in ("p", "q", "filler"):
                assert (await client.send(topic, b"make")).code == 0
            assert (await client.heartbeat("g", "p", "q")).code == 0
            popped = {}
            for topic in ("p", "q"):
                assert len(await pop(client, "g", topic, invisibleTime=DUE_S * 60_000)) == 1
                assert (await client.send(topic, bytes(BODY_BYTES))).code == 0
                # The pop takes it from the broker's memory, because a mapped page cannot be
                # dropped.
                (one,) = await pop(client, "g", topic, invisibleTime=DUE_S * 1000)
                revive_queue = int(one.extra.split(" ")[3])
                popped[revive_queue] = topic, one.message.physical_offset
                await fill(client, clock, APART_BYTES)
            (_, (lost, place)), (_, (other, _)) = sorted(popped.items())
            await fill(client, clock, 8 * MIB)
            await until(lambda: is_on_disk_alone(store / "commitlog", 3 * MIB))
            faults.lose(place + IN_RECORD, path="commitlog/")
            clock.advance(DUE_S + 1)
            await until(lambda: faults.hits(0) > 1)
            await until(lambda: comes_again(client, other), still=True)
            assert not await comes_again(client, lost)
            faults.clear()
            await until(lambda: comes_again(client, lost), still=True)

    async def comes_again(client: BrokerClient, topic: str) -> bool:
        return len(await pop(client, "g", topic)) == 1

    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path, OPTIONS, {**clock.environment, **faults.environment()}) as broker,
    ):
        run(clock, broker.port, broker.store)
        assert "does not come again" not in broker.log()


def test_a_lost_sector_of_one_delay_level_holds_no_other(tmp_path: Path, faults: Faults) -> None:
    """The other level comes due just after the disk has failed. Hardly any time passes then, so
    that it comes before the lost sector is read again."""

    @in_loop
    async def run(clock: DrivenClock, port: int, store: Path) -> None:
        async with BrokerClient(port) as client:
            for topic in ("t", "u", "filler"):
                assert (await client.send(topic, b"make")).code == 0
            body = bytes(BODY_BYTES)
            minute = await client.send("t", body, i="DELAY\x015\x02")
            clock.advance(30.01)
            await fill(client, clock, APART_BYTES)
            half_minute = await client.send("u", body, i="DELAY\x014\x02")
            assert (minute.code, half_minute.code) == (0, 0)
            await fill(client, clock, 8 * MIB)
            await until(watched(clock, lambda: is_on_disk_alone(store / "commitlog", 3 * MIB)))
            _, place = decode_message_id(minute.fields["msgId"])
            faults.lose(place + IN_RECORD, path="commitlog/")
            clock.advance(29.991)  # 9 ms before the other level is due
            await until(watched(clock, lambda: faults.hits(0) == 1))
            await until(lambda: is_there(client, clock), still=True)
            assert faults.hits(0) == 1
            assert await end_of(client, "t") == 1
            with clock.passing():
                await until(lambda: faults.hits(0) > 1)
                faults.clear()
                await until(lambda: has_two(client, "t"), still=True)

    async def is_there(client: BrokerClient, clock: DrivenClock) -> bool:
        clock.advance(0.0002)
        return await has_two(client, "u")

    async def has_two(client: BrokerClient, topic: str) -> bool:
        return await end_of(client, topic) == 2

    with (
        process_clock(tmp_path) as clock,
        clock.standing_still(),
        broker_process(tmp_path, OPTIONS, {**clock.environment, **faults.environment()}) as broker,
    ):
        run(clock, broker.port, broker.store)
        with clock.passing():
            assert broker.stop() == 0
        assert " is passed: " not in broker.log()


def test_the_reactor_sleeps_while_timers_wait_for_a_lost_sector(
    start: Start, faults: Faults, tmp_path: Path
) -> None:
    options = {"ring_bytes": MIB, "record_max_bytes": MIB // 2, "index_dir": "", "timed": True}
    worker = start(**options)
    client = worker.connect()
    for number in range(40):
        marks = "TIMER_DELAY_SEC\x013600\x02" if number == 20 else ""
        reply = client.ask(send("t", bytes(100_000), number, i=marks))
        assert reply.code == 0
        if marks:
            _, place = decode_message_id(reply.fields["msgId"])
    assert worker.stop() == 0
    store = tmp_path / "store"
    shutil.rmtree(store / "rmqTimers")  # so that timed messages are read again
    drop_from_page_cache(store / "commitlog")
    # With its name, because the next file exists, too.
    faults.lose(place + IN_RECORD, path=f"commitlog/{0:020}")
    worker = start(**options)
    wait_until(lambda: faults.hits(0) >= 2)
    hits, turns = faults.hits(0), worker.ask("stats")["turns"]
    wait_until(lambda: faults.hits(0) >= hits + 5)
    # The disk is asked ten times a second; with a turn each millisecond there would be a hundred
    # turns for each.
    assert worker.ask("stats")["turns"] - turns < 30 * (faults.hits(0) - hits)
    assert worker.ask("stats")["timers_fed"] == 0
    faults.clear()
    worker.until(lambda stats: stats["timers_fed"] == 1)
