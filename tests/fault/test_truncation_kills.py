"""Goal: a truncation that was begun is finished by the next start, wherever the process was killed;
a truncation that was not begun has changed nothing.

Method: a worker (support/truncation_worker.py) cuts a slave's store with several segments, queues,
keys, timers, pops and transactions. The shim kills it before the n-th write, sync, rename, unlink
or ftruncate, for one n after another until no call is left to hit. Then the store is opened and
compared with one that was cut without a kill. Each second kill hits the restart, too, so that the
truncation is begun three times.
The same is done on a file system whose power is cut after the kill (support/loop_disk.py): what was
not synced is gone. By default some steps are tried, in the slow tests all of them.
Cannot prove: a device that loses what it said it had synced, kills between two such calls.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.faults import Faults
from support.fed_slaves import log_of, queues_of
from support.live_broker import live_broker, records
from support.loop_disk import LoopDisk
from support.name_server import in_loop
from support.popping import ack, pop
from support.store_copies import copy_store
from support.waiting import HANG_S

from rmq.base.json_file import JsonFile
from rmq.format.message import encode_properties

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20 * 100,
    "maxMessageSize": 65536, "messageDelayLevel": "1s 1h", "maxIndexNum": 200,
    "maxHashSlotNum": 100, "transactionTimeOut": 600_000,
}  # fmt: skip
BODY = bytes(15_000)
STRIDE = 13  # odd, so that each second kill hits the restart


async def fill(store: Path) -> tuple[int, int]:
    """Makes a master's store; returns where it will be cut, and where its log ends."""
    async with (
        live_broker(store, **SETTINGS) as broker,
        BrokerClient(broker.core.port) as client,
    ):
        for number in range(260):
            marks = encode_properties({"KEYS": f"k{number}"}).decode()
            assert (await client.send("t", BODY, number % 4, i=marks)).code == 0
            if number % 40 == 0:
                timed = encode_properties({"TIMER_DELAY_MS": "3600000"}).decode()
                assert (await client.send("t", b"timed", 1, i=timed)).code == 0
                assert (await client.send("t", b"delayed", 1, i="DELAY\x012\x02")).code == 0
                await ack(client, "g", *(await pop(client, "g", "t", maxMsgNums=4))[:2])
        places = sorted(m.physical_offset for q in range(4) for m in records(broker, "t", q))
        await broker.offsets.save()
        return random.Random(7).choice(places[80:180]), broker.core.log_range()[1]


class Worker:
    """The worker behind the shim; each of its jobs is a process of its own."""

    def __init__(self, faults: Faults) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.truncation_worker"],
            env=faults.environment(PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=HANG_S)  # it ends at the end of its input

    def run(self, store: Path, offset: int, killed: bool = False) -> str:
        """Runs a job; returns what it said. `killed`: the job may have been killed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(store), offset, SETTINGS]) + "\n")
        self.process.stdin.flush()
        said, code = json.loads(self.process.stdout.readline())
        assert code == 0 or (killed and code == -signal.SIGKILL), f"it ended with {code}"
        return str(said)

    def start(self, store: Path) -> int:
        """Opens the store and stops again; returns where its log ends."""
        return int(self.run(store, -1))


def offsets_of(store: Path) -> object:
    return (JsonFile(store / "config" / "consumerOffset.json", lost="x").load() or {}).get(
        "offsetTable"
    )


def look(store: Path) -> tuple[dict[str, bytes], bytes, object]:
    # Zeros are left out, because the next segment may or may not exist yet.
    return queues_of(store), log_of(store, 1 << 40).rstrip(b"\0"), offsets_of(store)


@in_loop
async def make(store: Path, places: list[tuple[int, int]]) -> None:
    places.append(await fill(store))


def sync_files(directory: Path) -> None:
    """Syncs everything that a power cut must leave, and no other files of this machine."""
    for path in (*directory.rglob("*"), directory, directory.parent):
        found = os.open(path, os.O_RDONLY)
        os.fsync(found)
        os.close(found)


def rounds(directory: Path, store: Path, faults: Faults, stride: int, *,
           after_kill: Callable[[], None] = lambda: None) -> None:  # fmt: skip
    """Kills before every `stride`-th step of a truncation of `store`, until no step is hit."""
    places: list[tuple[int, int]] = []
    make(directory / "before", places)
    ((offset, end),) = places
    copy_store(directory / "before", directory / "cut")
    with Worker(faults) as worker:
        assert worker.run(directory / "cut", offset) == "begins\ndone\n"
        assert worker.start(directory / "cut") == offset
        expected = look(directory / "cut")
        step, begun, untouched = 1, 0, 0
        while True:
            copy_store(directory / "before", store)
            sync_files(store)
            faults.clear()
            faults.kill("step", path=str(store), first=step)
            if worker.run(store, offset, killed=True).endswith("done\n"):
                break
            after_kill()
            marker = (store / "truncation").exists()
            if marker and step % 2:
                faults.clear()
                faults.kill("step", path=str(store), first=step)
                worker.run(store, offset, killed=True)
                after_kill()
            faults.clear()
            if worker.start(store) == end:
                assert not marker
                untouched += 1
            else:
                begun += 1
                assert look(store) == expected, f"killed before step {step}"
            shutil.rmtree(store)
            step += stride
    assert begun > 3 and untouched > 0


EVERY = pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("stride", [STRIDE, EVERY])
def test_a_kill_at_any_step(tmp_path: Path, faults: Faults, stride: int) -> None:
    rounds(tmp_path, tmp_path / "store", faults, stride)


@pytest.mark.parametrize("stride", [STRIDE, EVERY])
def test_a_power_cut_at_any_step(
    tmp_path: Path, loop_disk: LoopDisk, faults: Faults, stride: int
) -> None:
    """The process is killed, and what it has not synced is gone."""

    def after_kill() -> None:
        loop_disk.cut_power()
        loop_disk.restore()

    rounds(tmp_path, loop_disk.path / "one", faults, stride, after_kill=after_kill)
