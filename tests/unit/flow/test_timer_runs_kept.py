"""The files of timers stay until what was delivered of them is on the disk.

A power cut takes back what the log has not synced, deliveries too; the timed messages behind them
have long been on the disk, and the log of their queue is not read again from where they are.
"""

import shutil
from pathlib import Path

import pytest
from support import driven_clock
from support.live_broker import live_broker, records, served
from support.name_server import in_loop
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.format.message import encode_properties

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

NEVER_MS = 1_000_000_000
# Nobody syncs the log but the test.
SETTINGS = {
    "flushIntervalCommitLog": NEVER_MS, "flushCommitLogThoroughInterval": NEVER_MS,
    "flushConsumerOffsetInterval": NEVER_MS, "flushDelayOffsetInterval": NEVER_MS,
}  # fmt: skip
SEAL_S = 61  # what was fed is in a file after a minute


def bodies(broker: Broker) -> list[bytes]:
    return [message.body for message in records(broker, "t")]


def runs(broker: Broker) -> int:
    return int(broker.core.stats()["timers_runs"])


def copy_as_cut(live: Path, cut: Path, log_end: int) -> None:
    """As after a power cut: the log ends where it was synced."""
    shutil.copytree(live, cut, ignore=shutil.ignore_patterns("*.tmp", "*.new"))
    (segment,) = (path for path in (cut / "commitlog").iterdir() if int(path.name) == 0)
    with segment.open("r+b") as file:
        file.seek(log_end)
        file.write(bytes(1 << 20))


async def delivered_and_cut(live: Path, cut: Path) -> bool:
    """Whether the log was cut before the delivery: a barrier of the queues may have synced it."""
    async with served(live, **SETTINGS) as (broker, client):
        await client.send("t", b"make")
        due_ms = (int(clock.wall()) + 90) * 1000
        timed = encode_properties({"TIMER_DELIVER_MS": str(due_ms)}).decode()
        await client.send("t", b"timed", i=timed)
        driven_clock.pass_some_time(SEAL_S)
        broker.core.sync_log()
        await until(lambda: runs(broker) == 1, still=True)
        durable = broker.core.stats()["log_durable"]
        while int(clock.wall() * 1000) < due_ms + 300:
            await pass_seconds(broker.core, 1)
        await until(lambda: bodies(broker) == [b"make", b"timed"])
        for _ in range(20):  # the keeper looks each second, as time passes
            await pass_seconds(broker.core, 0.5)
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
