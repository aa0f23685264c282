"""Request-reply in the reactor: a consumer's answer goes to the producer that asked.

The test acts as the control thread: it only says which connection a client has. Nothing else about
a push is handed to control.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.shard import CLOSED, MIB, OPENED, REQUEST, Client, Shard, messages, pull, request, send
from support.waiting import HANG_S

from rmq.format.message import decode_properties
from rmq.format.remoting import ROCKETMQ, Command, encode

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

TOPIC = "DefaultCluster_REPLY_TOPIC"
MARKS = {"CORRELATION_ID": "c1", "REPLY_TO_CLIENT": "asker@1", "MSG_TYPE": "reply", "TTL": "3000"}
PROPERTIES = "".join(f"{name}\x01{value}\x02" for name, value in MARKS.items())
LONG = {
    "producerGroup": "CID", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
    "queueId": 0, "sysFlag": 1, "bornTimestamp": 77, "flag": 5, "properties": PROPERTIES,
    "reconsumeTimes": 0, "unitMode": "false",
}  # fmt: skip
SHORT = dict(zip("abcdefghijk", LONG.values(), strict=True))


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as shard:
        shard.topic(TOPIC)
        shard.group("g", TOPIC)
        yield shard


def asker(shard: Shard, client_id: str = "asker@1") -> Client:
    """A producer whose connection control has told to the reactor."""
    client = shard.connect()
    client.put(request(999))  # a client becomes known to control with its first request for it
    ((number, _),) = shard.reports(OPENED)
    shard.taken(REQUEST)
    shard.core.put_client(client_id.encode(), number)
    return client


def answer(client: Client, pushed: Command, code: int = 0, remark: str | None = None) -> None:
    client.put(encode(pushed.reply(code, remark)))


def stored(shard: Shard) -> list[Any]:
    reply = shard.connect().ask(pull("g", TOPIC))
    return messages(reply) if reply.code == 0 else []


@pytest.mark.parametrize(("code", "fields"), [(324, LONG), (325, SHORT)])
@pytest.mark.parametrize("kind", [0, ROCKETMQ])
def test_a_reply_is_pushed_answered_and_stored_without_control(
    shard: Shard, code: int, fields: dict[str, Any], kind: int
) -> None:
    producer, consumer = asker(shard), shard.connect()
    consumer.put(request(code, 7, b"answer", kind=kind, **fields))
    pushed = producer.reply()
    assert (pushed.code, pushed.flag, pushed.body) == (326, 0, b"answer")
    sent = {name: str(value) for name, value in LONG.items() if name != "properties"}
    assert {name: pushed.fields[name] for name in sent} == sent
    assert pushed.fields["bornHost"] == consumer.address
    assert pushed.fields["storeHost"] == f"127.0.0.1:{shard.core.port}"
    assert int(pushed.fields["storeTimestamp"]) > 0
    kept = decode_properties(pushed.fields["properties"].encode())
    assert int(kept.pop("PUSH_REPLY_TIME")) > 0
    assert kept == MARKS
    assert consumer.is_silent()
    answer(producer, pushed)
    reply = consumer.reply()
    assert (reply.opaque, reply.code, reply.remark or None) == (7, 0, None)
    (message,) = stored(shard)
    assert (reply.fields["queueId"], reply.fields["queueOffset"]) == ("0", "0")
    assert reply.fields["msgId"] == message.message_id
    assert (message.body, message.flag, message.born_timestamp_ms) == (b"answer", 5, 77)
    assert message.properties == MARKS
    assert shard.kept(REQUEST) == []
    assert shard.core.stats()["replies_pushed"] == 1


def test_a_stored_reply_has_nothing_that_is_the_brokers_own(shard: Shard) -> None:
    producer, consumer = asker(shard), shard.connect()
    lie = "POP_CK\x011 2 3 4 0 other 0 9\x02"
    consumer.put(request(324, 7, b"answer", **{**LONG, "properties": lie + LONG["properties"]}))
    answer(producer, producer.reply())
    assert consumer.reply().code == 0
    (message,) = stored(shard)
    assert message.properties == MARKS


def test_a_producer_may_refuse_leave_or_answer_for_another(shard: Shard) -> None:
    producer, other, consumer = asker(shard), shard.connect(), shard.connect()
    for opaque in (1, 2, 3):
        consumer.put(request(324, opaque, b"answer", **LONG))
    pushed = [producer.reply() for _ in range(3)]
    assert len({each.opaque for each in pushed}) == 3
    answer(other, pushed[0])
    assert consumer.is_silent()
    answer(producer, pushed[0], 1, 'the "caller" is gone')
    reply = consumer.reply()
    assert (reply.opaque, reply.code) == (1, 1)
    assert reply.remark == 'push reply message to asker@1 fail: the "caller" is gone'
    assert reply.fields["queueOffset"] == "0"  # the reply is stored all the same
    answer(producer, pushed[1])
    assert consumer.reply().code == 0
    answer(producer, pushed[1], 1)  # nobody waits for this answer any more
    producer.close()
    reply = consumer.reply()
    assert (reply.opaque, reply.code) == (3, 1)
    assert "its connection is closed" in (reply.remark or "")
    assert len(stored(shard)) == 3


def test_who_cannot_be_told_for_want_of_a_buffer_is_closed_once_at_the_end_of_the_turn(
    tmp_path: Path,
) -> None:
    """There is one buffer for all replies, and a consumer that answers itself. Its second answer in
    a turn finds no buffer, and neither does the message that it could not be pushed. What was
    queued before goes out, then the connection ends."""
    fields = {**LONG, "properties": PROPERTIES.replace("asker@1", "self@1")}
    both = b"".join(request(324, n, bytes(9000), **fields) for n in (1, 2))
    with Shard(tmp_path, reply_buffers=1) as shard:
        shard.topic(TOPIC)
        closed = 0
        for _ in range(20):  # the two answers may come in two turns, and then each has room
            client = asker(shard, "self@1")
            # After a request for the control thread the reactor receives less at once.
            assert client.ask(send(TOPIC, b"first")).code == 0
            client.put(both)
            assert (client.reply().code, shard.core.stats()["replies_pushed"]) == (326, 0)
            try:
                assert client.reply().code == 326
                client.close()
            except EOFError:
                closed += 1
            shard.until(lambda counters: counters["connections"] == 0)
            shard.reports(CLOSED)
        assert closed > 0
        assert shard.core.stats()["replies_failed"] == 40
        assert shard.core.pools()["reply"][2] == 0
        assert shard.connect().ask(send(TOPIC, b"served")).code == 0


def test_a_consumer_that_leaves_is_forgotten(shard: Shard) -> None:
    producer, consumer = asker(shard), shard.connect()
    consumer.put(request(324, 1, b"answer", **LONG))
    pushed = producer.reply()
    consumer.reset()
    shard.until(lambda counters: counters["connections"] == 1)
    answer(producer, pushed)
    shard.until(lambda counters: counters["replies_pushed"] == 1)


def test_a_producer_that_stays_silent_fails_the_reply(clock: DrivenClock, shard: Shard) -> None:
    producer, consumer = asker(shard), shard.connect()
    consumer.socket.settimeout(HANG_S)
    consumer.put(request(324, 1, b"answer", **LONG))
    assert producer.reply().code == 326
    clock.advance(5)
    assert consumer.is_silent()
    clock.advance(5.1)
    reply = consumer.reply()
    assert (reply.code, "10 s" in (reply.remark or "")) == (1, True)


def test_a_large_reply_comes_whole(shard: Shard) -> None:
    producer, consumer = asker(shard), shard.connect()
    body = bytes(range(256)) * (3 * MIB // 256)
    padded = PROPERTIES + "PAD\x01" + '"\\\n' * 9000 + "\x02"
    for _ in range(3):
        consumer.put(request(324, 1, body, **{**LONG, "properties": padded}))
        pushed = producer.reply()
        assert pushed.body == body
        assert decode_properties(pushed.fields["properties"].encode())["PAD"] == '"\\\n' * 9000
        answer(producer, pushed)
        assert consumer.reply().code == 0


@pytest.mark.parametrize(
    "change",
    [
        {"properties": PROPERTIES.replace("asker@1", "asker@2")},
        {"properties": "TTL\x013\x02"},
        {"topic": "absent"},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"topic": "rmq_sys_wheel_timer"},
        {"queueId": 9},
        {"queueId": "x"},
        {"sysFlag": 1 << 20},
    ],
)
def test_what_is_not_ordinary_is_controls(shard: Shard, change: dict[str, Any]) -> None:
    asker(shard)
    for closed in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"):
        shard.topic(closed)
    consumer = shard.connect()
    frame = request(324, 1, b"answer", **{**LONG, **change})
    consumer.put(frame)
    assert shard.reports(REQUEST)[0][1] == frame[4:]
    assert stored(shard) == []


def test_before_sends_are_accepted_replies_are_controls(tmp_path: Path) -> None:
    with Shard(tmp_path, sends_from_ms=1 << 50) as shard:
        shard.topic(TOPIC)
        asker(shard)
        shard.connect().put(request(324, 1, b"answer", **LONG))
        assert len(shard.reports(REQUEST)) == 1


def test_the_newest_connection_is_asked_and_none_when_there_is_none(shard: Shard) -> None:
    first, second, consumer = asker(shard), asker(shard), shard.connect()
    consumer.put(request(324, 1, b"answer", **LONG))
    answer(second, second.reply())
    assert consumer.reply().code == 0
    assert first.is_silent()
    shard.core.put_client(b"asker@1", 0)
    consumer.put(request(324, 2, b"answer", **LONG))
    assert len(shard.reports(REQUEST)) == 1


def test_replies_need_not_be_stored(shard: Shard) -> None:
    producer, consumer = asker(shard), shard.connect()
    shard.core.set_option("store_replies", 0)
    consumer.put(request(324, 1, b"answer", **LONG))
    answer(producer, producer.reply())
    reply = consumer.reply()
    assert (reply.code, reply.fields["msgId"], reply.fields["queueOffset"]) == (0, "0", "0")
    assert stored(shard) == []


def test_more_replies_than_may_wait_are_refused(shard: Shard) -> None:
    producer, consumer = asker(shard), shard.connect()
    consumer.put(*[request(324, n, b"answer", **LONG) for n in range(4100)])
    refused = [consumer.reply() for _ in range(4)]
    assert [(reply.opaque, reply.code) for reply in refused] == [(n, 2) for n in range(4096, 4100)]
    for _ in range(4096):
        answer(producer, producer.reply())
    assert set(consumer.replies(4096)) == set(range(4096))
    assert consumer.ask(send(TOPIC, b"x", 9)).code == 0
