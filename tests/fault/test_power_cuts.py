"""Goal: after a power cut every answer is true that was given with SYNC_FLUSH; with ASYNC_FLUSH
those about topics, groups, offsets, locks and settings.

Method: a broker with its name server on an ext4 in a file (support/loop_disk.py). Many connections
ask for everything that a request can make lasting, and write down the answers (support/power_cuts).
At a random moment the process is stopped, the file system shut down, the process killed, the file
system mounted again and the broker started; then every answer is compared with what the broker says
now. In two rounds of three the shim makes syncs slow, so that many cuts find an answer that does
not wait for its sync. `make power-cuts` runs 100 rounds (RMQ_POWER_CUT_ROUNDS); a round is repeated
by its seed (RMQ_POWER_CUT_SEED), as far as the machine's timing allows.
Cannot prove: a device that loses what it said it had synced, or a file system other than ext4.
"""

import asyncio
import contextlib
import os
import random
import secrets
import subprocess
from pathlib import Path

import pytest
from support.ack_history import AckHistory
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.faults import Faults
from support.loop_disk import LoopDisk
from support.power_cuts.name_server_tables import NameServerTables
from support.power_cuts.offsets import Offsets
from support.power_cuts.pops import Pops
from support.power_cuts.promise import Promise, load
from support.power_cuts.sent_back import SentBack
from support.power_cuts.sent_messages import SentMessages
from support.power_cuts.tables import Tables, TopicsMadeAnew
from support.power_cuts.timed_messages import TimedMessages
from support.power_cuts.transactions import Transactions
from support.stopping import stand_still

from rmq.offline.checker import check_store

OPTIONS = [
    "--set", "mappedFileSizeCommitLog=4194304",
    "--set", f"mappedFileSizeConsumeQueue={20 * 4000}",
    "--set", "flushConsumerOffsetInterval=100",
    "--set", "messageDelayLevel=1s 2s 1s 1s",
    "--set", "recallMessageEnable=true",
    "--set", "transactionTimeOut=600000",
    "--set", "transactionCheckInterval=200",
]  # fmt: skip
SLOW_SYNCS_US = (0, 5_000, 50_000)
CLEAN_STOPS, ASYNC_ROUNDS = 0.3, 0.15
# They have files of their own, which are synced in either flush mode.
KEPT_IN_ASYNC = (Offsets, Tables, NameServerTables)
ANSWERS_S = 0.05
ROUNDS_BY_DEFAULT, ROUNDS_OF_MAKE = 2, 100


class PowerCuts:
    """One broker on one disk, through all rounds."""

    def __init__(self, directory: Path, disk: LoopDisk, faults: Faults, seed: str) -> None:
        self.directory, self.disk, self.faults, self.seed = directory, disk, faults, seed
        self.journal = AckHistory()
        self.broker: BrokerProcess | None = None
        self.losses: list[str] = []

    def start(self, flush: str = "sync") -> BrokerProcess:
        self.faults.clear()
        options = ["--flush", flush, *OPTIONS]
        self.broker = start_broker(self.directory, options, self.faults.environment())
        return self.broker

    def end(self) -> None:
        if self.broker is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.broker.process.kill()
                self.broker.process.wait(10)
            if self.broker.process.stdout is not None:
                self.broker.process.stdout.close()

    def promises(self, number: int, seed: str) -> list[Promise]:
        kinds = (Transactions, Pops, SentBack, TimedMessages, Offsets, Tables, TopicsMadeAnew,
                 NameServerTables)  # fmt: skip
        return [SentMessages(number, seed, self.journal), *(kind(number, seed) for kind in kinds)]

    def run(self, number: int) -> None:
        seed = f"{self.seed}/{number}"
        chance = random.Random(seed)
        promises = self.promises(number, seed)
        is_async = chance.random() < ASYNC_ROUNDS
        if is_async:
            promises = [each for each in promises if isinstance(each, KEPT_IN_ASYNC)]
        # Then the cut comes soon after a start on a clean store.
        if is_async or chance.random() < CLEAN_STOPS:
            assert self.broker is not None and self.broker.stop() == 0
            self.end()
            self.start("async" if is_async else "sync")
        asyncio.run(self.load_until_cut(promises, chance))
        self.end()
        self.disk.restore()
        self.start()
        found = asyncio.run(self.check(promises))
        told = ", ".join(f"{promise.kind} {promise.kept}" for promise in promises)
        print(f"round {number} of seed {self.seed}: {told}", flush=True)
        for line in found:
            print(f"    LOST: {line}", flush=True)
            self.losses.append(f"round {number}: {line}")

    async def load_until_cut(self, promises: list[Promise], chance: random.Random) -> None:
        broker = self.broker
        assert broker is not None
        for promise in promises:
            async with BrokerClient(self.port(promise)) as client:
                await promise.prepare(client)
        slow_us = chance.choice(SLOW_SYNCS_US)
        if slow_us:
            self.faults.sleep("fdatasync", slow_us)
            self.faults.sleep("fsync", slow_us)
        loads = [asyncio.create_task(load(each, self.port(each))) for each in promises]
        await asyncio.wait(loads, timeout=chance.uniform(0.3, 1.2))
        stand_still(broker.pid)  # see LoopDisk.cut_power()
        self.disk.cut_power()
        await asyncio.wait(loads, timeout=ANSWERS_S)  # answers that are on their way
        broker.process.kill()
        broker.process.wait()
        await asyncio.gather(*loads)

    async def check(self, promises: list[Promise]) -> list[str]:
        async def look(promise: Promise) -> list[str]:
            async with BrokerClient(self.port(promise), "checker@1") as client:
                return [f"{promise.kind}: {line}" for line in await promise.check(client)]

        found = await asyncio.gather(*map(look, promises))
        return [line for lines in found for line in lines]

    def port(self, promise: Promise) -> int:
        assert self.broker is not None
        address = self.broker.namesrv if promise.is_of_name_server else self.broker.address
        return int(address.rpartition(":")[2])


def power_cuts(directory: Path, disk: LoopDisk, faults: Faults, rounds: int) -> None:
    cuts = PowerCuts(directory, disk, faults, os.environ.get("RMQ_POWER_CUT_SEED") or new_seed())
    broker = cuts.start()
    try:
        for number in range(rounds):
            cuts.run(number)
        assert not cuts.losses, "\n".join(cuts.losses[:20])
        broker = cuts.broker
        assert broker is not None
        asyncio.run(cuts.journal.check(broker.port, whole=True))
        assert broker.stop() == 0
        problems = check_store(broker.store, strict=True).problems
        assert not problems, "\n".join(map(str, problems[:5]))
    finally:
        cuts.end()


def new_seed() -> str:
    return secrets.token_hex(4)


def test_a_start_says_that_it_runs_before_it_takes_a_message(
    tmp_path: Path, faults: Faults
) -> None:
    """Without the file `abort` the start after a power cut would believe that the broker was
    stopped cleanly."""
    faults.sleep("fsync", 0, path="/abort$")
    faults.sleep("fsync", 0, path="/store$")
    with broker_process(tmp_path, environment=faults.environment()) as broker:
        assert faults.seen(0) == 1
        assert faults.seen(1) >= 1
        assert (broker.store / "abort").read_text() == str(broker.pid)


def test_a_power_cut_takes_nothing_back(
    tmp_path: Path, loop_disk: LoopDisk, faults: Faults
) -> None:
    power_cuts(tmp_path, loop_disk, faults, ROUNDS_BY_DEFAULT)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_power_cuts_take_nothing_back(
    tmp_path: Path, loop_disk: LoopDisk, faults: Faults
) -> None:
    rounds = int(os.environ.get("RMQ_POWER_CUT_ROUNDS") or ROUNDS_OF_MAKE)
    power_cuts(tmp_path, loop_disk, faults, rounds)
