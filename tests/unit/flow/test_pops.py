"""Consumers that pop: a real shard core, loopback sockets, invisible times that a driven clock lets
pass. An invisible time is a few seconds if the test must do something before it ends, because the
machine's own time passes, too."""

import socket
from base64 import b64encode
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import pass_some_time
from support.live_broker import entries, live_broker, records, served
from support.name_server import in_loop
from support.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    NOTIFICATION,
    PEEK,
    POLLING,
    POP,
    REVIVE_LOG,
    ack,
    ack_fields,
    batch_of,
    change,
    now_ms,
    pop,
    pop_all,
    pop_fields,
    popped,
)
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.broker.tables import pop_orders
from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import StoreError
from rmq.format import fastjson
from rmq.format.message import decode_messages
from rmq.format.remoting import Command, encode, field_texts

pytestmark = pytest.mark.usefixtures("clock")  # waits end at once: the clock jumps ahead

TIMER = "rmq_sys_wheel_timer"
RETRY = "%RETRY%g_t"
HOUR_MS = 3_600_000


async def fill(client: BrokerClient, count: int, queues: int = 1, first: int = 0) -> None:
    for number in range(first, first + count):
        tags = f"TAGS\x01{'ab'[number % 2]}"
        assert (await client.send("t", b"%d" % number, number % queues, i=tags)).code == 0


def numbers(some: list) -> list[int]:
    return sorted(int(one.body) for one in some)


@in_loop
async def test_every_message_is_given_once_and_not_again_after_its_ack(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 100, 4)
        found = []
        while some := await pop(client, "g", "t", invisibleTime=30_000):
            assert len(some) <= 32
            found += some
        assert numbers(found) == list(range(100))
        assert await pop(client, "other", "t", maxMsgNums=1) != []
        await ack(client, "g", *found)
        await until(lambda: broker.core.stats()["pop_check_points"] > 0)
        pass_some_time(max(0, found[-1].visible_ms - 700 - now_ms()) / 1000)
        await pass_seconds(broker.core, 1.0)
        assert await pop(client, "g", "t") == []
        assert broker.core.stats()["pop_revived"] == 0
        assert records(broker, RETRY) == []


@in_loop
async def test_what_is_not_acknowledged_comes_again_counted(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        await fill(client, 10)
        first = await pop(client, "g", "t", invisibleTime=10_000)
        await ack(client, "g", *first[:4], *first[7:])
        pass_some_time(8)
        again = await pop_all(client, "g", "t", 3, invisibleTime=5000)
        assert now_ms() >= first[0].visible_ms - 10
        assert numbers(again) == [4, 5, 6]
        for one in again:
            assert (one.topic, one.message.reconsume_times) == (RETRY, 1)
            assert one.message.properties["TAGS"] == "ab"[int(one.body) % 2]
            first_pop = first[0].extra.split(" ")[1]
            assert one.message.properties["1ST_POP_TIME"] == first_pop
        third = await pop_all(client, "g", "t", 3)
        assert {one.message.reconsume_times for one in third} == {2}
        assert {one.message.properties["1ST_POP_TIME"] for one in third} == {first_pop}
        await ack(client, "g", *third)
        assert await pop(client, "g", "t") == []


@in_loop
async def test_check_points_and_acks_stand_in_the_log_as_apache_has_them(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 3)
        some = await pop(client, "g", "t", invisibleTime=60_000)
        await ack(client, "g", some[1])
        point, done = records(broker, TIMER)
        start, popped_ms, invisible, revive, *_ = some[0].extra.split(" ")
        assert fastjson.loads(point.body) == {
            "bm": 0, "bn": "broker-a", "c": "g", "d": [0, 1, 2], "it": 60_000, "n": 3,
            "pt": int(popped_ms), "q": 0, "ro": 0, "so": int(start), "t": "t",
        }  # fmt: skip
        assert fastjson.loads(done.body) == {
            "ao": 1, "bn": "broker-a", "c": "g", "pt": int(popped_ms), "q": 0, "so": 0, "t": "t",
        }  # fmt: skip
        assert (point.properties["TAGS"], done.properties["TAGS"]) == ("ck", "ack")
        due = int(popped_ms) + int(invisible)
        assert point.properties["TIMER_DELIVER_MS"] == str(due - 1000)
        assert done.properties["TIMER_DELIVER_MS"] == str(due)
        for one in (point, done):
            assert one.properties["REAL_TOPIC"] == REVIVE_LOG
            assert one.properties["REAL_QID"] == revive


@in_loop
async def test_a_pop_waits_until_a_message_comes_or_its_time_is_over(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 1)
        await ack(client, "g", *await pop(client, "g", "t"))
        began = clock.monotonic()
        waiting = client.post(POP, **pop_fields("g", "t", pollTime=60_000))
        other = client.post(POP, **pop_fields("g", "t", pollTime=60_000, queueId=0))
        await pass_seconds(broker.core, 0.2)
        info = await client.call(POLLING, consumerGroup="g", topic="t", queueId=-1)
        assert info.fields["pollingNum"] == "1"
        async with BrokerClient(broker.core.port) as sender:
            await sender.send("t", b"2")
            await sender.send("t", b"3")
        found = popped(await client.reply(waiting), "g", "t")
        found += popped(await client.reply(other), "g", "t")
        assert numbers(found) == [2, 3]
        assert clock.monotonic() - began < 30
        began = clock.monotonic()
        reply = await client.call(POP, **pop_fields("g", "t", pollTime=300))
        assert (reply.code, reply.fields["restNum"]) == (210, "0")
        assert clock.monotonic() - began > 0.25


@in_loop
async def test_one_message_wakes_one_of_many_that_wait(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 1)
        await ack(client, "g", *await pop(client, "g", "t"))
        waiting = [client.post(POP, **pop_fields("g", "t", pollTime=1500)) for _ in range(20)]
        await pass_seconds(broker.core, 0.1)
        async with BrokerClient(broker.core.port) as sender:
            with sender.in_one_write():
                posts = [sender.post_send("t", b"%d" % n) for n in range(50)]
            for post in posts:
                await sender.reply(post)
        pass_some_time(1.5)  # pops that still wait are answered that there is nothing
        replies = [await client.reply(opaque) for opaque in waiting]
        found = [popped(reply, "g", "t") for reply in replies if reply.code == 0]
        assert numbers([one for some in found for one in some]) == list(range(50))
        assert {reply.code for reply in replies} <= {0, 210}


@in_loop
async def test_who_is_gone_waits_no_more(tmp_path: Path) -> None:
    """Two pops may wait, and one more is refused; pops of a client that has left give their places
    back."""
    async with served(tmp_path, popPollingSize=1) as (broker, client):
        await fill(client, 1)
        await ack(client, "g", *await pop(client, "g", "t"))
        async with BrokerClient(broker.core.port) as other:
            for _ in range(2):
                other.post(POP, **pop_fields("g", "t", pollTime=HOUR_MS))
            await until(lambda: broker.core.stats()["pulls_waiting"] == 2)
            assert (await client.call(POP, **pop_fields("g", "t", pollTime=HOUR_MS))).code == 209
        await until(lambda: broker.core.stats()["pulls_waiting"] == 0)
        waiting = client.post(POP, **pop_fields("g", "t", pollTime=HOUR_MS))
        await until(lambda: broker.core.stats()["pulls_waiting"] == 1 or client.has_reply(waiting))
        assert not client.has_reply(waiting)


@in_loop
async def test_a_message_is_not_kept_for_who_does_not_read(tmp_path: Path) -> None:
    """The first pop in line is woken, but its client takes no answers: the message goes to the next
    one."""
    async with served(tmp_path) as (broker, client):
        await fill(client, 1)
        await ack(client, "g", *await pop(client, "g", "t"))
        for _ in range(20):
            assert (await client.send("large", bytes(50_000))).code == 0
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", broker.core.port))
            deaf.sendall(frame_of(POP, pop_fields("g", "t", pollTime=HOUR_MS)))
            await until(lambda: broker.core.stats()["pulls_waiting"] == 1)
            deaf.sendall(frame_of(PEEK, pop_fields("g", "large")) * 100)
            await until(lambda: broker.core.stats()["unread_unsent"] == 1)
            waiting = client.post(POP, **pop_fields("g", "t", pollTime=HOUR_MS))
            await until(lambda: broker.core.stats()["pulls_waiting"] == 2)
            async with BrokerClient(broker.core.port) as sender:
                await sender.send("t", b"1")
            assert numbers(popped(await client.reply(waiting), "g", "t")) == [1]


def frame_of(code: int, fields: dict[str, object]) -> bytes:
    return encode(Command(code=code, opaque=1, language="JAVA", fields=field_texts(fields)))


@in_loop
async def test_a_pop_waits_for_what_could_not_be_made_anew_for_now(tmp_path: Path) -> None:
    """The queue's file is gone and no other one can be made, but the log has all messages."""
    file = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    async with served(tmp_path) as (_, client):
        await fill(client, 3)
    async with served(tmp_path) as (broker, client):
        file.unlink()
        file.symlink_to(tmp_path / "nowhere" / "file")
        waiting = client.post(POP, **pop_fields("g", "t", pollTime=HOUR_MS))
        await pass_seconds(broker.core, 30, 1.0)
        assert not client.has_reply(waiting)
        assert broker.core.query_offset(b"g", b"t", 0) == 0
        file.unlink()  # it is tried again in a minute
        pass_some_time(28)
        await until(lambda: client.has_reply(waiting))
        assert numbers(popped(await client.reply(waiting), "g", "t")) == [0, 1, 2]


@in_loop
async def test_what_is_not_acknowledged_waits_as_long_as_its_retry_topic_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full_disk(*_: object) -> None:
        raise StoreError("config/topics.json cannot be written: No space left on device")

    async with served(tmp_path) as (broker, client):
        await fill(client, 2)
        assert len(await pop(client, "g", "t", invisibleTime=1000)) == 2
        with monkeypatch.context() as patch:
            patch.setattr(broker.topics, "create", full_disk)
            await pass_seconds(broker.core, 60, 1.0)
        assert numbers(await pop_all(client, "g", "t", 2)) == [0, 1]


@in_loop
async def test_another_invisible_time_counts_from_then_on(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 3)
        some = await pop(client, "g", "t", invisibleTime=10_000)
        later = await change(client, "g", some[0], 60_000)
        sooner = await change(client, "g", some[1], 200)
        assert sooner.extra != some[1].extra
        pass_some_time(8)
        again = await pop_all(client, "g", "t", 2)
        assert [int(one.body) for one in again] == [1, 2]
        assert broker.core.stats()["pop_changes"] == 2
        await ack(client, "g", later, *again)
        reply = await client.call(CHANGE, **{**ack_fields("g", later), "offset": 99},
                                  invisibleTime=5)  # fmt: skip
        assert reply.code == 208


@in_loop
async def test_a_batch_of_acks_names_its_messages_by_bits(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 10)
        some = await pop(client, "g", "t", invisibleTime=10_000)
        start, popped_ms, invisible, revive, *_ = some[0].extra.split(" ")
        bits = b64encode(bytes([0b11110111, 0b01])).decode()
        row = {"c": "g", "t": "t", "r": "0", "so": int(start), "q": 0, "rq": int(revive),
               "pt": int(popped_ms), "it": int(invisible), "b": bits}  # fmt: skip
        body = fastjson.dumps({"brokerName": "broker-a", "acks": [row]})
        assert (await client.call(BATCH_ACK, body)).code == 0
        again = await pop_all(client, "g", "t", 2)
        assert numbers(again) == [3, 9]
        tags = [record.properties["TAGS"] for record in records(broker, TIMER)]
        assert "bAck" in tags
        assert (await client.call(BATCH_ACK, b'{"acks":[]}')).code == 208
        assert (await client.call(BATCH_ACK, b'{"acks":[{"t":]}')).code == 1


@in_loop
async def test_a_batch_of_which_one_in_order_is_refused_counts_but_for_that(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 8)
        first, *_ = await pop(client, "g", "t", order="true", maxMsgNums=3)
        other = await pop(client, "h", "t", maxMsgNums=2, invisibleTime=10_000)
        # 5 is in the queue, but not in the batch 0, 1, 2
        body = batch_of((first, "g", [0, 1, 5]), (other[0], "h", [0, 1]))
        assert (await client.call(BATCH_ACK, body)).code == 13
        assert numbers(await pop_all(client, "h", "t", 6)) == [2, 3, 4, 5, 6, 7]
        await pass_seconds(broker.core, 10.5, 1.0)
        assert await pop(client, "h", "t") == []  # 0 and 1 do not come again
        # 0 and 1 were acknowledged before, 2 is of the batch, 50 is outside of the queue and does
        # no harm
        assert (await client.call(BATCH_ACK, batch_of((first, "g", [0, 2, 50])))).code == 0
        second, *_ = await pop(client, "g", "t", order="true", maxMsgNums=1)
        assert int(second.body) == 3
        # 3 is of another pop than the one that has the batch: nothing is refused, and nothing
        # counts
        assert (await client.call(BATCH_ACK, batch_of((first, "g", [3])))).code == 0
        assert await pop(client, "g", "t", order="true") == []
        assert (await client.call(BATCH_ACK, batch_of((second, "g", [3])))).code == 0
        assert numbers(await pop(client, "g", "t", order="true")) == [4, 5, 6, 7]


@in_loop
async def test_in_order_the_next_waits_for_the_acks_of_the_last(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 6)
        some = await pop(client, "g", "t", order="true", maxMsgNums=3, invisibleTime=2000)
        assert numbers(some) == [0, 1, 2]
        assert some[0].extra.split(" ")[3] == "999"
        assert await pop(client, "g", "t", order="true") == []
        await ack(client, "g", some[0], some[2])
        assert await pop(client, "g", "t", order="true") == []
        waiting = client.post(POP, **pop_fields("g", "t", order="true", pollTime=20_000))
        await until(lambda: client.has_reply(waiting))
        reply = await client.reply(waiting)
        assert now_ms() >= some[0].visible_ms - 1
        again = popped(reply, "g", "t")
        assert [int(one.body) for one in again] == [1, 2, 3, 4, 5]
        assert reply.fields["orderCountInfo"] == "0 qo0%1 1;0 qo0%2 1;0 0 0"
        waiting = client.post(POP, **pop_fields("g", "t", order="true", pollTime=20_000))
        async with BrokerClient(client.port) as other:
            await other.send("t", b"6")
            await pass_seconds(broker.core, 0.1)
            await ack(other, "g", *again)
        assert [int(one.body) for one in popped(await client.reply(waiting), "g", "t")] == [6]


@in_loop
async def test_the_attempt_that_has_the_batch_gets_it_again(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        await fill(client, 3)
        fields = {"order": "true", "attemptId": "A", "maxMsgNums": 2}
        first = await pop(client, "g", "t", **fields)
        assert await pop(client, "g", "t", **{**fields, "attemptId": "B"}) == []
        assert numbers(await pop(client, "g", "t", **fields)) == numbers(first)


@in_loop
async def test_a_notification_tells_of_messages_and_takes_none(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 1)
        ask = {"consumerGroup": "g", "topic": "t", "queueId": -1, "pollTime": 3000, "bornTime": 0}
        assert (await client.call(NOTIFICATION, **ask)).fields["hasMsg"] == "true"
        peeked = await client.call(PEEK, consumerGroup="g", topic="t", queueId=-1, maxMsgNums=5)
        assert [one.body for one in decode_messages(peeked.body)] == [b"0"]
        await ack(client, "g", *await pop(client, "g", "t"))
        peeked = await client.call(PEEK, consumerGroup="g", topic="t", queueId=-1, maxMsgNums=5)
        assert peeked.code == 19
        assert (await client.call(NOTIFICATION, **{**ask, "pollTime": 100})).fields == {
            "hasMsg": "false", "pollingFull": "false",
        }  # fmt: skip
        waiting = client.post(NOTIFICATION, **ask)
        async with BrokerClient(client.port) as other:
            await pass_seconds(broker.core, 0.1)
            await other.send("t", b"1")
        assert (await client.reply(waiting)).fields["hasMsg"] == "true"
        assert numbers(await pop(client, "g", "t")) == [1]


@in_loop
async def test_only_messages_that_pass_the_filter_are_popped(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        await fill(client, 10)
        found = await pop(client, "g", "t", exp="a", expType="TAG")
        assert numbers(found) == [0, 2, 4, 6, 8]
        sql = await pop(client, "h", "t", exp="TAGS = 'b'", expType="SQL92")
        assert numbers(sql) == [1, 3, 5, 7, 9]
        reply = await client.call(POP, **pop_fields("h", "t", exp="TAGS =", expType="SQL92"))
        assert reply.code == 23


@in_loop
async def test_wrong_requests_get_apaches_codes(tmp_path: Path) -> None:
    async with served(tmp_path, autoCreateSubscriptionGroup=False) as (broker, client):
        await broker.topics.create(TopicConfig("t", 1, 1))
        await client.send("t", b"0")
        for code, fields in (
            (29, {"maxMsgNums": 33}),
            (29, {"queueId": 1}),
            (17, {"topic": "none"}),
            (26, {"consumerGroup": "nobody"}),
            (210, {"bornTime": now_ms() - 9000}),
            (1, {"invisibleTime": "soon"}),
        ):
            reply = await client.call(POP, **{**pop_fields("g", "t"), **fields})
            assert reply.code == code, (code, fields, reply.remark)
        extra = f"0 {now_ms()} 60000 0 0 broker-a 0 0"
        good = {"consumerGroup": "g", "topic": "t", "queueId": 0, "offset": 0, "extraInfo": extra}
        for code, fields in (
            (17, {"topic": "none"}),
            (13, {"queueId": 7}),
            (208, {"offset": 99}),
            (208, {"offset": -1}),
            (1, {"extraInfo": "0 1 2"}),
            (1, {"extraInfo": f"0 {1 << 62} 60000 0 0 broker-a 0 0"}),
            (1, {"extraInfo": f"0 {now_ms()} 60000 77 0 broker-a 0 0"}),
            (0, {}),
        ):
            reply = await client.call(ACK, **{**good, **fields})
            assert reply.code == code, (code, fields, reply.remark)


@in_loop
async def test_what_waits_for_its_time_outlives_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        await fill(client, 6, 2)
        some = await pop(client, "g", "t", invisibleTime=60_000)  # longer than a restart takes
        assert len(some) == 6
        await ack(client, "g", *[one for one in some if int(one.body) < 4])
    async with served(tmp_path) as (_, client):
        assert await pop(client, "g", "t") == []
        pass_some_time(60)
        again = await pop_all(client, "g", "t", 2)
        assert numbers(again) == [4, 5]
        await ack(client, "g", *again)
    async with served(tmp_path) as (broker, client):
        pass_some_time(60)
        await pass_seconds(broker.core, 0.5)
        assert await pop(client, "g", "t") == []


@in_loop
async def test_what_is_popped_in_order_outlives_a_restart(tmp_path: Path) -> None:
    fields = {"order": "true", "maxMsgNums": 2}
    async with served(tmp_path) as (_, client):
        await fill(client, 4)
        some = await pop(client, "g", "t", **fields, attemptId="A")
        await ack(client, "g", some[0])
    kept = fastjson.loads((tmp_path / "config" / "consumerOrderInfo.json").read_bytes())
    row = kept["table"]["t@g"]["0"]
    assert (row["o"], row["cm"], row["i"], row["a"]) == ([0, 1], 1, 60_000, "A")
    async with served(tmp_path) as (_, client):
        assert await pop(client, "g", "t", **fields) == []
        await ack(client, "g", some[1])
        assert numbers(await pop(client, "g", "t", **fields)) == [2, 3]


@in_loop
async def test_a_batch_of_a_topic_that_is_gone_is_forgotten_by_the_next_start(
    tmp_path: Path,
) -> None:
    """The broker is killed after the topic was deleted and before the file of batches was
    written."""
    fields = {"order": "true", "maxMsgNums": 2}
    async with served(tmp_path) as (_, client):
        await fill(client, 2)
        await pop(client, "g", "t", **fields)
    file = pop_orders.order_file(tmp_path / "config")
    kept = file.load()
    assert kept is not None
    kept["table"] = {"gone@g": kept["table"]["t@g"], **kept["table"]}
    file.save(kept)
    async with served(tmp_path) as (broker, client):
        assert [key[:2] for key in broker.core.pop_orders()] == [(b"t", b"g")]
        assert await pop(client, "g", "t", **fields) == []
        await broker.pop_orders.save()
        kept = file.load()
        assert kept is not None and kept["table"].keys() == {"t@g"}, "nothing else has changed it"
        await broker.topics.create(TopicConfig("gone", 1, 1))
    async with served(tmp_path) as (broker, client):
        assert [key[:2] for key in broker.core.pop_orders()] == [(b"t", b"g")]


@in_loop
async def test_what_the_log_has_become_too_small_for_holds_up_no_other(tmp_path: Path) -> None:
    async with served(tmp_path, rmqRingBytes=16 << 20, maxMessageSize=4 << 20) as (_, client):
        assert (await client.send("t", bytes(3 << 20))).code == 0
        assert (await client.send("t", b"1")).code == 0
        await pop_all(client, "g", "t", 2, invisibleTime=10_000)
    async with served(tmp_path, rmqRingBytes=4 << 20) as (broker, client):
        pass_some_time(8)
        assert numbers(await pop_all(client, "g", "t", 1)) == [1]
        stats = broker.core.stats()
        assert (stats["pop_revived"], stats["pop_unreadable"]) == (1, 1)


@in_loop
async def test_what_was_acknowledged_elsewhere_blocks_no_queue_in_order(tmp_path: Path) -> None:
    """The messages were acknowledged at another master, or just before a kill: the offset shows it,
    the batch does not."""
    fields = {"order": "true", "maxMsgNums": 3, "invisibleTime": 3_600_000}
    async with served(tmp_path) as (broker, client):
        await fill(client, 8)
        some = await pop(client, "g", "t", **fields)
        broker.core.commit_offset(b"g", b"t", 0, 1)
        assert await pop(client, "g", "t", **fields) == [], "two are in somebody's hands"
        await ack(client, "g", some[1])
        assert broker.core.query_offset(b"g", b"t", 0) == 2, "not back to the first one"
        broker.core.commit_offset(b"g", b"t", 0, 3)
        assert numbers(await pop(client, "g", "t", **fields)) == [3, 4, 5]


@in_loop
async def test_an_ack_passes_over_nothing_when_its_batch_is_not_known_any_more(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (_, client):
        await fill(client, 5)
        await ack(client, "g", *await pop(client, "g", "t", order="true", maxMsgNums=1))
        some = await pop(client, "g", "t", order="true", maxMsgNums=3)
    for file in (tmp_path / "config").glob("consumerOrderInfo.json*"):
        file.unlink()  # the broker is killed before this file was written
    async with served(tmp_path) as (_, client):
        await ack(client, "g", some[2])
        again = await pop(client, "g", "t", order="true", maxMsgNums=2)
        assert numbers(again) == [1, 2]
        await ack(client, "g", *again)
        assert numbers(await pop(client, "g", "t", order="true")) == [3, 4]


@in_loop
async def test_a_new_group_may_begin_at_the_end(tmp_path: Path) -> None:
    async with live_broker(tmp_path) as broker, BrokerClient(broker.core.port, "c", 1) as client:
        await fill(client, 5)
        assert numbers(await pop_binary(client, initMode=1)) == [0, 1, 2, 3, 4]


@in_loop
async def test_retry_topics_of_version_2_go_with_their_topic(tmp_path: Path) -> None:
    async with served(tmp_path, enableRetryTopicV2=True) as (broker, client):
        await fill(client, 2)
        await pop(client, "g", "t", invisibleTime=100)
        again = await pop_all(client, "g", "t", 2)
        assert {one.topic for one in again} == {"%RETRY%g+t"}
        await ack(client, "g", *again)
        assert broker.topics.get("%RETRY%g+t") is not None
    async with served(tmp_path, enableRetryTopicV2=True) as (broker, client):
        assert broker.topics.get("%RETRY%g+t") is not None
        assert (await client.call(215, topic="t")).code == 0
        assert broker.topics.get("%RETRY%g+t") is None
        assert (await client.call(POP, **pop_fields("g", "t"))).code == 17


@in_loop
async def test_the_retry_topic_of_a_group_is_popped_by_no_other(tmp_path: Path) -> None:
    """%RETRY%g_t brings group g what it did not acknowledge of topic t. If there is a group g_t it
    is the retry topic of that group, as in ACL 1.0, which knows no pops."""
    async with served(tmp_path) as (broker, client):
        await fill(client, 2)
        assert (await client.heartbeat("g_t", "t")).code == 0
        await until(lambda: broker.topics.get(RETRY) is not None)
        assert (await client.send(RETRY, b"secret")).code == 0
        first = await pop(client, "g", "t", invisibleTime=5000)
        assert numbers(first) == [0, 1]
        again = await pop_all(client, "g", "t", 2)
        assert {one.topic for one in again} == {"%RETRY%g+t"}
        assert numbers(again) == [0, 1]
        await ack(client, "g", *again)
        assert await pop(client, "g", "t") == []
        assert [one.body for one in await pop(client, "g_t", RETRY)] == [b"secret"]


@in_loop
async def test_no_other_group_brings_its_retries_again(tmp_path: Path) -> None:
    """A client makes a handle itself and changes the invisible time of a message that was given to
    nobody. The message must not come to this client when that time is over."""
    async with served(tmp_path) as (broker, client):
        await fill(client, 1)
        (own,) = await pop(client, "g", "t", invisibleTime=60_000)
        await client.heartbeat("g_t", "t")
        await until(lambda: broker.topics.get(RETRY) is not None)
        await client.send(RETRY, b"secret")
        fields = {**ack_fields("g", own), "topic": RETRY, "invisibleTime": 1000}
        before = broker.core.stats()["pop_check_points"]
        assert (await client.call(CHANGE, **fields)).code == 0
        await until(lambda: broker.core.stats()["pop_check_points"] == before + 1)
        await pass_seconds(broker.core, 3.0)
        assert await pop(client, "g", "t") == []
        assert broker.core.stats()["pop_revived"] == 0
        assert [one.body for one in await pop(client, "g_t", RETRY)] == [b"secret"]


@in_loop
async def test_what_came_back_before_there_was_such_a_group_is_not_lost(tmp_path: Path) -> None:
    """One message is popped when the group g_t is made, and another one waits. What is sent back to
    the group g_t, even with the properties of a message that came again, is not g's."""
    async with served(tmp_path) as (broker, client):
        await fill(client, 2)
        await pop(client, "g", "t", invisibleTime=1000)
        await until_revived(broker, 2)
        (out,) = await pop_all(client, "g", "t", 1, invisibleTime=20_000, maxMsgNums=1)
        assert out.topic == RETRY
        await client.heartbeat("g_t", "other")
        await until(lambda: broker.groups.get("g_t") is not None)
        for properties in ("", "1ST_POP_TIME\x011\x02RETRY_TOPIC\x01other"):
            assert (await client.send(RETRY, b"secret", i=properties)).code == 0
        (waiting,) = await pop_all(client, "g", "t", 1)
        assert (waiting.topic, numbers([waiting, out])) == (RETRY, [0, 1])
        assert (await client.call(ACK, **ack_fields("g", waiting))).code == 0
        pass_some_time(18)
        (again,) = await pop_all(client, "g", "t", 1)
        assert (again.topic, again.body) == ("%RETRY%g+t", out.body)
        await ack(client, "g", again)
        assert await pop(client, "g", "t") == []


async def until_revived(broker: Broker, count: int) -> None:
    while broker.core.stats()["pop_revived"] < count:
        await pass_seconds(broker.core, 0.1)


async def pop_binary(client: BrokerClient, **fields: int) -> list:
    """Pops with a binary header, which has only 16 bits for the code."""
    reply = await client.call(POP & 0xFFFF, **pop_fields("g", "t", **fields))
    assert reply.code == 0, reply.remark
    return popped(reply, "g", "t")


@in_loop
async def test_what_comes_again_waits_until_there_is_room_to_note_that_it_did(
    tmp_path: Path,
) -> None:
    """The log's next file is late, and the present one has room for the message but not for the
    note that it came again. Without the note a kill would bring it once more."""
    size, left = 1 << 20, 4000
    settings = {"mappedFileSizeCommitLog": size, "osPageCacheBusyTimeOutMills": 1}
    async with served(tmp_path, **settings) as (broker, client):
        core = broker.core
        began = core.log_range()[1]
        await fill(client, 1)
        overhead = core.log_range()[1] - began - 1  # the bytes of a record around its body

        def noted() -> list[tuple[int, int, int]]:
            return [each for number in range(8) for each in entries(broker, REVIVE_LOG, number)]

        assert len(await pop(client, "g", "t", invisibleTime=60_000)) == 1
        pass_some_time(57)
        await until(noted)  # the message's check point, a second before it is due
        late = tmp_path / "commitlog" / f"{2 * size:020}"
        late.mkdir()  # so that no file can be made there
        while (more := 2 * size - left - core.log_range()[1]) > overhead:
            record = more if more <= 200_000 else 100_000
            assert (await client.send("t", bytes(record - overhead))).code == 0
        await pass_seconds(core, 2)
        assert records(broker, RETRY) == []
        late.rmdir()
        await until(lambda: len(noted()) == 2)
        assert [each.body for each in records(broker, RETRY)] == [b"0"]
