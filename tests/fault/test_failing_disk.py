"""Goal: a whole broker on a failing disk acknowledges nothing that is not so, says what failed, and
goes on serving what it has. What can heal heals without a restart, the rest with one.

Method: a broker process behind the fault shim, loaded over sockets by clients that write down every
ack and every message seen (support/ack_history.py). After the fault: replies, log lines, reads;
then a restart on a sound disk. Reads that fail while the broker serves: test_failed_reads.py.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from support.ack_history import AckHistory, Load, Place
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.calm_clock import calm_seconds
from support.driven_clock import process_clock
from support.faults import Faults
from support.waiting import until, until_is

from rmq.format.remoting import Command
from rmq.offline.checker import check_store

SMALL_FILES = [
    "--set", "mappedFileSizeCommitLog=1048576",
    "--set", f"mappedFileSizeConsumeQueue={20 * 400}",
]  # fmt: skip
SERVICE_NOT_AVAILABLE, SYSTEM_BUSY, SYSTEM_ERROR = 14, 2, 1
CREATE_TOPIC, MAX_OFFSET = 17, 30


def load(
    broker: BrokerProcess, journal: AckHistory, number: int, goal: Callable[[], bool],
    pace_s: float = 0,
) -> None:  # fmt: skip
    """Loads the broker until the goal is reached."""

    async def run() -> None:
        async with Load(broker.port, journal, number, producers=3, pace_s=pace_s):
            await until(goal)

    asyncio.run(run())


def with_client(broker: BrokerProcess, work: Callable[[BrokerClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with BrokerClient(broker.port) as client:
            await work(client)

    asyncio.run(run())


def refusals(journal: AckHistory) -> list[Command]:
    """What the broker refused, except by its flow control: on a busy machine the next log file may
    be late, or a write may stand still, without a fault of the disk."""
    return [
        reply
        for reply in journal.refused
        if reply.code != SYSTEM_BUSY or "start flow control for a while" not in (reply.remark or "")
    ]


def serves_everything_after_a_restart(
    directory: Path, journal: AckHistory, options: Sequence[str] = SMALL_FILES
) -> None:
    with broker_process(directory, options) as broker:
        asyncio.run(journal.check(broker.port, whole=True))
        acked = len(journal.acked)
        load(broker, journal, 100, lambda: len(journal.acked) > acked + 50)
        asyncio.run(journal.check(broker.port, whole=True))
        assert broker.stop() == 0
    report = check_store(directory / "store", strict=True)
    assert not report.problems, report.problems[0]


@pytest.mark.parametrize(
    ("operation", "error", "flush", "path"),
    [
        ("pwrite", errno.EIO, "async", "/commitlog/"),
        ("pwrite", errno.ENOSPC, "sync", "/commitlog/"),
        ("fdatasync", errno.EIO, "sync", "/commitlog/"),
        ("fdatasync", errno.ENOSPC, "async", "/commitlog/"),
        ("fsync of the directory", errno.EIO, "async", "/commitlog$"),
    ],
)  # fmt: skip
def test_a_failed_write_or_sync_poisons_the_broker_until_it_is_restarted(
    tmp_path: Path, faults: Faults, operation: str, error: int, flush: str, path: str
) -> None:
    journal = AckHistory()
    options = [*SMALL_FILES, "--flush", flush]
    with broker_process(tmp_path, options, faults.environment()) as broker:
        load(broker, journal, 1, lambda: len(journal.acked) > 100)
        # Only one call fails. The disk is well again at once, but the broker must not believe it.
        faults.fail(operation.partition(" ")[0], error, path=path, count=1)
        load(broker, journal, 2, lambda: len(refusals(journal)) > 20)
        assert faults.hits(0) == 1
        reason = os.strerror(error)
        for reply in refusals(journal):
            assert reply.code == SERVICE_NOT_AVAILABLE
            assert f"poisoned: {operation} failed from offset " in reply.remark
            assert f": {reason};" in reply.remark
        line = broker.logged(
            rf"poisoned: {operation} of (\S+) failed from offset (\d+) on: {reason}"
        )
        assert line[1].startswith(f"{broker.store}/commitlog")
        if operation == "pwrite" or flush == "sync":
            highest = max(promise.physical_offset for promise in journal.acked.values())
            assert highest < int(line[2]), "an ack beyond what the disk had taken"
        acked = len(journal.acked)

        async def refuses_and_reads(client: BrokerClient) -> None:
            for number in range(5):
                assert (await client.send("load-a", b"late %d" % number)).code == 14
            await journal.check(broker.port, whole=True)

        with_client(broker, refuses_and_reads)
        assert len(journal.acked) == acked
        assert broker.stop() == 0
        assert (broker.store / "abort").exists(), "the next start has to recover"
    serves_everything_after_a_restart(tmp_path, journal)


@pytest.mark.parametrize(
    ("operation", "error", "code", "text"),
    [
        ("fallocate", errno.ENOSPC, SERVICE_NOT_AVAILABLE, "the broker's disk is full"),
        ("fallocate", errno.EIO, SYSTEM_BUSY, "the next commit log file is not ready yet"),
        ("fsync", errno.EIO, SYSTEM_BUSY, "the next commit log file is not ready yet"),
    ],
)
def test_without_a_next_log_file_sends_are_refused_and_resume_by_themselves(
    tmp_path: Path, faults: Faults, operation: str, error: int, code: int, text: str
) -> None:
    journal = AckHistory()
    # The time for which senders wait for a file before they are refused; other tests set a minute.
    options = [*SMALL_FILES, "--set", "osPageCacheBusyTimeOutMills=300"]
    with broker_process(tmp_path, options, faults.environment()) as broker:
        began = calm_seconds()
        load(broker, journal, 1, lambda: len(journal.acked) > 100)
        usual = calm_seconds() - began
        faults.fail(operation, error, path="commitlog.spare/")
        load(broker, journal, 2, lambda: len(journal.refused) > 20)
        # SYSTEM_BUSY may come for a moment, while the first try is still under way.
        assert {reply.code for reply in journal.refused} <= {code, SYSTEM_BUSY}
        assert any(reply.code == code and text in reply.remark for reply in journal.refused)
        asyncio.run(wait_in_log(broker, "commitlog cannot be made: " + os.strerror(error)))
        asyncio.run(journal.check(broker.port, whole=True))
        faults.clear()
        began = calm_seconds()
        acked = len(journal.acked)
        load(broker, journal, 3, lambda: len(journal.acked) > acked + 50, pace_s=0.01)
        assert calm_seconds() - began < max(15, 10 * usual)  # 15 s, because the machine may be busy
        asyncio.run(wait_in_log(broker, "sends are taken again"))
        asyncio.run(journal.check(broker.port, whole=True))
        assert broker.stop() == 0
    serves_everything_after_a_restart(tmp_path, journal)


def test_what_was_delayed_comes_after_a_restart_when_its_delivery_was_not_written(
    tmp_path: Path, faults: Faults
) -> None:
    """The delay levels go on with the log, also if the broker was stopped cleanly."""
    options = [*SMALL_FILES, "--flush", "sync", "--set", "messageDelayLevel=60s"]

    async def delay(client: BrokerClient) -> None:
        assert (await client.send("t", b"now")).code == 0
        assert (await client.send("t", b"later", i="DELAY\x011\x02")).code == 0
        faults.fail("pwrite", errno.EIO, path="commitlog/")
        clock.advance(60)
        await wait_in_log(broker, "poisoned: pwrite")

    async def comes(client: BrokerClient) -> None:
        await client.heartbeat("g", "t")
        found = await until_is(lambda: client.pulled("g", "t"), lambda found: len(found) == 2)
        assert [message.body for message in found] == [b"now", b"later"]

    with process_clock(tmp_path) as clock:
        environment = {**clock.environment, **faults.environment()}
        with broker_process(tmp_path, options, environment) as broker:
            with_client(broker, delay)
            assert broker.stop() == 0
        with broker_process(tmp_path, options, clock.environment) as broker:
            with_client(broker, comes)


def test_a_start_asks_the_disk_whether_it_has_what_a_killed_process_has_written(
    tmp_path: Path, faults: Faults
) -> None:
    """The process was killed before anyone was told that a write-back failed. The kernel reports
    this once: the first start says so and ends, the next start takes what is there."""
    journal = AckHistory()
    with broker_process(tmp_path, SMALL_FILES) as broker:
        load(broker, journal, 1, lambda: len(journal.acked) > 100)
        broker.stop(signal.SIGKILL)
    faults.fail("fdatasync", errno.EIO, path="commitlog/", count=1)
    reason = f"{os.strerror(errno.EIO)}: what a killed process has written did not reach the disk"
    environment = faults.environment()
    with (
        pytest.raises(AssertionError, match=reason),
        broker_process(tmp_path, SMALL_FILES, environment),
    ):
        pass
    assert faults.hits(0) == 1
    faults.clear()
    serves_everything_after_a_restart(tmp_path, journal)


async def send_pieces(client: BrokerClient) -> None:
    for _ in range(15):
        assert (await client.send("t", bytes(100_000))).code == 0


async def has_all_pieces(client: BrokerClient) -> None:
    assert (await client.call(MAX_OFFSET, topic="t", queueId=0)).fields["offset"] == "15"


def test_a_start_ends_no_log_before_a_file_whose_first_page_cannot_be_read(
    tmp_path: Path, faults: Faults
) -> None:
    """The file before it has lost its end, so only this page says whether the log goes on."""
    with broker_process(tmp_path, SMALL_FILES) as broker:
        with_client(broker, send_pieces)
        broker.stop(signal.SIGKILL)
    # So that the log is read from its start.
    for name in ("checkpoint", "queueEnds", "queueEnds.synced"):
        (broker.store / name).unlink(missing_ok=True)
    first, second = sorted((broker.store / "commitlog").iterdir())[:2]
    with first.open("r+b") as file:
        file.seek(600_000)
        file.write(bytes(first.stat().st_size - 600_000))
    content = second.read_bytes()
    faults.lose(100, path=f"commitlog/{second.name}$")
    with (
        pytest.raises(AssertionError, match=r"commit log .* at offset .*IO_ERROR"),
        broker_process(tmp_path, SMALL_FILES, faults.environment()),
    ):
        pass
    assert second.read_bytes() == content
    faults.clear()
    with broker_process(tmp_path, SMALL_FILES) as broker:
        with_client(broker, has_all_pieces)


async def wait_in_log(broker: BrokerProcess, text: str) -> None:
    await until(lambda: text in broker.log())


@pytest.mark.parametrize("end", ["heals", "killed"])
def test_queue_files_that_cannot_be_written_cost_no_message(
    tmp_path: Path, faults: Faults, end: str
) -> None:
    """No message is lost even if a queue goes on to its next file meanwhile."""
    journal = AckHistory()
    entries = 100  # entries in a file
    options = [*SMALL_FILES, "--set", f"mappedFileSizeConsumeQueue={20 * entries}"]
    with broker_process(tmp_path, options, faults.environment()) as broker:
        load(broker, journal, 1, lambda: len(journal.acked) > 100)
        faults.fail("pwrite", errno.EIO, path="/consumequeue/")
        acked = len(journal.acked)
        last = max(place.offset for place in journal.acked if place.topic == "load-c")
        behind = Place("load-c", 0, last + entries)
        load(
            broker, journal, 2,
            lambda: len(journal.acked) > acked + 400 and behind in journal.acked
            and faults.hits(0) > 0,
        )  # fmt: skip
        assert not refusals(journal)
        reason = os.strerror(errno.EIO)
        asyncio.run(wait_in_log(broker, f"{broker.store}/consumequeue cannot be written: {reason}"))
        asyncio.run(journal.check(broker.port, whole=True))
        if end == "killed":
            broker.stop(signal.SIGKILL)
        else:
            faults.clear()
            asyncio.run(wait_in_log(broker, "consume queue files are written again"))
            assert broker.stop() == 0
            assert not check_store(broker.store, strict=True).problems
    serves_everything_after_a_restart(tmp_path, journal, options)
    assert len(list((tmp_path / "store/consumequeue/load-c/0").iterdir())) > 1


def test_a_config_file_that_cannot_be_saved_is_named_to_the_client_and_kept_whole(
    tmp_path: Path, faults: Faults
) -> None:
    fields = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, "perm": 6}
    sizes = {"readQueueNums": 3, "writeQueueNums": 3, "defaultTopic": "TBW102"}
    with broker_process(tmp_path, SMALL_FILES, faults.environment()) as broker:

        async def create(client: BrokerClient) -> None:
            reply = await client.call(CREATE_TOPIC, topic="before", **sizes, **fields)
            assert reply.code == 0
            faults.fail("fsync", errno.ENOSPC, path="/config/")
            reply = await client.call(CREATE_TOPIC, topic="never", **sizes, **fields)
            assert reply.code == SYSTEM_ERROR
            assert "topics.json" in reply.remark
            assert os.strerror(errno.ENOSPC) in reply.remark
            assert broker.logged(r"topics\.json")
            assert (await client.send("before", b"still served")).code == 0
            faults.clear()
            reply = await client.call(CREATE_TOPIC, topic="after", **sizes, **fields)
            assert reply.code == 0

        with_client(broker, create)
        broker.stop(signal.SIGKILL)
    with broker_process(tmp_path, SMALL_FILES) as broker:

        async def known(client: BrokerClient) -> None:
            assert (await client.send("before", b"x", 2)).code == 0
            assert (await client.send("after", b"x", 2)).code == 0

        with_client(broker, known)
