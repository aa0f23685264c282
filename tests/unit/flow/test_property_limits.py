"""Properties of nearly 32767 bytes, which is all that a record holds: what is accepted comes out.

What the broker adds counts: its own properties, the real topic of a delayed message, the checksum
of enabledAppendPropCRC. Each test finds the longest properties that are taken, then looks for the
message at the end of its way, and shows that one byte more is refused with nothing stored.
"""

import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.live_broker import records, served
from support.name_server import in_loop
from support.popping import now_ms, pop
from support.shard import messages, pull, running_shard, send
from support.store_copies import copy_store
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.format import fastjson
from rmq.format.message import record_crc_pair

pytestmark = pytest.mark.usefixtures("clock")  # waits end at once: the clock jumps ahead

MAX = 32767
CHECKSUM = 20
ILLEGAL = 13
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"
QUICK = {"messageDelayLevel": "1s 1s 1s", "timerPrecisionMs": 100}


def properties(length: int, before: str = "", end: str = "\x02") -> str:
    """Properties with this number of bytes; `before` comes first."""
    rest = length - len(before) - len("PAD\x01") - len(end)
    return before + "PAD\x01" + "x" * rest + end


def item(body: bytes, text: str) -> bytes:
    raw = text.encode()
    size = 22 + len(body) + len(raw)
    return (struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body
            + struct.pack(">h", len(raw)) + raw)  # fmt: skip


async def longest(take: Callable[[int], Awaitable[int]], low: int = 30000) -> int:
    """The largest number of bytes for which `take` returns 0; it returns 13 for any more."""
    high = MAX + 1
    while high - low > 1:
        middle = (low + high) // 2
        code = await take(middle)
        assert code in (0, ILLEGAL)
        low, high = (middle, high) if code == 0 else (low, middle)
    return low


# ---- batches and single sends


@pytest.mark.parametrize("end", ["\x02", "x", "\0"])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_batch_is_stored_whole_or_refused_whole(
    tmp_path: Path, checksums: bool, end: str
) -> None:
    room = MAX - (CHECKSUM + (end != "\x02")) * checksums - (end == "\0" and not checksums)
    with running_shard(tmp_path, record_crc=checksums) as shard:
        shard.topic("t")
        shard.group("g", "t")
        client = shard.connect()
        for length in sorted({min(room + 1, MAX), (room + 1 + MAX) // 2, MAX} - {room}):
            packed = [item(b"a", ""), item(b"b", properties(length, end=end)), item(b"c", "")]
            reply = client.ask(send("t", b"".join(packed), code=320, m="true"))
            assert reply.code == ILLEGAL
            assert "32767 bytes" in reply.remark
            assert shard.core.stats()["messages_in"] == 0
        packed = [item(b"a", ""), item(b"b", properties(room, end=end)), item(b"c", "")]
        reply = client.ask(send("t", b"".join(packed), code=320, m="true"))
        assert (reply.code, len(reply.fields["msgId"].split(","))) == (0, 3)
        found = messages(client.ask(pull("g", "t")))
        assert [each.body for each in found] == [b"a", b"b", b"c"]
        pad = "x" * (room - 4 - (end != "x")) + end.replace("\x02", "").replace("x", "")
        assert found[1].properties["PAD"] == pad


def test_a_batch_whose_properties_end_in_a_zero_is_whole_after_a_kill(tmp_path: Path) -> None:
    """After the last record the file has zeros, too."""
    (tmp_path / "live").mkdir()
    with running_shard(tmp_path / "live") as shard:
        shard.topic("t")
        packed = [item(b"a", ""), item(b"b", "NAME\x01value\0")]
        reply = shard.connect().ask(send("t", b"".join(packed), code=320, m="true"))
        assert reply.code == 0
        copy_store(tmp_path / "live", tmp_path / "killed")
    with running_shard(tmp_path / "killed") as shard:
        shard.topic("t")
        shard.group("g", "t")
        found = messages(shard.connect().ask(pull("g", "t")))
        assert [each.body for each in found] == [b"a", b"b"]
        assert found[1].properties["NAME"] == "value\0"


@in_loop
async def test_a_single_send_counts_what_the_broker_adds(tmp_path: Path) -> None:
    for checksums in (False, True):
        folder = tmp_path / str(checksums)
        async with served(folder, enabledAppendPropCRC=checksums) as (broker, client):
            await client.send("t", b"make")

            async def take(length: int, client: BrokerClient = client) -> int:
                return (await client.send("t", b"x", 1, i=properties(length))).code

            room = await longest(take)
            assert await take(room + 1) == ILLEGAL
            before = len(records(broker, "t", 1))
            assert await take(room) == 0
            (stored,) = records(broker, "t", 1)[before:]
            pairs = [f"{name}\x01{value}\x02" for name, value in stored.properties.items()]
            assert len("".join(pairs)) == MAX


# ---- other topics first


async def accepted(
    broker: Broker, client: BrokerClient, marks: str
) -> tuple[int, list[dict[str, str]]]:
    """Sends the longest properties that are accepted with these marks; returns their length and the
    fields of the answer."""
    replies: list[dict[str, str]] = []

    async def take(length: int) -> int:
        reply = await client.send("t", b"%d" % length, 1, i=properties(length, marks), g=now_ms())
        replies.append({**reply.fields, "length": str(length)})
        return reply.code

    room = await longest(take)
    return room, [each for each in replies if int(each["length"]) == room]


@in_loop
@pytest.mark.parametrize("marks", ["DELAY\x011\x02", "TIMER_DELAY_MS\x01300\x02"])
@pytest.mark.parametrize("checksums", [True, False])
async def test_the_longest_that_may_wait_comes_out(
    tmp_path: Path, marks: str, checksums: bool
) -> None:
    settings = {**QUICK, "enabledAppendPropCRC": checksums}
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        room, _ = await accepted(broker, client, marks)
        assert room > MAX - 300
        await until(lambda: b"%d" % room in [each.body for each in records(broker, "t", 1)])


def commit_of(fields: dict[str, str]) -> dict[str, Any]:
    return {
        "producerGroup": "P", "tranStateTableOffset": fields["queueOffset"],
        "commitLogOffset": int(fields["msgId"][-16:], 16), "commitOrRollback": 8,
        "fromTransactionCheck": False, "msgId": "U",
    }  # fmt: skip


@in_loop
@pytest.mark.parametrize("marks", ["", "DELAY\x011\x02", "TIMER_DELAY_MS\x01300\x02"])
@pytest.mark.parametrize("checksums", [True, False])
async def test_the_longest_half_message_can_be_committed(
    tmp_path: Path, marks: str, checksums: bool
) -> None:
    settings = {**QUICK, "enabledAppendPropCRC": checksums}
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        room, (fields,) = await accepted(broker, client, MARKS + marks)
        assert room > MAX - 400
        reply = await client.call(37, **commit_of(fields))
        assert (reply.code, reply.remark) == (0, "")
        await until(lambda: b"%d" % room in [each.body for each in records(broker, "t", 1)])


@in_loop
async def test_the_longest_half_message_can_be_asked_about_and_then_timed(tmp_path: Path) -> None:
    settings = {**QUICK, "enabledAppendPropCRC": True, "transactionCheckInterval": 200,
                "transactionTimeOut": 300}  # fmt: skip
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        await client.heartbeat("g", "t")
        room, _ = await accepted(broker, client, MARKS + "TIMER_DELAY_MS\x01300\x02")

        def last() -> Any:
            halves = records(broker, "RMQ_SYS_TRANS_HALF_TOPIC")
            return halves[-1] if "TRANSACTION_CHECK_TIMES" in halves[-1].properties else None

        body = {"clientID": client.client_id, "consumerDataSet": [],
                "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
        assert (await client.call(34, fastjson.dumps(body))).code == 0
        await until(last)
        longest_half = next(
            each for each in reversed(records(broker, "RMQ_SYS_TRANS_HALF_TOPIC"))
            if each.body == b"%d" % room
        )  # fmt: skip
        fields = {"queueOffset": str(longest_half.queue_offset),
                  "msgId": f"{longest_half.physical_offset:032X}"}  # fmt: skip
        reply = await client.call(37, **commit_of(fields))
        assert (reply.code, reply.remark) == (0, "")
        await until(lambda: b"%d" % room in [each.body for each in records(broker, "t", 1)])


# ---- stored before checksums were asked for


@in_loop
async def test_what_was_stored_without_checksums_still_gets_everywhere(tmp_path: Path) -> None:
    """Their properties leave no room for a checksum: they are delivered without one, and nothing
    waits behind them."""
    settings = {**QUICK, "messageDelayLevel": "3s 1s 1s", "popConsumerKVServiceEnable": False}
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        await client.heartbeat("g", "t")
        delayed, _ = await accepted(broker, client, "DELAY\x011\x02")
        timed, _ = await accepted(broker, client, "TIMER_DELAY_MS\x013000\x02")
        half, (fields,) = await accepted(broker, client, MARKS)
        room = await plain_room(client)
        assert (await client.send("t", b"popped", 0, i=properties(room))).code == 0
        some = await pop(client, "g", "t", queueId=0, invisibleTime=4000, maxMsgNums=8)
        assert b"popped" in [each.body for each in some]
    async with served(tmp_path, **settings, enabledAppendPropCRC=True) as (broker, client):
        for n in (delayed, timed):
            await until(lambda n=n: b"%d" % n in [each.body for each in records(broker, "t", 1)])
        assert (await client.call(37, **commit_of(fields))).code == 0
        await until(lambda: b"%d" % half in [each.body for each in records(broker, "t", 1)])
        await until(lambda: b"popped" in [each.body for each in records(broker, "%RETRY%g_t")])


async def plain_room(client: BrokerClient) -> int:
    async def take(length: int) -> int:
        return (await client.send("t", b"probe", 2, i=properties(length))).code

    return await longest(take)


# ---- what comes back


@in_loop
async def test_what_comes_back_is_copied_when_it_fits_and_refused_with_the_cause(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, enabledAppendPropCRC=True, **QUICK) as (broker, client):
        await client.send("t", b"make")
        await client.heartbeat("g", "t")

        async def back(length: int) -> int:
            assert (await client.send("t", b"x", 1, i=properties(length))).code == 0
            source = records(broker, "t", 1)[-1]
            reply = await client.call(
                36, offset=source.physical_offset, group="g", delayLevel=1, originTopic="t",
                originMsgId="U", unitMode=False,
            )  # fmt: skip
            if reply.code:
                assert (reply.code, "properties" in reply.remark) == (1, True)
            return ILLEGAL if reply.code else 0

        room = await plain_room(client)
        assert await back(room) == ILLEGAL
        assert records(broker, "SCHEDULE_TOPIC_XXXX") == []
        low, high = 31000, room
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await back(middle) == 0 else (low, middle)
        assert low > room - 200
        copies = len(records(broker, "SCHEDULE_TOPIC_XXXX"))
        await until(lambda: len(records(broker, "%RETRY%g")) == copies)


@in_loop
async def test_checksums_of_copies_do_not_pile_up(tmp_path: Path) -> None:
    async with served(tmp_path, enabledAppendPropCRC=True, **QUICK) as (broker, client):
        await client.send("t", b"make")
        await client.heartbeat("g", "t")
        lie = record_crc_pair(b"another record").decode()
        assert (await client.send("t", b"x", 1, i="DELAY\x011\x02" + lie)).code == 0
        await until(lambda: records(broker, "t", 1))
        source = records(broker, "t", 1)[-1]
        reply = await client.call(
            36, offset=source.physical_offset, group="g", delayLevel=2, originTopic="t",
            originMsgId="U", unitMode=False,
        )  # fmt: skip
        assert reply.code == 0
        for topic, queue in (("t", 1), ("SCHEDULE_TOPIC_XXXX", 0), ("SCHEDULE_TOPIC_XXXX", 1)):
            record = broker.core.read_record(records(broker, topic, queue)[0].physical_offset)
            assert record is not None
            assert record.count(b"__CRC32#") == 1
