"""Goal: whatever happens to a consume-queue file, if the log is whole, every message is readable at
its offset, no offset is given twice, and a line of the log names file and place. If damaged entries
cannot be made again for now, everything that reads them waits.

Method: a broker process fills queues and is stopped, killed, or goes on. Their files are damaged,
all is read, and one more message is sent. First the usual damages of a disk, by name; then random
rounds (one by default, RMQ_BIT_ROT_ROUNDS for more: `make bit-rot`), which print their seed. The
fault shim makes the disk full for these files alone; time is driven.
Known gap: only `rmq store check` checks the tag code of an entry.
"""

import asyncio
import errno
import os
import random
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.driven_clock import DrivenClock, process_clock
from support.faults import Faults
from support.popping import Popped, pop, pop_all
from support.waiting import until, until_is

from rmq import names
from rmq.format import fastjson
from rmq.format.message import decode_message, decode_messages
from rmq.offline.checker import check_store

COUNT, ENTRY_BYTES, PAGE = 700, 20, 4096  # four pages
PER_FILE = 20_000
LOG_FILE_BYTES = 8 << 20
SETTINGS = ["--set", f"mappedFileSizeConsumeQueue={PER_FILE * ENTRY_BYTES}",
            "--set", f"mappedFileSizeCommitLog={LOG_FILE_BYTES}"]  # fmt: skip
EVERYTHING = {"sysFlag": 4, "subscription": "*", "expressionType": "TAG"}
TOPIC = "damaged"
ROUNDS = int(os.environ.get("RMQ_BIT_ROT_ROUNDS", "1"))


def body(number: int) -> bytes:
    return f"message {number:06d} ".encode() * 2


def queue_file(directory: Path, number: int = 0, topic: str = TOPIC, queue: int = 0) -> Path:
    folder = directory / "store" / "consumequeue" / topic / str(queue)
    return folder / f"{number * PER_FILE * ENTRY_BYTES:020d}"


def with_client(broker: BrokerProcess, work: Callable[[BrokerClient], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with BrokerClient(broker.port) as client:
            await work(client)

    asyncio.run(run())


async def fill(client: BrokerClient, first: int, count: int, topic: str = TOPIC) -> None:
    """Sends messages `first` .. to queue 0, and between them others to another topic."""
    if first == 0:
        assert (await client.send(topic, body(0))).fields["queueOffset"] == "0"
        assert (await client.send("others", b"x")).code == 0
        first, count = 1, count - 1
    sent = []
    with client.in_one_write():
        for number in range(first, first + count):
            sent.append((number, client.post_send(topic, body(number))))
            if number % 3 == 0:
                sent.append((-1, client.post_send("others", b"between", number % 4)))
    for number, opaque in sent:
        reply = await client.reply(opaque)
        assert reply.code == 0, reply.remark
        assert number < 0 or reply.fields["queueOffset"] == str(number)


async def read_all(client: BrokerClient, count: int, topic: str = TOPIC, step: int = 32) -> None:
    """Every message is at its offset: all from the front, and some singly."""
    at = 0
    while at < count:
        reply = await client.pull("g", topic, offset=at, maxMsgNums=step, **EVERYTHING)
        assert reply.code in (0, 20), f"offset {at}: {reply.code} {reply.remark}"
        found = list(decode_messages(reply.body))
        assert [m.body for m in found] == [body(n) for n in range(at, at + len(found))]
        assert [m.queue_offset for m in found] == list(range(at, at + len(found)))
        assert int(reply.fields["nextBeginOffset"]) == at + len(found), "something was passed"
        at += len(found)
    assert at == count


async def read_at(client: BrokerClient, number: int, topic: str = TOPIC) -> None:
    code = 20
    while code == 20:  # the repair takes longer than a pull waits
        reply = await client.pull("g", topic, offset=number, maxMsgNums=1, **EVERYTHING)
        code = reply.code
    assert code == 0, f"offset {number}: {reply.remark}"
    (message,) = decode_messages(reply.body)
    assert (message.body, message.queue_offset) == (body(number), number)


def zero(path: Path, start: int, length: int = PAGE) -> None:
    put(path, start, bytes(length))


def put(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


def flip(path: Path, byte: int, bit: int) -> None:
    with path.open("rb") as file:
        file.seek(byte)
        value = file.read(1)[0]
    put(path, byte, bytes([value ^ 1 << bit]))


EXAMPLES: dict[str, Callable[[Path], None]] = {
    "first page zeroed": lambda path: zero(path, 0),
    "tail page zeroed": lambda path: zero(path, COUNT * ENTRY_BYTES // PAGE * PAGE),
    "cut at 10,000 bytes": lambda path: os.truncate(path, 10_000),
    "middle page zeroed": lambda path: zero(path, 2 * PAGE),
    "flipped bit in a position": lambda path: flip(path, 500 * ENTRY_BYTES + 6, 3),
    "flipped bit in a size": lambda path: flip(path, 500 * ENTRY_BYTES + 10, 2),
    "flipped sign": lambda path: flip(path, 500 * ENTRY_BYTES, 7),
    "last entry flipped": lambda path: flip(path, (COUNT - 1) * ENTRY_BYTES + 7, 3),
    "deleted": lambda path: path.unlink(),
    "directory deleted": lambda path: shutil.rmtree(path.parent.parent),
    "longer": lambda path: put(path, PER_FILE * ENTRY_BYTES, b"\x01" * 1000),
    "garbage behind the end": lambda path: put(path, COUNT * ENTRY_BYTES + 60, b"\x07" * 2 * PAGE),
}
# Damage outside of the queue's entries needs no line.
QUIET = {"garbage behind the end"}


def topic_of(example: str) -> str:
    return example.replace(" ", "-").replace(",", "")


def spoil_all(directory: Path) -> None:
    for example, damage in EXAMPLES.items():
        path = queue_file(directory, topic=topic_of(example))
        if path.exists():  # the broker was killed before it made the file
            damage(path)


async def fill_all(client: BrokerClient) -> None:
    for example in EXAMPLES:
        await fill(client, 0, COUNT, topic_of(example))


@pytest.mark.parametrize("how", ["stopped", "killed", "killed at once"])
def test_a_damaged_queue_file_costs_no_message_and_no_offset(tmp_path: Path, how: str) -> None:
    """One topic for each kind of damage. "killed": when all entries are in the files; "killed at
    once": after the last answer. Above queueEnds' log offset entries are made again without being
    looked at, so no line is needed."""
    with broker_process(tmp_path, SETTINGS) as broker:
        with_client(broker, fill_all)
        if how == "killed":
            wait_for_files(tmp_path, {topic_of(example): COUNT for example in EXAMPLES})
        if how == "stopped":
            assert broker.stop() == 0
        else:
            broker.process.kill()
            broker.process.wait()
    spoil_all(tmp_path)
    (tmp_path / "broker.txt").unlink()
    with broker_process(tmp_path, SETTINGS) as broker:

        async def look(client: BrokerClient) -> None:
            for example in EXAMPLES:
                topic = topic_of(example)
                await read_at(client, 500, topic)
                await read_all(client, COUNT, topic)
                sent = await client.send(topic, body(COUNT))
                assert sent.fields["queueOffset"] == str(COUNT), example
                await read_all(client, COUNT + 1, topic)

        with_client(broker, look)
        for example in EXAMPLES if how == "stopped" else ():
            folder = queue_file(tmp_path, topic=topic_of(example)).parent
            assert (f"{folder}" in broker.log()) != (example in QUIET), example
        assert broker.stop() == 0
    assert check_store(tmp_path / "store", strict=True).problems == []


def is_written(path: Path, entry: int) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(entry * ENTRY_BYTES)
        return file.read(12) > bytes(12)


def test_damage_while_serving_is_mended_and_the_pull_goes_on(tmp_path: Path) -> None:
    """A restart before has left the queues' entries in files only."""
    with broker_process(tmp_path, SETTINGS) as broker:
        with_client(broker, fill_all)
        assert broker.stop() == 0
    with broker_process(tmp_path, SETTINGS) as broker:
        spoil_all(tmp_path)

        async def look(client: BrokerClient) -> None:
            for example in EXAMPLES:
                topic = topic_of(example)
                await read_at(client, 500, topic)
                await read_all(client, COUNT, topic)
                await fill(client, COUNT, 100, topic)
                await read_all(client, COUNT + 100, topic)

        with_client(broker, look)
        for example in EXAMPLES:
            path = queue_file(tmp_path, topic=topic_of(example))
            # Bytes behind the file's length, or behind the last entry, are not read.
            assert (f"{path}:" in broker.log()) != (example in (*QUIET, "longer")), example
        assert "made anew" in broker.log()
        broker.process.kill()
        broker.process.wait()
    with broker_process(tmp_path, SETTINGS) as broker:

        async def look_again(client: BrokerClient) -> None:
            for example in EXAMPLES:
                await read_all(client, COUNT + 100, topic_of(example))

        with_client(broker, look_again)
        assert broker.stop() == 0
    assert check_store(tmp_path / "store", strict=True).problems == []


# ---- random rounds


def damage_once(path: Path, entries: int, dice: random.Random) -> str:
    """Damages a file of which `entries` are in use; returns what was done."""
    kind = dice.choice(["zero page", "flipped bits", "cut", "garbage page", "deleted", "appended",
                        "extra-long", "swapped pages", "old page"])  # fmt: skip
    used = max(entries * ENTRY_BYTES, 1)
    page = dice.randrange(used) // PAGE * PAGE
    if not path.exists():
        return "already deleted"
    if kind == "zero page":
        zero(path, page)
    elif kind == "flipped bits":
        for _ in range(dice.randint(1, 40)):
            entry = dice.randrange(max(entries, 1))
            byte = dice.randrange(12)  # the tag code is left out, because nothing else knows it
            if (entry + 1) * ENTRY_BYTES <= path.stat().st_size:
                flip(path, entry * ENTRY_BYTES + byte, dice.randrange(8))
    elif kind == "cut":
        os.truncate(path, dice.randrange(used))
    elif kind == "garbage page":
        put(path, page, dice.randbytes(PAGE))
    elif kind == "deleted":
        path.unlink()
    elif kind == "appended":
        put(path, entries * ENTRY_BYTES, dice.randbytes(dice.randint(1, 3 * PAGE)))
    elif kind == "extra-long":
        put(path, PER_FILE * ENTRY_BYTES, dice.randbytes(dice.randint(1, 2 * PAGE)))
    else:
        with path.open("rb") as file:
            file.seek(dice.randrange(used) // PAGE * PAGE)
            data = file.read(PAGE)
        put(path, page, data)
    return f"{kind} at {page}"


@pytest.mark.parametrize("number", range(ROUNDS))
def test_bit_rot_of_queue_files(tmp_path: Path, number: int) -> None:
    seed = int(os.environ.get("RMQ_BIT_ROT_SEED", random.SystemRandom().randrange(1 << 32)))
    dice = random.Random(seed + number)
    counts = {f"rot-{n}": 0 for n in range(3)}
    told = [f"seed {seed} + {number}"]
    print(told[0])
    options = [*SETTINGS]

    async def grow(client: BrokerClient) -> None:
        for topic in counts:
            more = dice.choice([1, 200, 700])
            await fill(client, counts[topic], more, topic)
            counts[topic] += more

    async def look(client: BrokerClient) -> None:
        for topic in dice.sample(list(counts), len(counts)):
            if counts[topic]:
                await read_at(client, dice.randrange(counts[topic]), topic)
                await read_all(client, counts[topic], topic, dice.choice([1, 7, 32]) if
                               counts[topic] < 300 else 32)  # fmt: skip

    def spoil() -> None:
        for topic in dice.sample(list(counts), dice.randint(1, len(counts))):
            for _ in range(dice.randint(1, 3)):
                path = queue_file(tmp_path, topic=topic)
                told.append(f"{topic}: {damage_once(path, counts[topic], dice)}")

    try:
        for how in dice.sample(["stop", "kill", "serve", "stop", "serve", "kill"], 4):
            with broker_process(tmp_path, options) as broker:
                with_client(broker, look)
                if how == "serve":
                    told.append("while serving:")
                    spoil()
                    with_client(broker, look)
                with_client(broker, grow)
                with_client(broker, look)
                if how == "kill":
                    if dice.random() < 0.5:
                        wait_for_files(tmp_path, counts)
                    broker.process.kill()
                    broker.process.wait()
                else:
                    assert broker.stop() == 0
            if how != "serve":
                told.append(f"after {how}:")
                spoil()
        with broker_process(tmp_path, options) as broker:
            with_client(broker, look)
            assert broker.stop() == 0
        assert check_store(tmp_path / "store", strict=True).problems == []
    except AssertionError as error:
        raise AssertionError("\n".join([*told, str(error)])) from error


def wait_for_files(directory: Path, counts: dict[str, int]) -> None:
    async def wait() -> None:
        for topic, count in counts.items():
            await until(lambda t=topic, n=count: is_written(queue_file(directory, topic=t), n - 1))

    asyncio.run(wait())


# ---- what cannot be made again for now

# Smaller steps than the two minutes after which silent connections are closed.
DUE_S, STEP_S = 120, 30
LEVEL = 6  # its delay is two minutes
HOUR_MS = 3_600_000
HALF = 4  # TRANSACTION_PREPARED_TYPE of sysFlag
NO_CHECKS = ["--set", f"transactionCheckInterval={HOUR_MS}"]  # half messages stay where they are
# So that no half message is given up before the end.
MANY_CHECKS = ["--set", "transactionCheckMax=1000"]
UPDATE_CONFIG = 25
SPOILED = ["zeros", "another record", "over the end of a file"]


def spoil_entry(path: Path, number: int, how: str) -> None:
    """The entry becomes zeros; or names the record of the entry before it; or a place that no
    record can have."""
    at = number * ENTRY_BYTES
    if how == "zeros":
        zero(path, at, ENTRY_BYTES)
    elif how == "another record":
        put(path, at, path.read_bytes()[at - ENTRY_BYTES : at])
    else:
        put(path, at, (LOG_FILE_BYTES - 10).to_bytes(8, "big"))


async def fill_log(client: BrokerClient) -> None:
    """Sends more than a file of the log."""
    for _ in range(90):
        assert (await client.send("filler", bytes(100_000))).code == 0


async def store_all(client: BrokerClient, born_ms: int) -> None:
    """Three messages of each kind that the broker must read again later."""
    assert (await client.send("d", b"make")).code == 0
    for number in range(3):
        half = f"TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U{number}\x02"
        for topic, properties, flags in (
            ("d", f"DELAY\x01{LEVEL}\x02", 0), ("d", half, HALF), ("p", "", 0), ("q", "", 0),
        ):  # fmt: skip
            sent = await client.send(topic, b"%d" % number, i=properties, f=flags, g=born_ms)
            assert sent.code == 0, sent.remark
    for group, topic in (("g", "p"), ("h", "q")):
        assert (await client.heartbeat(group, topic)).code == 0
    assert len(await pop(client, "g", "p", invisibleTime=DUE_S * 1000)) == 3
    await fill_log(client)


async def pass_time(client: BrokerClient, clock: DrivenClock, seconds: int) -> None:
    """Lets time pass, with heartbeats of a producer group."""
    beat = {"clientID": client.client_id, "consumerDataSet": [],
            "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
    for _ in range(0, seconds, STEP_S):
        clock.advance(STEP_S)
        assert (await client.call(34, fastjson.dumps(beat))).code == 0


async def end_of(client: BrokerClient, topic: str) -> int:
    return int((await client.call(30, topic=topic, queueId=0)).fields["offset"])


async def until_end(client: BrokerClient, topic: str, offset: int) -> None:
    await until_is(lambda: end_of(client, topic), lambda end: end == offset, still=True)


async def keys_asked(client: BrokerClient, *wanted: str) -> set[str]:
    """The keys of the half messages that the producer is asked about, once `wanted` are among
    them."""
    keys: set[str] = set()
    while not keys.issuperset(wanted):
        message, _ = decode_message((await client.asked(39)).body)
        keys.add(message.properties["UNIQ_KEY"])
    return keys


def bodies(some: list[Popped]) -> set[bytes]:
    return {one.body for one in some}


def could_not_be_mended(broker: BrokerProcess, topic: str, queue: int, offset: int) -> None:
    broker.logged(f"/{topic}/{queue}/[0-9]+:[0-9]+: damaged at offset {offset} of the queue and "
                  "could not be made anew")  # fmt: skip


def nothing_was_passed(broker: BrokerProcess) -> None:
    for words in ("is passed", ": passed", "pop passes", "cannot be read", "is given up",
                  "does not come again"):  # fmt: skip
        assert words not in broker.log()


@pytest.mark.parametrize("how", SPOILED)
def test_what_could_not_be_made_anew_for_now_is_waited_for(
    tmp_path: Path, faults: Faults, how: str
) -> None:
    """A delayed message, a half message, a message that was popped and not acknowledged, and one
    that is to be popped: of each kind the entry of the second of three is damaged."""
    damaged = {names.SCHEDULE_TOPIC: LEVEL - 1, names.HALF_TOPIC: 0, "p": 0, "q": 0}

    async def look(client: BrokerClient) -> None:
        # Checks begin only now: a test that waited for the next one would wait by the machine's
        # clock.
        assert (await client.call(UPDATE_CONFIG, b"transactionCheckInterval=1000")).code == 0
        assert bodies(await pop(client, "h", "q", invisibleTime=HOUR_MS)) == {b"0"}
        assert await pop(client, "h", "q") == []
        await pass_time(client, clock, DUE_S + STEP_S)
        for topic, queue in damaged.items():
            could_not_be_mended(broker, topic, queue, 1)
        for _ in range(5):  # so that everything that waits looks again
            clock.advance(1)
            assert await pop(client, "h", "q") == []
        assert await keys_asked(client, "U0", "U2") == {"U0", "U2"}
        assert bodies(await pop(client, "g", "p", invisibleTime=HOUR_MS)) == {b"0"}
        assert await end_of(client, "d") == 2
        nothing_was_passed(broker)
        faults.clear()
        await pass_time(client, clock, 60 + 2 * STEP_S)
        await until_end(client, "d", 4)
        assert "U1" in await keys_asked(client, "U1")
        for group, topic in (("g", "p"), ("h", "q")):
            rest = await pop_all(client, group, topic, 2, invisibleTime=HOUR_MS)
            assert bodies(rest) == {b"1", b"2"}

    with process_clock(tmp_path) as clock:
        with broker_process(tmp_path, [*SETTINGS, *NO_CHECKS], clock.environment) as broker:
            with_client(broker, lambda client: store_all(client, clock.now_ms()))
            assert broker.stop() == 0
        environment = {**clock.environment, **faults.environment()}
        with broker_process(tmp_path, [*SETTINGS, *MANY_CHECKS], environment) as broker:
            for topic, queue in damaged.items():
                faults.fail("pwrite", errno.ENOSPC, path=f"consumequeue/{topic}/")
                spoil_entry(queue_file(tmp_path, topic=topic, queue=queue), 1, how)
            with_client(broker, look)
            nothing_was_passed(broker)


@pytest.mark.parametrize("how", SPOILED)
def test_timers_wait_for_what_could_not_be_made_anew_for_now(
    tmp_path: Path, faults: Faults, how: str
) -> None:
    """The timers' queue is read again, because their own files are gone. A start itself looks at
    the entries around the ends of the queue."""

    async def store(client: BrokerClient) -> None:
        assert (await client.send("w", b"make")).code == 0
        with client.in_one_write():
            posts = [
                client.post_send("w", body(number), i=f"TIMER_DELAY_SEC\x01{DUE_S}\x02")
                for number in range(COUNT)
            ]
        for post in posts:
            assert (await client.reply(post)).code == 0
        await fill_log(client)

    async def look(client: BrokerClient) -> None:
        could_not_be_mended(broker, names.TIMER_TOPIC, 0, 300)
        await pass_time(client, clock, DUE_S + STEP_S)
        for _ in range(5):
            clock.advance(1)
            assert await end_of(client, "w") == 1
        nothing_was_passed(broker)
        faults.clear()
        await pass_time(client, clock, 60 + 2 * STEP_S)
        await until_end(client, "w", 1 + COUNT)

    with process_clock(tmp_path) as clock:
        with broker_process(tmp_path, SETTINGS, clock.environment) as broker:
            with_client(broker, store)
            assert broker.stop() == 0
        shutil.rmtree(tmp_path / "store" / "rmqTimers")
        (tmp_path / "store" / "config" / "timercheck").unlink()
        spoil_entry(queue_file(tmp_path, topic=names.TIMER_TOPIC), 300, how)
        faults.fail("pwrite", errno.ENOSPC, path=f"consumequeue/{names.TIMER_TOPIC}/")
        environment = {**clock.environment, **faults.environment()}
        with broker_process(tmp_path, SETTINGS, environment) as broker:
            with_client(broker, look)
            nothing_was_passed(broker)


# ---- the record or its entry


BODY_AT = 88  # where the body begins in a record


def place_of(path: Path, number: int) -> tuple[int, int]:
    """Log offset and size of the record, from its queue entry."""
    entry = path.read_bytes()[number * ENTRY_BYTES :][:12]
    return int.from_bytes(entry[:8], "big"), int.from_bytes(entry[8:], "big")


async def answer_at(client: BrokerClient, number: int) -> int:
    code = 20
    while code == 20:  # the pull is held while the queue is mended
        reply = await client.pull("g", TOPIC, offset=number, maxMsgNums=1, **EVERYTHING)
        code = reply.code
    return code


def test_records_side_by_side_that_are_damaged_are_called_so(tmp_path: Path) -> None:
    """Their queue entries are right, but neither record says where the other one begins."""
    with broker_process(tmp_path, SETTINGS) as broker:
        with_client(broker, lambda client: fill(client, 0, COUNT))
        assert broker.stop() == 0
    log = tmp_path / "store" / "commitlog" / f"{0:020d}"
    numbers = range(500, 503)

    async def look(client: BrokerClient) -> None:
        assert {await answer_at(client, number) for number in numbers} == {1}
        await read_at(client, numbers.stop)

    with broker_process(tmp_path, SETTINGS) as broker:
        for number in numbers:
            flip(log, place_of(queue_file(tmp_path), number)[0] + BODY_AT, 0)
        with_client(broker, look)


def test_what_an_entry_names_and_cannot_be_read_is_not_called_damaged(
    tmp_path: Path, faults: Faults
) -> None:
    """The entry is wrong, because it names a place inside its record, which the log has whole."""
    options = [*SETTINGS, "--set", "messageIndexEnable=false"]  # nobody else reads the log
    path = queue_file(tmp_path)
    with broker_process(tmp_path, options) as broker:
        with_client(broker, lambda client: fill(client, 0, COUNT))
        assert broker.stop() == 0
    with broker_process(tmp_path, options, faults.environment()) as broker:
        place, size = place_of(path, 500)
        wrong = (place + 10).to_bytes(8, "big") + (size - 10).to_bytes(4, "big")
        put(path, 500 * ENTRY_BYTES, wrong)
        # The repair reads this place twice, then what lies behind it.
        faults.fail("pread", errno.EIO, path="commitlog/", count=2)
        with_client(broker, lambda client: read_at(client, 500))
        assert faults.hits(0) == 2
