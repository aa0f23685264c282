"""Goal: if a sync of the timers' position fails it is made good later, and the files of timers go
on.

Method: a whole broker behind the fault shim, on a clock that the test drives; one fdatasync of the
position, which both keepers share, fails. Cannot prove: what a real disk has lost of the file.
"""

import errno
from pathlib import Path

from support.broker_client import BrokerClient
from support.broker_process import broker_process
from support.driven_clock import DrivenClock, process_clock
from support.faults import Faults
from support.name_server import in_loop
from support.waiting import until

TIMED = "TIMER_DELAY_SEC\x0186400\x02"
LOOK_S = 5  # time between two looks; what was fed is in files after a minute


def checkpoints(store: Path) -> list[bytes]:
    """The checkpoints of both keepers."""
    paths = [store / "rmqTimers" / name / "checkpoint" for name in ("wall", "steady")]
    return [path.read_bytes() if path.exists() else b"" for path in paths]


async def send_and_seal(clock: DrivenClock, port: int, store: Path) -> None:
    """Sends another timed message, and waits until both keepers write a checkpoint that covers
    it."""
    before = checkpoints(store)

    def is_sealed() -> bool:
        clock.advance(LOOK_S)
        return all(now != old for now, old in zip(checkpoints(store), before, strict=True))

    async with BrokerClient(port) as client:
        assert (await client.send("t", b"timed", i=TIMED)).code == 0
    await until(is_sealed)


def test_checkpoints_of_timers_go_on_after_a_sync_that_failed(
    tmp_path: Path, faults: Faults
) -> None:
    @in_loop
    async def run(clock: DrivenClock, port: int, store: Path) -> None:
        async with BrokerClient(port) as client:
            assert (await client.send("t", b"make")).code == 0
        await send_and_seal(clock, port, store)
        faults.fail("fdatasync", errno.EIO, path="rmqTimers/position$", count=1)
        await send_and_seal(clock, port, store)
        assert faults.hits(0) == 1
        await send_and_seal(clock, port, store)

    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path, [], {**clock.environment, **faults.environment()}) as broker,
    ):
        run(clock, broker.port, broker.store)
        broker.logged("the position of timed messages could not be synced")
        assert broker.stop() == 0
