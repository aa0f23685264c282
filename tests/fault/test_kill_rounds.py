"""Goal: kill -9 at any moment, again and again, breaks no promise that the broker has given.

Method: several connections load a broker process with single and batch sends while consumers wait
at the ends of the queues. The test writes down every ack and every message that was handed out. The
process is killed at a random moment, or kills itself in the middle of a chosen system call. After
each restart all promises of the round are checked, and at the end those of all rounds, and `rmq
store check` must find the store sound. A killed process leaves its page cache, so ASYNC_FLUSH may
lose nothing.
Cannot prove: a power cut (tests/fault/test_write_errors.py comes nearest).
"""

import asyncio
import contextlib
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.ack_history import AckHistory, Load
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.faults import Faults
from support.waiting import HANG_S, until

from rmq.offline.checker import check_store

SMALL_FILES = [
    "--set", "mappedFileSizeCommitLog=262144",
    "--set", f"mappedFileSizeConsumeQueue={20 * 400}",
    "--set", "flushConsumerOffsetInterval=100",
]  # fmt: skip

# Loads fill a file of 256 KiB sooner than a busy disk makes the next one. This is flow control and
# no failure.
NOT_READY = "the next commit log file is not ready yet"
PATIENCE_S = 300  # of a round whose end the shim makes as soon as the load gets there
CHECK_EVERY = 4  # rounds; the checker reads the whole store

# How a round ends: a name, the flush type, and what the shim is told (None: a kill from outside).
Plan = Callable[[Faults, random.Random], None]
ENDINGS: list[tuple[str, str, Plan | None]] = [
    ("killed", "async", None),
    ("killed", "sync", None),
    ("in the middle of a log write", "async",
     lambda f, r: f.kill_after_part(r.randrange(1, 4000), path="/commitlog/",
                                    first=r.randrange(10, 60))),
    ("before a sync", "sync",
     lambda f, r: f.kill("fdatasync", path="/commitlog/", first=r.randrange(5, 40))),
    ("in the middle of a queue write", "async",
     lambda f, r: f.kill_after_part(r.choice((0, 10, 20, 333, 1000)), path="/consumequeue/",
                                    first=r.randrange(2, 12))),
    ("killed", "async", None),
    ("while the next log file is made", "sync",
     lambda f, r: f.kill(r.choice(("fallocate", "fsync")), path="commitlog.spare/",
                         first=r.randrange(2, 4))),
    ("before a log write", "sync",
     lambda f, r: f.kill("pwrite", path="/commitlog/", first=r.randrange(10, 60))),
    ("while offsets are saved", "async",
     lambda f, r: f.kill("fsync", path="config/rmqOffsets.journal", first=1)),
    ("killed", "sync", None),
]  # fmt: skip


async def load_until_dead(
    broker: BrokerProcess, journal: AckHistory, number: int, seconds: float
) -> None:
    """Loads the broker until it dies by itself. When the time is up it is killed, but not before it
    has acknowledged something, however slow the machine is."""
    before, clock = len(journal.acked), asyncio.get_running_loop().time
    async with Load(broker.port, journal, number):
        start = clock()
        await until(
            lambda: (
                broker.process.poll() is not None
                or clock() >= start + PATIENCE_S
                or (clock() > start + seconds and len(journal.acked) > before)
            )
        )
        broker.process.kill()
        broker.process.wait()


def run_round(
    directory: Path, faults: Faults, journal: AckHistory, number: int, ending: int
) -> bool:
    """Starts the broker, checks what the last round left, loads it until it dies. Returns whether
    it died where it was told to."""
    _name, flush, plan = ENDINGS[ending]
    chance = random.Random(number)
    faults.clear()
    broker = start_broker(directory, [*SMALL_FILES, "--flush", flush], faults.environment())
    try:
        asyncio.run(journal.check(broker.port))
        journal.forget_before_this()
        if number % CHECK_EVERY == 0:
            assert_sound(broker.store, strict=False)
        if plan is not None:
            plan(faults, chance)
        seconds = chance.uniform(0.1, 0.4) if plan is None else PATIENCE_S
        asyncio.run(load_until_dead(broker, journal, number, seconds))
        assert broker.process.returncode == -signal.SIGKILL
        return plan is None or faults.hits(0) == 1
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            broker.process.kill()
            broker.process.wait(HANG_S)
        broker.process.stdout.close()


def kill_rounds(directory: Path, faults: Faults, rounds: int) -> None:
    journal = AckHistory()
    missed = []
    for number in range(rounds):
        before = len(journal.acked)
        ending = number % len(ENDINGS)
        if not run_round(directory, faults, journal, number, ending):
            missed.append(ENDINGS[ending][0])
        assert len(journal.acked) > before, f"round {number}: nothing was acked"
    refused = [each for each in journal.refused if NOT_READY not in (each.remark or "")]
    assert not refused, refused[0]
    assert len(missed) <= rounds // 10, f"ended otherwise than planned: {missed}"
    faults.clear()
    with broker_process(directory, SMALL_FILES) as broker:
        total = asyncio.run(journal.check(broker.port, whole=True))
        assert total >= len(journal.acked)
        assert broker.stop() == 0
    assert_sound(directory / "store", strict=True)
    print(f"{rounds} rounds, {len(journal.acked)} acked, {total} stored, otherwise: {missed}")


def assert_sound(store: Path, strict: bool) -> None:
    """The offline checker finds nothing wrong; only if strict the queues may not be behind the
    log."""
    report = check_store(store, strict=strict)
    assert not report.problems, "\n".join(map(str, report.problems[:5]))


def test_ten_rounds_of_kill_9_lose_nothing_acked(tmp_path: Path, faults: Faults) -> None:
    kill_rounds(tmp_path, faults, 10)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sixty_rounds_of_kill_9_lose_nothing_acked(tmp_path: Path, faults: Faults) -> None:
    kill_rounds(tmp_path, faults, 60)
