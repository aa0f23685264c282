"""Transactions of a broker process that is killed: none is lost, and none is committed twice."""

import asyncio
import collections
import signal
import time
from pathlib import Path

from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.driven_clock import process_clock
from support.name_server import in_loop
from support.page_cache import drop_page_cache
from support.waiting import until, until_is

from rmq.format import fastjson
from rmq.format.message import decode_message

CHECK_S = 50.0  # a silent producer is forgotten after more than twice this time
OPTIONS = ["--set", "mappedFileSizeCommitLog=67108864", "--set", "transactionTimeOut=1000",
           "--set", f"transactionCheckInterval={CHECK_S * 1000:.0f}"]  # fmt: skip
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01{}\x02"


def port_of(broker: BrokerProcess) -> int:
    return int(broker.address.rpartition(":")[2])


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def topic_end(client: BrokerClient) -> int:
    """The number of messages in the topic's first queue, to which all messages here go."""
    return int((await client.call(30, topic="t", queueId=0)).fields["offset"])


async def become_producer(client: BrokerClient) -> None:
    body = {"clientID": client.client_id, "consumerDataSet": [],
            "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
    assert (await client.call(34, fastjson.dumps(body))).code == 0


def end_of(place: tuple[str, int | str], end: int) -> dict[str, object]:
    """Fields of a request that commits (8) or rolls back (12) the half message stored there."""
    queue_offset, log_offset = place
    return {"producerGroup": "P", "tranStateTableOffset": queue_offset,
            "commitLogOffset": log_offset, "commitOrRollback": end, "msgId": "x"}  # fmt: skip


def test_a_kill_neither_loses_nor_repeats_a_transaction(tmp_path: Path) -> None:
    """Of each four transactions one is committed, one is rolled back, and two are open when the
    broker is killed. After its restart it asks about these two, and they are committed and rolled
    back."""
    count = 400

    @in_loop
    async def begin() -> None:
        async with BrokerClient(port_of(broker)) as client:
            await client.send("t", b"make")
            opaques = [
                client.post_send("t", b"%d" % n, i=MARKS.format(n), f=4, g=now_ms())
                for n in range(count)
            ]
            for n, opaque in enumerate(opaques):
                half = await client.reply(opaque)
                assert half.code == 0
                if n % 4 < 2:
                    one_way = n != count - 3  # the last one is answered: all are ended
                    place = (half.fields["queueOffset"], int(half.fields["msgId"][-16:], 16))
                    client.post(37, one_way=one_way, **end_of(place, 8 if n % 4 == 0 else 12))
            await client.call(30, topic="t", queueId=0)

    broker = start_broker(tmp_path, OPTIONS)
    begin()
    broker.stop(signal.SIGKILL)
    came: collections.Counter[int] = collections.Counter()
    asked: collections.Counter[int] = collections.Counter()

    @in_loop
    async def finish() -> None:
        async with BrokerClient(port_of(broker)) as client:
            await become_producer(client)
            await client.heartbeat("g", "t")

            async def answer() -> None:
                while True:
                    ask = await client.asked(39)
                    number = int(decode_message(ask.body)[0].body)
                    asked[number] += 1
                    place = (ask.fields["tranStateTableOffset"], ask.fields["commitLogOffset"])
                    told = end_of(place, 8 if number % 4 == 2 else 12)
                    client.post(37, one_way=True, fromTransactionCheck=True, **told)

            answering = asyncio.create_task(answer())
            clock.advance(CHECK_S)
            await until(lambda: len(asked) == count // 2)
            await client.call(30, topic="t", queueId=0)  # it is answered after the last end
            # This one is the last of its queue: a check that asks about it has passed all others.
            half = await client.send("t", b"%d" % count, i=MARKS.format(count), f=4, g=now_ms())
            assert half.code == 0
            await become_producer(client)  # so that it is not forgotten, however long this took
            clock.advance(CHECK_S)
            await until(lambda: count in asked)
            answering.cancel()
            offset = 1
            while messages := await client.pulled("g", "t", offset=offset):
                came.update(int(message.body) for message in messages)
                offset += len(messages)

    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path, OPTIONS, clock.environment) as broker,
    ):
        finish()
    assert asked == {n: 1 for n in (*range(count), count) if n % 4 >= 2 or n == count}
    assert came == {n: 1 for n in range(count) if n % 4 in (0, 2)}


def test_a_flood_of_ends_whose_halves_are_on_the_disk_is_heard_whole(tmp_path: Path) -> None:
    """Clients send ends one-way, so none may be dropped if many come at once."""
    count = 20_000
    places: list[tuple[str, int]] = []

    @in_loop
    async def begin() -> None:
        async with BrokerClient(port_of(broker)) as client:
            await client.send("t", b"make")
            for first in range(0, count, 1000):
                opaques = [
                    client.post_send("t", b"%d" % n, i=MARKS.format(n), f=4, g=now_ms())
                    for n in range(first, first + 1000)
                ]
                for opaque in opaques:
                    half = await client.reply(opaque)
                    places.append((half.fields["queueOffset"], int(half.fields["msgId"][-16:], 16)))

    @in_loop
    async def finish() -> None:
        async with BrokerClient(port_of(broker)) as client:
            for queue_offset, log_offset in places:
                client.post(37, one_way=True, **end_of((queue_offset, log_offset), 8))
            await until_is(lambda: topic_end(client), lambda end: end >= count + 1)

    options = ["--set", "mappedFileSizeCommitLog=67108864"]
    with broker_process(tmp_path, options) as broker:
        begin()
    drop_page_cache(tmp_path / "store" / "commitlog")
    with broker_process(tmp_path, options) as broker:
        finish()
