"""The files of timers stay until everything that was delivered from them is on the disk, and they
have every recall that was passed until then.

A power cut takes back what the log has not synced, deliveries included. The timed messages behind
these deliveries are on the disk for long, and their queue is not read again from their places on.
"""

import shutil
import struct
from pathlib import Path

import pytest
from support import driven_clock
from support.live_broker import entries, live_broker, records, served
from support.name_server import in_loop
from support.store_copies import copy_store
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.format.message import encode_properties

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

TIMER = "rmq_sys_wheel_timer"
NEVER_MS = 1_000_000_000
# Only the test syncs the log.
SETTINGS = {
    "flushIntervalCommitLog": NEVER_MS, "flushCommitLogThoroughInterval": NEVER_MS,
    "flushConsumerOffsetInterval": NEVER_MS, "flushDelayOffsetInterval": NEVER_MS,
}  # fmt: skip
SEAL_S = 61  # what was fed is sealed into a file after a minute
RUN_ENTRY = struct.Struct("<qqiI")  # due_ms, place, size, check


def timed(due_ms: int, **more: str) -> str:
    return encode_properties({"TIMER_DELIVER_MS": str(due_ms), **more}).decode()


def bodies(broker: Broker) -> list[bytes]:
    return [message.body for message in records(broker, "t")]


def runs(broker: Broker) -> int:
    return int(broker.core.stats()["timers_runs"])


def copy_as_cut(live: Path, cut: Path, log_end: int) -> None:
    """Copies the store as a power cut leaves it: the log ends where it was synced."""
    copy_store(live, cut, ignore=shutil.ignore_patterns("*.tmp", "*.new", "*.pinned"))
    (segment,) = (path for path in (cut / "commitlog").iterdir() if int(path.name) == 0)
    with segment.open("r+b") as file:
        file.seek(log_end)
        file.write(bytes(1 << 20))


async def delivered_and_cut(live: Path, cut: Path) -> bool:
    """Whether the log was cut before the delivery. False: the queues' barrier has synced the log
    meanwhile."""
    async with served(live, **SETTINGS) as (broker, client):
        await client.send("t", b"make")
        due_ms = (int(clock.wall()) + 90) * 1000
        await client.send("t", b"timed", i=timed(due_ms))
        driven_clock.pass_some_time(SEAL_S)
        broker.core.sync_log()
        await until(lambda: runs(broker) == 1, still=True)
        durable = broker.core.stats()["log_durable"]
        while int(clock.wall() * 1000) < due_ms + 300:
            await pass_seconds(broker.core, 1, 1.0)
        await until(lambda: bodies(broker) == [b"make", b"timed"])
        for _ in range(20):  # the keeper looks each second of the driven clock
            await pass_seconds(broker.core, 0.5, 0.5)
        kept = runs(broker)
        if broker.core.stats()["log_durable"] != durable:
            return False
        assert kept == 1
        copy_as_cut(live, cut, durable)
        broker.core.sync_log()
        await until(lambda: runs(broker) == 0)
        return True


@in_loop
async def test_a_run_goes_when_its_deliveries_are_on_the_disk(tmp_path: Path) -> None:
    for number in range(10):
        cut = tmp_path / f"cut-{number}"
        if await delivered_and_cut(tmp_path / f"live-{number}", cut):
            async with live_broker(cut) as broker:
                await until(lambda broker=broker: bodies(broker) == [b"make", b"timed"])
            return
    raise AssertionError("somebody synced the log each time")


def places_in_runs(directory: Path) -> set[int]:
    """The places of deletions in the run files; the place of a message has one more bit."""
    found = set()
    for path in (directory / "rmqTimers" / "wall").glob("*.run"):
        data = path.read_bytes()
        whole = len(data) - len(data) % RUN_ENTRY.size  # the last entry may be half written
        found |= {place for _, place, _, _ in RUN_ENTRY.iter_unpack(data[:whole])}
    return found


async def passed_recall_is_sealed(directory: Path, others: int) -> bool:
    """Whether the recall is in a run file. False: somebody synced the log meanwhile, so the recall
    need not be kept. So many `others` are recalled after it; 600 are more than the table has room
    for at first."""
    async with served(directory, recallMessageEnable=True, **SETTINGS) as (broker, client):
        await client.send("t", b"make")
        due_ms = (int(clock.wall()) + 90) * 1000
        sent = await client.send("t", b"recalled", i=timed(due_ms, UNIQ_KEY="U"))
        await client.send("t", b"other", i=timed(due_ms - 700))
        driven_clock.pass_some_time(SEAL_S)
        broker.core.sync_log()
        await until(lambda: runs(broker) == 1, still=True)
        handle = sent.fields["recallHandle"]
        assert (await client.call(370, producerGroup="P", topic="t", recallHandle=handle)).code == 0
        await until(lambda: len(entries(broker, TIMER)) == 3, still=True)
        recall = entries(broker, TIMER)[2][0]
        broker.core.sync_log()
        durable = broker.core.stats()["log_durable"]
        while int(clock.wall() * 1000) < due_ms + 3300:
            await pass_seconds(broker.core, 1, 1.0)
        assert bodies(broker) == [b"make", b"other"]
        assert broker.core.stats()["timers_recalled"] == 1
        soon_ms = int(clock.wall() + 2) * 1000
        for number in range(others):
            deletion = timed(soon_ms, TIMER_DEL_UNIQKEY=f"t+{number}")
            assert (await client.send("t", b"x", i=deletion)).code == 0
        await pass_seconds(broker.core, 3)
        driven_clock.pass_some_time(SEAL_S)
        for _ in range(40):
            if recall in places_in_runs(directory):
                return True
            await pass_seconds(broker.core, 0.5)
        assert broker.core.stats()["log_durable"] != durable, "a passed recall is in no file"
        return False


@pytest.mark.parametrize("others", [0, 600])
@in_loop
async def test_a_recall_is_in_a_file_when_its_message_may_come_again(
    tmp_path: Path, others: int
) -> None:
    """A recall that is passed but not on the disk yet is passed once more after a power cut."""
    for number in range(10):
        if await passed_recall_is_sealed(tmp_path / f"live-{number}", others):
            return
    raise AssertionError("somebody synced the log each time")
