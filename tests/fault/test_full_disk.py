"""Goal: a full disk stops sends with RocketMQ's code and text, and nothing else. They go on by
themselves within two seconds after there is room, without a restart, and nothing acknowledged is
lost.

Method: a broker process whose store is on a tmpfs of 48 MiB, which another file fills. Clients
write down every ack. Cannot prove: file systems that allocate late (the log never does: it
allocates whole files ahead, or in pieces the file with which a start goes on).
"""

import asyncio
import itertools
import signal

import pytest
from support.ack_history import IDENTITY, AckHistory, Load
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.calm_clock import calm_seconds
from support.small_disk import MIB, SmallDisk
from support.waiting import HANG_S, until, until_is, wait_until

from rmq.offline.checker import check_store

SETTINGS = [
    "--set", "mappedFileSizeCommitLog=1048576",
    "--set", f"mappedFileSizeConsumeQueue={20 * 400}",
    "--set", "flushConsumerOffsetInterval=100",
]  # fmt: skip
KEEP_OLD = ["--set", "cleanFileForciblyEnable=false"]
NUMBERS = itertools.count()
LARGE = bytes(100_000)
TEXT = "service not available now: the broker's disk is full"


async def load_until_refused(broker: BrokerProcess, journal: AckHistory, number: int) -> None:
    refused = len(journal.refused)
    async with Load(broker.port, journal, number, producers=3):
        await until(lambda: any(reply.code == 14 for reply in journal.refused[refused:]))


async def seconds_until_taken(broker: BrokerProcess) -> float:
    """How long a producer that tries again and again waits for its first ack, without the time for
    which processes wait for a processor."""
    began = calm_seconds()
    async with BrokerClient(broker.port) as client:
        await until_is(
            lambda: client.send("load-a", IDENTITY.pack(99, 0, next(NUMBERS))),
            lambda reply: reply.code == 0,
        )
    return calm_seconds() - began


@pytest.mark.parametrize("leave", [3 * MIB, 64 << 10], ids=["nearly full", "not a byte left"])
def test_sends_stop_on_a_full_disk_and_resume_when_it_has_room(
    small_disk: SmallDisk, leave: int
) -> None:
    journal = AckHistory()
    with broker_process(small_disk.path, [*SETTINGS, *KEEP_OLD]) as broker:

        async def run() -> None:
            async with Load(broker.port, journal, 1, producers=3):
                await until(lambda: len(journal.acked) >= 200)
            small_disk.fill(leave)
            await load_until_refused(broker, journal, 2)
            assert {reply.code for reply in journal.refused} <= {14, 2}
            assert any(TEXT in reply.remark for reply in journal.refused if reply.code == 14)
            await journal.check(broker.port, whole=True)
            small_disk.free()
            assert await seconds_until_taken(broker) < 10
            await journal.check(broker.port, whole=True)

        asyncio.run(run())
        assert broker.logged("the broker's disk is full|cannot be made")
        assert broker.stop() == 0
    assert not check_store(broker.store, strict=True).problems
    with broker_process(small_disk.path, SETTINGS) as broker:
        asyncio.run(journal.check(broker.port, whole=True))


def test_old_log_files_make_room_when_they_may_be_deleted(small_disk: SmallDisk) -> None:
    journal = AckHistory()
    with broker_process(small_disk.path, SETTINGS) as broker:

        async def run() -> None:
            async with Load(broker.port, journal, 1, producers=3):
                await until(lambda: len(journal.acked) >= 200)
            async with BrokerClient(broker.port) as client:  # fills the old files with few messages
                while len(list((broker.store / "commitlog").iterdir())) < 20:
                    await client.send("large", LARGE)
            small_disk.fill(2 * MIB)
            await load_until_refused(broker, journal, 2)
            assert await seconds_until_taken(broker) < 20
            async with BrokerClient(broker.port) as client:
                # Queue files are deleted after the log files, and it must be known first that there
                # is room.
                await until_is(
                    lambda: client.call(31, topic="load-a", queueId=0),
                    lambda reply: int(reply.fields["offset"]) > 0,
                )

        asyncio.run(asyncio.wait_for(run(), HANG_S))
        assert broker.logged(r"\d+ segments of the commit log deleted \(whatever their age")
        small_disk.free()  # a stop needs room for queue files, too
        assert broker.stop() == 0
    assert not check_store(broker.store, strict=True).problems


def test_a_start_on_a_full_disk_serves_what_is_there(small_disk: SmallDisk) -> None:
    journal = AckHistory()
    with broker_process(small_disk.path, [*SETTINGS, *KEEP_OLD]) as broker:

        async def some() -> None:
            async with Load(broker.port, journal, 1, producers=3):
                await until(lambda: len(journal.acked) >= 200)

        asyncio.run(some())
        assert broker.stop() == 0
    small_disk.fill(0)
    with broker_process(small_disk.path, [*SETTINGS, *KEEP_OLD]) as broker:

        async def run() -> None:
            await journal.check(broker.port, whole=True)
            small_disk.free()
            assert await seconds_until_taken(broker) < 10

        asyncio.run(run())


def test_a_log_file_larger_than_the_disk_takes_what_there_is(small_disk: SmallDisk) -> None:
    """Files of 1 GiB, the default, on a disk of 48 MiB: the log uses the room that there is."""
    body = bytes(1 << 19)
    acked = 0

    async def send_until_refused(broker: BrokerProcess) -> str:
        nonlocal acked
        async with BrokerClient(broker.port) as client:
            while (reply := await client.send("large", body)).code == 0:
                acked += 1
            while reply.code == 2:  # until the preparer has tried
                reply = await client.send("large", body)
                acked += reply.code == 0
            assert reply.code == 14
            return reply.remark or ""

    async def readable(broker: BrokerProcess) -> int:
        async with BrokerClient(broker.port) as client:
            await client.heartbeat("readers", "large")
            for number in range(acked):
                first = (await client.pulled("readers", "large", offset=number))[0]
                assert (first.queue_offset, first.body) == (number, body)
            return int((await client.call(30, topic="large", queueId=0)).fields["offset"])

    with broker_process(small_disk.path) as broker:
        remark = asyncio.run(send_until_refused(broker))
        assert TEXT in remark
        assert acked > 24, "a third of the disk is not used"
        wait_until(lambda: "gets no more room: No space left" in broker.log())
        assert "poisoned" not in broker.log()
        assert asyncio.run(readable(broker)) == acked
        broker.stop(signal.SIGKILL)
    with broker_process(small_disk.path) as broker:
        assert asyncio.run(readable(broker)) == acked
        asyncio.run(send_until_refused(broker))
        assert asyncio.run(readable(broker)) == acked
        assert "poisoned" not in broker.log()
        assert broker.stop() == 0
