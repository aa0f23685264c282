"""Goal: damage to any file beside the log costs no message, gives no offset twice and is named.

Method: two stores are made once, one of a stopped broker and one of a killed one. Each round copies
one of them, damages one file at a random place (a flipped bit, a zeroed page, cut short, garbage,
too long, gone), starts a broker process on it and looks at everything: each message is at its
offset, delayed messages come once, the next send gets the next offset, a key finds its message (or
nothing, if the index was damaged), and if the damage hit what is read, the log has a line with the
file's name.
Commit log: tests/fault/test_flipped_bits.py; consume queues: tests/fault/test_queue_damage.py.
Cannot prove: that a key index whose entries were changed finds everything. Its format has no
checksum; `rmq store check` compares it with the log.

A few rounds by default; `make bit-rot` runs 200 (RMQ_BIT_ROT_ROUNDS). The seed is in the test's
name.
"""

import asyncio
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.store_copies import copy_store
from support.stored_table import stored_offsets
from support.waiting import until, until_is

from rmq.base.journal_file import OFFSETS_NAME
from rmq.format.message import StoredMessage, decode_messages

ROUNDS = int(os.environ.get("RMQ_BIT_ROT_ROUNDS", "6"))
SETTINGS = [
    "--set", "mappedFileSizeCommitLog=1048576", "--set", "mappedFileSizeConsumeQueue=6000",
    "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=400",
    "--set", "flushConsumerOffsetInterval=100", "--set", "messageDelayLevel=1s 2s",
]  # fmt: skip
MESSAGES, DELAYED, LATER_MS = 400, 60, 2000
CREATE_TOPIC, CREATE_GROUP, UPDATE_OFFSET, QUERY_OFFSET = 17, 200, 15, 14
QUERY_BY_KEY, MAX_OFFSET = 12, 30
KINDS = ("flip", "flip", "zero", "cut", "garbage", "longer", "gone", "empty", "all")


@dataclass
class Image:
    """A store as a broker left it, and what must be found in it."""

    store: Path
    killed: bool
    topics: dict[tuple[str, int], list[StoredMessage]] = field(default_factory=dict)
    delayed: set[bytes] = field(default_factory=set)
    due_ms: int = 0  # when the last of them is due


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def read(
    client: BrokerClient, topic: str, queue: int, offset: int = 0
) -> list[StoredMessage]:
    """All messages from an offset on; each must be at its own offset."""
    found: list[StoredMessage] = []
    end = int((await client.call(MAX_OFFSET, topic=topic, queueId=queue)).fields["offset"])
    while offset + len(found) < end:
        reply = await client.pull(
            "g", topic, queue, offset + len(found), sysFlag=4, subscription="*",
            expressionType="TAG",
        )  # fmt: skip
        assert reply.code == 0, (topic, queue, offset + len(found), end, reply.remark)
        found += decode_messages(reply.body)
    assert [message.queue_offset for message in found] == [*range(offset, offset + len(found))]
    return found


def timer(due_ms: int) -> str:
    return f"TIMER_DELIVER_MS\x01{due_ms}\x02"


def wave(client: BrokerClient, image: Image, name: str, wait_ms: int, level: int) -> list[int]:
    """Posts timed and delayed messages, half of each kind; returns their opaques."""
    posted = []
    for number in range(DELAYED // 2):
        for kind, properties in (
            ("timed", timer(now_ms() + wait_ms)), ("delayed", f"DELAY\x01{level}\x02"),
        ):  # fmt: skip
            body = f"{kind} {name} {number}".encode()
            posted.append(client.post_send("late", body, i=properties))
            image.delayed.add(body)
    image.due_ms = now_ms() + wait_ms
    return posted


async def fill(broker: BrokerProcess, image: Image) -> None:
    """Fills three queues with keys, makes tables, and sends delayed and timed messages, of which
    some are delivered at the end and some not."""
    async with BrokerClient(broker.port) as client:
        for topic in ("a", "b", "late"):
            reply = await client.call(
                CREATE_TOPIC, topic=topic, readQueueNums=2, writeQueueNums=2, perm=6, order=False,
                defaultTopic="TBW102", topicFilterType="SINGLE_TAG", topicSysFlag=0,
            )  # fmt: skip
            assert reply.code == 0
        group = b'{"groupName":"g","consumeEnable":true,"retryMaxTimes":7}'
        assert (await client.call(CREATE_GROUP, group)).code == 0
        posted = []
        for number in range(MESSAGES):
            for topic, queue in (("a", 0), ("a", 1), ("b", 0)):
                properties = f"KEYS\x01{topic}{queue}-{number}\x02"
                body = b"%s %d " % (topic.encode(), number) * (number % 40 + 1)
                posted.append(client.post_send(topic, body, queue, i=properties))
        posted += wave(client, image, "first", 200, 1)
        for opaque in posted:
            assert (await client.reply(opaque)).code == 0
        await until_is(lambda: read(client, "late", 0), lambda found: len(found) >= DELAYED)
        # The newest topic and offset. A copy of the table from before does not have them.
        assert (await client.send("newest", b"only")).code == 0
        for topic, queue in (("a", 0), ("a", 1), ("b", 0), ("newest", 0)):
            image.topics[topic, queue] = await read(client, topic, queue)
        place = {"consumerGroup": "g", "topic": "a", "queueId": 0}
        for offset in (50, 100):
            assert (await client.call(UPDATE_OFFSET, commitOffset=offset, **place)).code == 0
            await until_is(
                lambda: stored_offsets(image.store).get("a@g"),
                lambda found, wanted=offset: found == {"0": wanted},
            )
        for opaque in wave(client, image, "second", LATER_MS, 2):
            assert (await client.reply(opaque)).code == 0


def made(directory: Path, killed: bool) -> Image:
    image = Image(directory / "store", killed)
    broker = start_broker(directory, SETTINGS)
    try:
        asyncio.run(fill(broker, image))
        if killed:
            broker.process.kill()
            broker.process.wait()
        else:
            assert broker.stop() == 0
    finally:
        broker.process.kill()
        broker.process.wait()
        assert broker.process.stdout is not None
        broker.process.stdout.close()
    return image


@pytest.fixture(scope="module", params=["stopped", "killed"])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return made(tmp_path_factory.mktemp("image"), request.param == "killed")


# ---- damage


def files_of(store: Path) -> list[str]:
    """All files except those of the log and the queues."""
    return sorted(
        str(path.relative_to(store))
        for path in store.rglob("*")
        if path.is_file() and path.relative_to(store).parts[0] not in ("commitlog", "consumequeue")
    )


def damaged(data: bytes, chance: random.Random) -> tuple[str, bytes | None]:
    """(what was done, the new content; None: the file is gone)."""
    size = len(data)
    at = chance.randrange(size + 1)
    length = min(chance.choice((1, 8, 20, 512, 4096)), size - at)
    kind = chance.choice(KINDS)
    if kind == "flip" and size:
        at = min(at, size - 1)
        bit = chance.randrange(8)
        return f"bit {bit} of byte {at} flipped", (
            data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        )
    if kind == "zero":
        return f"{length} bytes zeroed at {at}", data[:at] + bytes(length) + data[at + length :]
    if kind == "cut":
        return f"cut at {at}", data[:at]
    if kind == "garbage":
        junk = chance.randbytes(length)
        return f"{length} bytes of garbage at {at}", data[:at] + junk + data[at + length :]
    if kind == "longer":
        return "4096 bytes of garbage appended", data + chance.randbytes(4096)
    if kind == "gone":
        return "gone", None
    if kind == "all":
        return "all of it garbage", chance.randbytes(size)
    return "empty", b""


async def look(broker: BrokerProcess, image: Image, name: str) -> tuple[Counter[bytes], int]:
    """Checks everything that must be found; returns how often each delayed message came, and the
    group's offset."""
    async with BrokerClient(broker.port) as client:
        for (topic, queue), wanted in image.topics.items():
            assert await read(client, topic, queue) == wanted, (topic, queue)
        came = await all_delayed(client, image)
        for (topic, queue), wanted in image.topics.items():
            sent = await client.send(topic, b"behind", queue)
            assert sent.fields["queueOffset"] == str(len(wanted)), (topic, queue)
        for number in (0, 7, MESSAGES // 2, MESSAGES - 1):
            found = await client.call(
                QUERY_BY_KEY, topic="a", key=f"a0-{number}", maxNum=8, beginTimestamp=0,
                endTimestamp=now_ms() + 100_000,
            )  # fmt: skip
            wanted = [image.topics["a", 0][number]]
            assert list(decode_messages(found.body)) == wanted or name.startswith("index/")
        place = {"consumerGroup": "g", "topic": "a", "queueId": 0}
        reply = await client.call(QUERY_OFFSET, **place)
        return came, int(reply.fields.get("offset", -1))


async def all_delayed(client: BrokerClient, image: Image) -> Counter[bytes]:
    """Waits for all delayed messages. Two more are sent that are due after all others: when these
    have come, nothing more comes."""
    last = {b"last timed", b"last delayed"}
    due = timer(max(now_ms(), image.due_ms) + 200)
    for body, properties in ((b"last timed", due), (b"last delayed", "DELAY\x012\x02")):
        assert (await client.send("late", body, i=properties)).code == 0
    came: Counter[bytes] = Counter()

    async def has_come() -> bool:
        more = await read(client, "late", 0, came.total())
        came.update(message.body for message in more)
        return last <= came.keys()

    await until(has_come)
    assert not image.delayed - came.keys(), sorted(image.delayed - came.keys())[:5]
    return came


def must_be_named(name: str, before: bytes, after: bytes | None) -> bool:
    """Whether the damage is in what a start reads, and cannot be taken for anything else."""
    if name.endswith(".bak") or after == before:
        return False
    if name.startswith("config/") and name.endswith(".json"):
        return True  # also if the file is gone, because the .bak is still there
    if name.startswith("config/") and name.endswith(".journal"):
        # If the cut is between two records, the records before it are a whole journal.
        return after is None or not before.startswith(after) or not is_whole_journal(after)
    if name == "checkpoint":
        own = slice(1024, 1100)
        return after is None or (before[:8], before[own]) != (after[:8], after[own])
    if name == "rmqTimers/position":
        return after is None or before[:88] != after[:88]
    if name.startswith("rmqTimers/") and name.endswith(".run"):
        # Other damage is named when the entry is read.
        return after is None or len(after) < len(before)
    if name.startswith("rmqTimers/"):
        return after is not None and before != after[: len(before)] and len(before) > 36
    return name.startswith("index/") and after is not None and len(after) != len(before)


def is_whole_journal(data: bytes) -> bool:
    """Whether the journal ends behind a record. This does not use the product's reader."""
    at = 0
    while at + 20 <= len(data):
        at += 20 + int.from_bytes(data[at + 4 : at + 8], "big")
    return 0 < at == len(data)


@pytest.mark.parametrize("seed", range(max(1, ROUNDS // 2)))  # of each image
def test_damage_beside_the_log_costs_no_message(image: Image, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    copy_store(image.store, tmp_path / "store")
    # A file, or a folder, to which the test is limited.
    wanted = os.environ.get("RMQ_BIT_ROT_FILE", "")
    files = files_of(tmp_path / "store")
    name = chance.choice([name for name in files if name.startswith(wanted)])
    path = tmp_path / "store" / name
    before = path.read_bytes()
    what, after = damaged(before, chance)
    if after is None:
        path.unlink()
    else:
        path.write_bytes(after)
    print(f"{'killed' if image.killed else 'stopped'}, {name}: {what}")
    with broker_process(tmp_path, SETTINGS) as broker:
        came, offset = asyncio.run(look(broker, image, name))
        lines = [line for line in broker.log().splitlines() if " INFO " not in line]
        assert broker.stop() == 0
    said = "\n".join(lines)
    if must_be_named(name, before, after):
        assert Path(name).name in said or name in said, said
    again = {body for body, times in came.items() if times > 1}
    if image.killed:  # what was delivered since the last save of delayOffset.json comes again
        again = {body for body in again if not body.startswith(b"delayed ")}
        if name == "rmqTimers/position" and "is damaged" in said:
            again = set()  # only this file knows what was delivered, until a stop
    assert not again, sorted(again)[:5]
    assert offset == 100 or (image.killed and name == f"config/{OFFSETS_NAME}" and offset < 100)


def test_config_files_without_any_whole_copy(image: Image, tmp_path: Path) -> None:
    """If no copy of a file is whole, the start goes on with what can be set right, or refuses in
    one line."""
    for name in ("consumerOffset.json", "topics.json"):
        copy_store(image.store, tmp_path / name / "store")
        for copy in (name, name + ".bak"):
            (tmp_path / name / "store" / "config" / copy).write_bytes(b'{"dataVer')
    with broker_process(tmp_path / "consumerOffset.json", SETTINGS) as broker:
        assert "no whole copy is left; the start goes on: all groups begin" in broker.log()
        assert broker.stop() == 0
    with pytest.raises(AssertionError, match="topics that have queues") as caught:
        start_broker(tmp_path / "topics.json", SETTINGS)
    assert "Traceback" not in str(caught.value)
    for copy in ("topics.json", "topics.json.bak"):  # as the refusal advises
        (tmp_path / "topics.json" / "store" / "config" / copy).unlink()
    with broker_process(tmp_path / "topics.json", SETTINGS) as broker:

        async def read_all() -> None:
            async with BrokerClient(broker.port) as client:
                for (topic, queue), wanted in image.topics.items():
                    assert await read(client, topic, queue) == wanted, (topic, queue)

        asyncio.run(read_all())
