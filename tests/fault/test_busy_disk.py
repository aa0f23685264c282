"""Goal: a disk that is slow to make the log's next file, or blocks of the present one, slows the
senders down and refuses none of them. Only if it lasts are they refused. Clients that only read do
not wait.

Method: a broker process behind the fault shim, which makes the fsync of a new file, the fallocate
of the present one, or the sync sleep; clients that send faster than files are made. Cannot prove:
how long a real disk takes.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.calm_clock import calm_seconds
from support.driven_clock import process_clock
from support.faults import Faults
from support.waiting import until

SEGMENT = 4 << 20
BUSY_MS = 800
OPTIONS = [
    "--set", f"mappedFileSizeCommitLog={SEGMENT}",
    "--set", f"osPageCacheBusyTimeOutMills={BUSY_MS}",
]  # fmt: skip
SPARE = "commitlog.spare/"
LOG = "/commitlog/"
BODY = b"x" * 8192
LARGE = b"x" * 4_000_000
BURST = 16
SENDERS = 3
NOT_READY = "the next commit log file is not ready yet"
SUCCESS, SYSTEM_BUSY = 0, 2
TOLD_S = 10  # between two log lines about slow answers


async def send_many(port: int, queue: int, segments: float, told: Counter[tuple[int, str]]) -> None:
    """Sends so many segments by one connection, BURST messages at a time, and counts the
    answers."""
    async with BrokerClient(port, f"sender@{queue}") as client:
        for _ in range(int(segments * SEGMENT) // (BURST * len(BODY))):
            with client.in_one_write():
                sent = [client.post_send("busy", BODY, queue) for _ in range(BURST)]
            for opaque in sent:
                reply = await client.reply(opaque)
                told[reply.code, reply.remark or ""] += 1


def run_with(broker: BrokerProcess, work: Callable[[BrokerClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with BrokerClient(broker.port) as client:
            assert (await client.send("busy", b"first")).code == SUCCESS
            await work(client)

    asyncio.run(run())


def test_senders_wait_for_the_next_file_and_are_not_refused(tmp_path: Path, faults: Faults) -> None:
    told: Counter[tuple[int, str]] = Counter()

    async def work(client: BrokerClient) -> None:
        faults.sleep("fsync", 600_000, path=SPARE)
        await asyncio.gather(*(send_many(broker.port, q, 2.5, told) for q in range(SENDERS)))

    options = [*OPTIONS, "--set", "osPageCacheBusyTimeOutMills=60000"]
    with broker_process(tmp_path, options, faults.environment()) as broker:
        run_with(broker, work)
        assert faults.hits(0) >= 6
        assert set(told) == {(SUCCESS, "")}, told
        assert broker.stop() == 0


def test_what_lasts_is_refused_and_who_reads_does_not_wait(tmp_path: Path, faults: Faults) -> None:
    told: Counter[tuple[int, str]] = Counter()

    def refused() -> list[str]:
        return [remark for code, remark in told if code == SYSTEM_BUSY]

    async def work(client: BrokerClient) -> None:
        await client.heartbeat("readers", "busy")
        faults.sleep("fsync", 600_000_000, path=SPARE, count=1)
        senders = [asyncio.create_task(send_many(broker.port, q, 1, told)) for q in range(SENDERS)]
        reads = 0
        while not refused() or reads <= 10:
            assert (await client.pull("readers", "busy")).code == SUCCESS
            reads += 1
            await asyncio.sleep(0.01)
        still = await client.send("busy", BODY)
        assert still.code == SYSTEM_BUSY and NOT_READY in (still.remark or "")
        await asyncio.gather(*senders)

    with broker_process(tmp_path, OPTIONS, faults.environment()) as broker:
        began = time.monotonic()
        run_with(broker, work)
        assert all(NOT_READY in remark for remark in refused()), told
        assert time.monotonic() - began > BUSY_MS / 1000
        broker.stop(signal.SIGKILL)  # a clean stop would wait for the file


def test_nobody_waits_for_blocks_that_are_on_their_way(tmp_path: Path, faults: Faults) -> None:
    """A new store has blocks for 16 MiB; the first messages cause more blocks to be made, and do
    not wait for them."""
    sleeps_s = 60
    started = time.monotonic()

    async def work(client: BrokerClient) -> None:
        faults.sleep("fallocate", sleeps_s * 1_000_000, path=LOG, count=1)
        for _ in range((1 << 20) // len(BODY)):
            assert (await client.send("busy", BODY)).code == SUCCESS
        await until(lambda: faults.seen(0) > 0)  # blocks are asked for as soon as messages come
        for _ in range(100):
            assert (await client.send("busy", BODY)).code == SUCCESS

    patient = ("--set", "osPageCacheBusyTimeOutMills=60000")  # for a busy machine
    with broker_process(tmp_path, patient, faults.environment()) as broker:
        run_with(broker, work)
        assert time.monotonic() - started < sleeps_s
        broker.stop(signal.SIGKILL)  # a clean stop would wait for the blocks


def test_senders_wait_for_blocks_and_are_not_refused(tmp_path: Path, faults: Faults) -> None:
    told: Counter[tuple[int, str]] = Counter()

    async def work(client: BrokerClient) -> None:
        faults.sleep("fallocate", 600_000, path=LOG, count=3)
        await asyncio.gather(*(send_many(broker.port, q, 5, told) for q in range(SENDERS)))

    with broker_process(tmp_path, environment=faults.environment()) as broker:
        run_with(broker, work)
        assert faults.hits(0) == 3
        assert set(told) == {(SUCCESS, "")}, told
        assert broker.stop() == 0


async def send_large(port: int, count: int, told: Counter[tuple[int, str]]) -> None:
    """So many clients send a message of 4 MB each at the same time. A new store has blocks for four
    of them."""

    async def one(queue: int) -> None:
        async with BrokerClient(port, f"large@{queue}") as client:
            reply = await client.send("busy", LARGE, queue % SENDERS)
            told[reply.code, reply.remark or ""] += 1

    await asyncio.gather(*map(one, range(count)))


def test_large_messages_wait_for_blocks_and_are_not_refused(tmp_path: Path, faults: Faults) -> None:
    told: Counter[tuple[int, str]] = Counter()

    async def work(client: BrokerClient) -> None:
        faults.sleep("fallocate", 600_000, path=LOG, count=1)
        await send_large(broker.port, 12, told)

    patient = ("--set", "osPageCacheBusyTimeOutMills=60000")
    with broker_process(tmp_path, patient, faults.environment()) as broker:
        run_with(broker, work)
        assert faults.hits(0) == 1
        assert told == {(SUCCESS, ""): 12}
        assert broker.stop() == 0


def test_large_messages_whose_blocks_do_not_come_are_refused_and_wait_once(
    tmp_path: Path, faults: Faults
) -> None:
    told: Counter[tuple[int, str]] = Counter()
    more = 50

    async def work(client: BrokerClient) -> None:
        await client.heartbeat("readers", "busy")
        faults.sleep("fallocate", 600_000_000, path=LOG, count=1)
        await send_large(broker.port, 12, told)
        assert told[SUCCESS, ""] == 4 and told.total() == 12
        began = calm_seconds()
        for _ in range(more):
            reply = await client.send("busy", LARGE[: 1 << 20])
            told[reply.code, reply.remark or ""] += 1
            assert (await client.pull("readers", "busy")).code == SUCCESS
        assert calm_seconds() - began < more * BUSY_MS / 1000
        # The log has blocks for this message.
        assert (await client.send("busy", BODY)).code == SUCCESS

    busy = ("--set", f"osPageCacheBusyTimeOutMills={BUSY_MS}")
    with broker_process(tmp_path, busy, faults.environment()) as broker:
        run_with(broker, work)
        refused = [remark for code, remark in told if code == SYSTEM_BUSY]
        assert all(NOT_READY in remark for remark in refused), told
        assert told[SUCCESS, ""] == 4 and told.total() == 12 + more
        broker.stop(signal.SIGKILL)  # a clean stop would wait for the blocks


def test_how_long_sends_waited_for_a_slow_sync_is_in_the_log(
    tmp_path: Path, faults: Faults
) -> None:
    async def work(client: BrokerClient) -> None:
        faults.sleep("fdatasync", 300_000, path=LOG)
        for _ in range(3):
            assert (await client.send("busy", BODY)).code == SUCCESS
        faults.clear()

    options = [*OPTIONS, "--flush", "sync", "--set", "rmqSlowRequestMs=100"]
    with process_clock(tmp_path) as clock:
        environment = {**clock.environment, **faults.environment()}
        with broker_process(tmp_path, options, environment) as broker:
            run_with(broker, work)
            clock.advance(TOLD_S)
            broker.logged(
                r"slow: \d+ answers to request \d+ \(SEND_MESSAGE\w*\) took more than 100 ms, "
                r"within \d+ s: SUCCESS; the log meanwhile: 99 % were written within \d+ ms, "
                r"synced within ([3-9]\d\d|\d{4,}) ms"
            )
