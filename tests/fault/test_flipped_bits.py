"""Goal: after a bit has flipped in any file of the store, no wrong byte is served, the damage is
named, and everything else is served as before.

Method: a broker process fills a store. While it is down, bits are flipped, one in each record (with
enough records every bit of a record has its turn); a new process serves what is left. Without
enabledAppendPropCRC the body is covered, and what a queue entry says of a record; with it, all of
the record.
Known gap: the lower half of a queue entry's tag code, which only the offline checker can find.
"""

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.stored_table import stored_offsets
from support.waiting import until

from rmq.format.message import StoredMessage, decode_messages
from rmq.offline.checker import check_store

SEGMENT, ENTRY_BYTES = 1 << 20, 20
SETTINGS = [
    "--set", f"mappedFileSizeCommitLog={SEGMENT}", "--set", "mappedFileSizeConsumeQueue=200000",
    "--set", "flushConsumerOffsetInterval=100",
]  # fmt: skip
CHECKSUMS = ["--set", "enabledAppendPropCRC=true"]
VIEW_BY_ID, CREATE_TOPIC, CREATE_GROUP, UPDATE_OFFSET, QUERY_OFFSET = 33, 17, 200, 15, 14
PROPERTIES = "KEYS\x01order\x02TAGS\x01red\x02UNIQ_KEY\x017F00000100002A9F4E6B1C7D00000000\x02"


def body(number: int) -> bytes:
    return f"message {number:06d} ".encode() * 3


def fill(directory: Path, count: int, *options: str) -> list[StoredMessage]:
    """Makes a store with `count` records of equal size in queue 0 of "flips"; returns them as they
    are."""
    found: list[StoredMessage] = []
    with broker_process(directory, [*SETTINGS, *options]) as broker:

        async def run() -> None:
            async with BrokerClient(broker.port) as client:
                await client.send("flips", body(0), i=PROPERTIES)
                sent = [client.post_send("flips", body(n), i=PROPERTIES) for n in range(1, count)]
                for opaque in sent:
                    assert (await client.reply(opaque)).code == 0
                while len(found) < count:
                    found.extend(await pull(client, len(found)))

        asyncio.run(run())
        assert broker.stop() == 0
    assert len({message.body for message in found}) == count
    return found


async def pull(client: BrokerClient, offset: int, **fields: Any) -> list[StoredMessage]:
    reply = await client.pull("g", "flips", offset=offset, **{**EVERYTHING, **fields})
    assert reply.code == 0, reply.remark
    return list(decode_messages(reply.body))


EVERYTHING = {"sysFlag": 4, "subscription": "*", "expressionType": "TAG"}


def flip(path: Path, byte: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ 1 << bit]))


def with_client(broker: BrokerProcess, work: Callable[[BrokerClient], Any]) -> None:
    async def run() -> None:
        async with BrokerClient(broker.port) as client:
            await work(client)

    asyncio.run(run())


def record_sizes(messages: list[StoredMessage]) -> int:
    sizes = {
        after.physical_offset - before.physical_offset
        for before, after in itertools.pairwise(messages)
    }
    assert len(sizes) == 1, "all records of one size, in one segment"
    return sizes.pop()


def test_no_bit_of_a_record_flips_unseen_with_checksums_of_records(tmp_path: Path) -> None:
    messages = fill(tmp_path, 2600, *CHECKSUMS)
    size = record_sizes(messages)
    log = tmp_path / "store" / "commitlog" / f"{0:020d}"
    damaged = range(0, size * 8)  # bit n of record n is flipped; the records behind these are whole
    assert len(messages) > len(damaged) + 20
    for bit in damaged:
        flip(log, messages[bit].physical_offset + bit // 8, bit % 8)
    named = {problem.offset for problem in check_store(tmp_path / "store", strict=False).problems}
    assert messages[0].physical_offset in named
    with broker_process(tmp_path, SETTINGS) as broker:

        async def read_all(client: BrokerClient) -> None:
            for number, message in enumerate(messages):
                reply = await client.pull("g", "flips", offset=number, maxMsgNums=1, **EVERYTHING)
                if number not in damaged:
                    assert reply.code == 0, f"{number}: {reply.remark}"
                    assert list(decode_messages(reply.body)) == [message]
                    continue
                place = f"at commit log offset {message.physical_offset} "
                assert reply.code == 1, f"bit {number} was not noticed"
                assert place in reply.remark
                view = await client.call(VIEW_BY_ID, offset=message.physical_offset)
                assert view.code != 0, f"bit {number} was not noticed when viewed by id"

        with_client(broker, read_all)
        assert broker.logged(rf"offset {messages[0].physical_offset} \(topic flips")


def test_damage_met_by_recovery_is_named_and_leaves_a_hole_not_another_message(
    tmp_path: Path,
) -> None:
    messages = fill(tmp_path, 400, *CHECKSUMS)
    log = tmp_path / "store" / "commitlog" / f"{0:020d}"
    damaged = range(20, 380, 3)
    for number in damaged:
        flip(log, messages[number].physical_offset + number % 200, number % 8)
    for name in ("checkpoint", "queueEnds", "queueEnds.synced"):
        (tmp_path / "store" / name).unlink()  # so that recovery reads the whole log
    (tmp_path / "store" / "abort").touch()
    whole = [message for number, message in enumerate(messages) if number not in damaged]
    with broker_process(tmp_path, SETTINGS) as broker:

        async def read_all(client: BrokerClient) -> None:
            found: list[StoredMessage] = []
            at = 0
            while at < len(messages):
                reply = await client.pull("g", "flips", offset=at, **EVERYTHING)
                assert reply.code in (0, 20), reply.remark
                found += decode_messages(reply.body)
                at = int(reply.fields["nextBeginOffset"])
            assert found == whole
            sent = await client.send("flips", b"behind the last")
            assert sent.fields["queueOffset"] == str(len(messages))

        with_client(broker, read_all)
        assert broker.logged(f"damaged at log offset {messages[20].physical_offset}")


def test_without_checksums_of_records_body_and_identity_are_covered(tmp_path: Path) -> None:
    messages = fill(tmp_path, 1200)
    size = record_sizes(messages)
    log = tmp_path / "store" / "commitlog" / f"{0:020d}"
    covered = [
        *range(0, 12),  # size, magic, checksum of the body
        *range(12, 16),  # queue
        *range(20, 36),  # queue offset, physical offset
        # Body, topic, length of the properties.
        *range(84, 88 + len(body(0)) + 1 + len("flips") + 2),
    ]
    bits = [(byte, bit) for byte in covered for bit in range(8)]
    assert size > covered[-1] and len(bits) < len(messages)
    for message, (byte, bit) in zip(messages, bits, strict=False):
        flip(log, message.physical_offset + byte, bit)
    with broker_process(tmp_path, SETTINGS) as broker:

        async def read_all(client: BrokerClient) -> None:
            for number, message in enumerate(messages):
                reply = await client.pull("g", "flips", offset=number, maxMsgNums=1, **EVERYTHING)
                if number < len(bits):
                    assert reply.code == 1, f"bit {bits[number]} was not noticed"
                    assert f"at commit log offset {message.physical_offset} " in reply.remark
                else:
                    assert list(decode_messages(reply.body)) == [message]

        with_client(broker, read_all)


def test_a_flipped_bit_in_a_queue_entry_never_gives_another_message(tmp_path: Path) -> None:
    """The damage does not even cost the entry's own message: the entry is made again from the
    log."""
    messages = fill(tmp_path, 400, "--set", f"mappedFileSizeConsumeQueue={ENTRY_BYTES * 400}")
    queue = tmp_path / "store" / "consumequeue" / "flips" / "0" / f"{0:020d}"
    for bit in range(ENTRY_BYTES * 8):
        flip(queue, bit * ENTRY_BYTES + bit // 8, bit % 8)
    assert check_store(tmp_path / "store").problems
    with broker_process(tmp_path, SETTINGS) as broker:

        async def read_all(client: BrokerClient) -> None:
            for number, message in enumerate(messages):
                reply = await client.pull("g", "flips", offset=number, maxMsgNums=1, **EVERYTHING)
                assert reply.code == 0, f"{number}: {reply.remark}"
                assert list(decode_messages(reply.body)) == [message]

        with_client(broker, read_all)
        assert broker.logged(f"{queue}:")
        assert broker.stop() == 0
    # The lower half of a tag code is right, too, because entries beside it were made again.
    assert check_store(tmp_path / "store").problems == []


async def make_tables(client: BrokerClient, store: Path) -> None:
    """Writes each table twice, so that each file has a whole .bak."""
    topic = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
    for name in ("first", "second"):
        reply = await client.call(CREATE_TOPIC, topic=name, readQueueNums=5, writeQueueNums=5,
                                  perm=6, order=False, **topic)  # fmt: skip
        assert reply.code == 0
        group = {"groupName": f"g-{name}", "consumeEnable": True, "retryMaxTimes": 7}
        assert (await client.call(CREATE_GROUP, json.dumps(group).encode())).code == 0
        place = {"consumerGroup": "g-first", "topic": "first", "queueId": 0}
        offset = {"first": 1000, "second": 2000}[name]
        assert (await client.call(UPDATE_OFFSET, commitOffset=offset, **place)).code == 0
        wanted = {"0": offset}
        await until(lambda wanted=wanted: stored_offsets(store).get("first@g-first") == wanted)


def test_a_flipped_bit_in_a_config_file_gives_way_to_the_content_before(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    with broker_process(tmp_path, SETTINGS) as broker:
        with_client(broker, lambda client: make_tables(client, tmp_path / "store"))
        broker.process.kill()
    for name, text in (
        ("topics.json", rb'"TBW102"'),  # what was made since then is in the journal
        ("subscriptionGroup.json", rb'"TOOLS_CONSUMER"'),
        ("consumerOffset.json", rb'"offsetTable"'),  # as with topics.json
    ):
        content = (config / name).read_bytes()
        where = content.index(text)
        # The file is still JSON, with another name or another offset.
        flip(config / name, where + 2, 0)
    with broker_process(tmp_path, SETTINGS) as broker:

        async def known(client: BrokerClient) -> None:
            found = await client.call(QUERY_OFFSET, consumerGroup="g-first", topic="first",
                                      queueId=0)  # fmt: skip
            assert found.fields["offset"] == "2000"
            for topic in ("first", "second"):
                assert (await client.send(topic, b"x", 4)).code == 0

        with_client(broker, known)
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
            assert re.search(rf"{config}/{name} is damaged: .*rmqChecksum", broker.log())
            assert f"{config}/{name}.bak is used instead" in broker.log()


def test_flipped_bits_in_the_small_files_cost_nothing(tmp_path: Path) -> None:
    messages = fill(tmp_path, 300)
    store = tmp_path / "store"
    for byte, bit in ((0, 7), (5, 1), (1024, 0), (1030, 3), (1052, 5), (1067, 0), (1099, 7)):
        flip(store / "checkpoint", byte, bit)
        with contextlib.suppress(IndexError):  # an empty file has no bit to flip
            flip(store / "lock", 0, bit)
        with broker_process(tmp_path, SETTINGS) as broker:

            async def read_all(client: BrokerClient) -> None:
                found = await pull(client, 0)
                while len(found) < 64:  # a pull ends early at a page that is not in memory
                    found += await pull(client, len(found))
                assert found == messages[: len(found)]
                assert await pull(client, 299)

            with_client(broker, read_all)
            broker.process.kill()
        flip(store / "abort", 0, bit)
