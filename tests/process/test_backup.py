"""Goal: a backup made beside a broker under load and then restored is a store that has everything
that was acknowledged before the backup began, and no file of it is ahead of its log.

Method: real brokers and producers that write down every answer, the command in its own processes,
some of which are killed. Cannot show: a store of Apache's broker, or hundreds of files of 1 GiB.
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from support.ack_history import GROUP, WITH_SUBSCRIPTION, AckHistory, Load
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq
from support.driven_clock import DrivenClock, process_clock
from support.faults import Faults, compile_shim
from support.forked_commands import run_rmq
from support.rmq_process import start_rmq
from support.sharded_broker import sharded_broker
from support.waiting import HANG_S, until, until_is

from rmq.format.message import decode_messages
from rmq.format.remoting import Command
from rmq.offline.overview import entry_count

SEGMENT_BYTES = 1 << 19  # about 650 messages of the load
PACE_S = 0.002  # slow, because the checks read all messages several times
KILLED_AT_FILES = (1, 2, 1)  # new log files in the backup when it is killed
SETTINGS = (
    "--set", f"mappedFileSizeCommitLog={SEGMENT_BYTES}",
    "--set", f"mappedFileSizeConsumeQueue={20 * 400}",
    "--set", "flushConsumerOffsetInterval=100",
)  # fmt: skip
QUERY_OFFSET, COMMIT_OFFSET, MAX_OFFSET, MIN_OFFSET, DELETE_EXPIRED = 14, 15, 30, 31, 329
UPDATE_CONFIG = 25
SOON_S, LATE_S, STEP_S = 1, 21_600, 60
SAVED_S = 10  # between two writes of delayOffset.json
NONE_COMMITTED = 22


def run(*words: object, code: int = 0) -> str:
    done = rmq("store", *map(str, words))
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


async def back_up(broker: BrokerProcess, to: Path) -> dict:
    """Makes a backup, and returns what the command says about its only store."""
    text = await beside("backup", "--store", broker.store, "--to", to, "--json")
    return json.loads(text)["stores"][0]


async def beside(*words: object) -> str:
    """As run(), while the load of this process goes on."""
    done = await asyncio.to_thread(run_rmq, "store", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def log_bytes(store: Path, end: int) -> bytes:
    files = sorted((store / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in files if int(path.name) < end)[:end]


async def check_offsets(port: int) -> int:
    """Checks that no offset of the group lies beyond the end of its queue. Returns how many offsets
    the group has."""
    found = 0
    async with BrokerClient(port) as client:
        for topic, queues in Load.TOPICS:
            for queue in range(queues):
                where = {"topic": topic, "queueId": queue}
                reply = await client.call(QUERY_OFFSET, consumerGroup=GROUP, **where)
                end = int((await client.call(MAX_OFFSET, **where)).fields["offset"])
                if reply.code == 0:
                    found += 1
                    assert 0 <= int(reply.fields["offset"]) <= end, where
                else:
                    assert reply.code == NONE_COMMITTED, reply
    return found


def check_restored(directory: Path, backup: Path, promised: AckHistory, source: Path) -> None:
    """Restores into directory/store, and checks what a broker serves from it."""
    run("restore", "--from", backup, "--store", directory / "store")
    made = json.loads((backup / "rmqBackup.json").read_bytes())["manifest"]["stores"][0]
    last = made["segments"][-1]
    end = last["start"] + last["end"]
    assert log_bytes(directory / "store", end) == log_bytes(source, end)
    with broker_process(directory, SETTINGS) as broker:
        asyncio.run(promised.check(broker.port, whole=True))
        assert asyncio.run(check_offsets(broker.port)) > 0
        # It is a broker like any other: new messages come after the restored ones.
        after = AckHistory()

        async def go_on() -> None:
            async with Load(broker.port, after, 99, producers=2):
                await until(lambda: len(after.acked) > 100)

        asyncio.run(go_on())
        assert not set(after.acked) & set(promised.acked)
        assert broker.stop() == 0
    run("check", directory / "store", "--strict")


def test_what_was_acknowledged_before_a_backup_is_in_it(tmp_path: Path) -> None:
    journal, backup = AckHistory(), tmp_path / "backup"
    promised: list[AckHistory] = []

    async def back_up_under_load(broker: BrokerProcess) -> list[dict]:
        results = []
        for number in range(3):
            async with Load(broker.port, journal, number, producers=3, pace_s=PACE_S):
                sent = len(journal.acked)
                await until(lambda sent=sent: len(journal.acked) > sent + 700)
                promised.append(journal.copy())
                results.append(await back_up(broker, backup))
            journal.forget_before_this()  # the next load's watchers go on from here
            assert "sound" in run("backup", "--check", backup)
        return results

    with broker_process(tmp_path / "source", SETTINGS) as broker:
        results = asyncio.run(back_up_under_load(broker))
        for before, result in pairwise(results):
            # Only what is new is copied: the rest of the segment that was not full, and later ones.
            assert result["copied_bytes"] == result["log_end"] - before["log_end"]
            assert result["copied_records"] > 0
        check_restored(tmp_path / "new", backup, promised[-1], broker.store)


def test_a_backup_that_is_killed_leaves_the_one_before(tmp_path: Path) -> None:
    journal, backup = AckHistory(), tmp_path / "backup"

    async def kill_one(broker: BrokerProcess, faults: Faults, files: int) -> None:
        """Kills a backup after it has completed the last segment and written so many new ones, just
        before the last of these is synced."""
        faults.clear()
        faults.kill("fsync", path=f"{backup}/commitlog/", first=1 + files)
        words = ("store", "backup", "--store", broker.store, "--to", backup)
        with (tmp_path / "killed.txt").open("a") as said:
            process = await asyncio.to_thread(
                start_rmq, words, stdout=said, stderr=said, environment=faults.environment()
            )
        assert await asyncio.to_thread(process.wait, HANG_S) == -signal.SIGKILL

    async def kill_under_load(broker: BrokerProcess, faults: Faults) -> AckHistory:
        async with Load(broker.port, journal, 1, producers=3, pace_s=PACE_S):
            await until(lambda: len(journal.acked) > 700)
            promised = journal.copy()
            await back_up(broker, backup)
            manifest = (backup / "rmqBackup.json").read_bytes()
            for files in KILLED_AT_FILES:
                sent = len(journal.acked)
                await until(lambda sent=sent, files=files: len(journal.acked) > sent + 1000 * files)
                await kill_one(broker, faults, files)
                assert (backup / "rmqBackup.json").read_bytes() == manifest
                assert "sound" in await beside("backup", "--check", backup)
        return promised

    with (
        Faults(compile_shim(tmp_path), tmp_path / "control") as faults,
        broker_process(tmp_path / "source", SETTINGS) as broker,
    ):
        promised = asyncio.run(kill_under_load(broker, faults))
        check_restored(tmp_path / "old", backup, promised, broker.store)
        asyncio.run(back_up(broker, backup))
        check_restored(tmp_path / "new", backup, journal.copy(), broker.store)


async def send(client: BrokerClient, topic: str, body: bytes, **fields: object) -> Command:
    reply = await client.send(topic, body, **fields)
    assert reply.code == 0, reply
    return reply


async def pass_until(clock: DrivenClock, client: BrokerClient, done: Callable[[], bool]) -> None:
    """Lets time pass until it is done. The client asks something at each step, because a connection
    that is silent for two minutes is closed."""

    async def is_done() -> bool:
        clock.advance(0.5)
        await client.call(MAX_OFFSET, topic="any", queueId=0)
        return done()

    await until(is_done)


async def bodies(client: BrokerClient, topic: str, offset: int) -> list[bytes]:
    """Bodies of the messages of queue 0 from the offset on."""
    reply = await client.pull("readers", topic, 0, offset, sysFlag=WITH_SUBSCRIPTION,
                              subscription="*", expressionType="TAG")  # fmt: skip
    assert reply.code == 0, reply
    return [each.body for each in decode_messages(reply.body)]


def test_a_consumer_misses_nothing_where_its_queue_had_been_emptied(tmp_path: Path) -> None:
    """Retention has deleted all messages of a queue. If the restored queue began at 0 again, a
    group whose offset is 5 would miss the next five messages."""
    backup = tmp_path / "backup"
    options = (*SETTINGS, "--set", "cleanResourceInterval=200",
               "--set", "deleteCommitLogFilesInterval=0")  # fmt: skip

    async def empty_and_back_up(broker: BrokerProcess) -> None:
        async with BrokerClient(broker.port) as client:
            for number in range(5):
                await send(client, "rare", b"%d" % number)
            where = {"consumerGroup": "readers", "topic": "rare", "queueId": 0}
            assert (await client.heartbeat("readers", "rare")).code == 0
            assert (await client.call(COMMIT_OFFSET, commitOffset=5, **where)).code == 0
            saved = broker.store / "config" / "rmqOffsets.journal"
            await until(lambda: b"rare@readers" in saved.read_bytes())
            for _ in range(40):
                await send(client, "often", bytes(100_000))
            # Queue files are written seconds after the log. Retention comes hours later in real
            # use, so the test waits for the file before it asks for retention.
            file = broker.store / "consumequeue" / "rare" / "0" / f"{0:020d}"
            await pass_until(clock, client, lambda: file.exists() and entry_count(file) == 5)
            reply = await client.call(UPDATE_CONFIG, b"fileReservedTime=0")
            assert reply.code == 0, reply
            await client.call(DELETE_EXPIRED)
            first = broker.store / "commitlog" / f"{0:020d}"
            await pass_until(clock, client, lambda: not first.exists())
            await back_up(broker, backup)

    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path / "source", options, clock.environment) as broker,
    ):
        asyncio.run(empty_and_back_up(broker))
    run("restore", "--from", backup, "--store", tmp_path / "new" / "store")

    async def read(broker: BrokerProcess) -> None:
        async with BrokerClient(broker.port) as client:
            where = {"topic": "rare", "queueId": 0}
            for code in (MIN_OFFSET, MAX_OFFSET):
                assert (await client.call(code, **where)).fields["offset"] == "5"
            reply = await client.call(QUERY_OFFSET, consumerGroup="readers", **where)
            assert reply.fields["offset"] == "5"
            await send(client, "rare", b"next")
            assert await bodies(client, "rare", 5) == [b"next"]

    with broker_process(tmp_path / "new", SETTINGS) as broker:
        asyncio.run(read(broker))


def test_a_restore_never_goes_into_a_store_that_is_in_use(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with broker_process(tmp_path / "source", SETTINGS) as broker:
        asyncio.run(back_up(broker, backup))
        text = run("restore", "--from", backup, "--store", broker.store, code=4)
        assert f"process {broker.pid}" in text
    text = run("restore", "--from", backup, "--store", broker.store, code=2)
    assert "is not empty" in text


@pytest.mark.parametrize("shards", ["1", "2"])
def test_no_broker_starts_on_what_an_interrupted_restore_has_left(
    tmp_path: Path, shards: str
) -> None:
    store = tmp_path / "store"
    (store / "restoring").mkdir(parents=True)
    words = ("--store", str(store), "--namesrv-port", "0", "--port", "0", "--shards", shards)
    done = subprocess.run(
        [sys.executable, "-m", "rmq", "standalone", *words],
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert "a restore has not ended, and this is no store yet: run it again" in done.stderr
    assert not (store / "commitlog").exists()


def test_what_waits_for_its_time_is_delivered_once_by_the_restored_store(tmp_path: Path) -> None:
    """Messages with delay levels and timed messages: those that were delivered before the backup do
    not come again, and the others come once. The clock is driven, so that no late message is due
    before the backup is made, however long that takes."""
    backup = tmp_path / "backup"

    async def end_of(client: BrokerClient, topic: str) -> int:
        reply = await client.call(MAX_OFFSET, topic=topic, queueId=0)
        return int(reply.fields["offset"]) if reply.code == 0 else 0

    async def wait_for(client: BrokerClient, topic: str, count: int) -> None:
        await until_is(lambda: end_of(client, topic), lambda end: end >= count)

    async def fill(broker: BrokerProcess) -> None:
        async with BrokerClient(broker.port) as client:
            for topic, soon, late in (
                ("levels", "DELAY\x011\x02", "DELAY\x012\x02"),
                ("timed", "TIMER_DELAY_MS\x0150\x02", f"TIMER_DELAY_MS\x01{1000 * LATE_S}\x02"),
            ):
                await send(client, topic, b"soon", i=soon)
                clock.advance(SOON_S)
                await wait_for(client, topic, 1)
                await send(client, topic, b"late", i=late)
            delays = broker.store / "config" / "delayOffset.json"
            clock.advance(SAVED_S)
            await until(delays.exists)  # all that this file refers to was synced before
            await back_up(broker, backup)
            assert [await end_of(client, topic) for topic in ("levels", "timed")] == [1, 1]

    async def read(broker: BrokerProcess) -> None:
        async with BrokerClient(broker.port) as client:
            for _ in range(0, LATE_S, STEP_S):
                clock.advance(STEP_S)
                await end_of(client, "levels")  # a connection silent for two minutes is closed
            for topic in ("levels", "timed"):
                await wait_for(client, topic, 2)
                assert await bodies(client, topic, 0) == [b"soon", b"late"]

    options = (*SETTINGS, "--set", f"messageDelayLevel={SOON_S}s {LATE_S}s")
    with process_clock(tmp_path) as clock:
        with broker_process(tmp_path / "source", options, clock.environment) as broker:
            asyncio.run(fill(broker))
            broker.process.kill()
            broker.process.wait()
        run("restore", "--from", backup, "--store", tmp_path / "new" / "store")
        with broker_process(tmp_path / "new", options, clock.environment) as broker:
            asyncio.run(read(broker))


def test_all_shards_of_a_node_are_in_its_backup(tmp_path: Path) -> None:
    journals = [AckHistory(), AckHistory()]
    backup = tmp_path / "backup"

    async def fill(ports: list[int], store: Path) -> list[AckHistory]:
        async with (
            Load(ports[0], journals[0], 1, 2, PACE_S), Load(ports[1], journals[1], 2, 2, PACE_S),
        ):  # fmt: skip
            await until(lambda: all(len(journal.acked) > 500 for journal in journals))
            promised = [journal.copy() for journal in journals]
            await beside("backup", "--store", store, "--to", backup)
        return promised

    (tmp_path / "source").mkdir()
    with sharded_broker(tmp_path / "source", 2, SETTINGS) as broker:
        promised = asyncio.run(fill(broker.ports, broker.store))
    assert "2 stores" in run("backup", "--check", backup)
    run("restore", "--from", backup, "--store", tmp_path / "new" / "store")
    with sharded_broker(tmp_path / "new", None, SETTINGS) as broker:
        assert len(broker.ports) == 2
        for port, journal in zip(broker.ports, promised, strict=True):
            assert asyncio.run(journal.check(port, whole=True)) >= len(journal.acked)
