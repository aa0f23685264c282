"""Pops request by request: the same requests to rmq and to Apache RocketMQ, the same answers.

What the official client needs of pops is in java/ (PopScenarios). Here is what it never asks for,
or not from outside: pops in order, notification, peek, polling info, batch ack, and the codes for
requests that cannot be served. Apache revives some seconds late, so only what is too early fails.
"""

from __future__ import annotations

import socket
import time
from base64 import b64encode
from collections.abc import Iterator

import pytest
from compat.popper import Popper, bodies
from compat.targets import Target
from support.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    NOTIFICATION,
    PEEK,
    POLLING,
    POP,
    now_ms,
)

from rmq.client.blocking.cluster import Cluster
from rmq.format import fastjson
from rmq.format.remoting import ROCKETMQ, Command, decode, encode


@pytest.fixture
def popper(target: Target, session_id: str, request: pytest.FixtureRequest) -> Iterator[Popper]:
    name = request.node.name.replace("[", "_").replace("]", "")[5:45]
    with Cluster(target.name_server) as cluster:
        yield Popper(cluster, target, f"{session_id}_{name}")


def test_a_pop_tells_where_its_messages_are(popper: Popper) -> None:
    popper.send(0, 1, 2, 3)
    reply = popper.pop(maxMsgNums=3)
    fields = reply.fields
    assert (reply.code, reply.remark, bodies(reply)) == (0, "FOUND", [0, 1, 2])
    assert (fields["startOffsetInfo"], fields["msgOffsetInfo"]) == ("0 0 0", "0 0 0,1,2")
    assert (fields["restNum"], fields["invisibleTime"]) == ("1", "60000")
    assert abs(int(fields["popTime"]) - now_ms()) < 5000
    assert 0 <= int(fields["reviveQid"]) < 8
    assert popper.ack(reply, 0, 1, 2) == [0, 0, 0]
    assert bodies(popper.pop()) == [3]
    empty = popper.pop()
    assert (empty.code, empty.remark) == (210, "NO_MESSAGE_IN_QUEUE")


def test_pops_in_order(popper: Popper) -> None:
    popper.send(0, 1, 2, 3, 4)
    first = popper.pop(order="true", maxMsgNums=3, invisibleTime=2000, queueId=0)
    assert (bodies(first), first.fields["reviveQid"]) == ([0, 1, 2], "999")
    assert first.fields["orderCountInfo"] == "0 0 0"
    assert popper.pop(order="true", queueId=0).code == 210
    assert popper.ack(first, 0, 2) == [0, 0]
    assert popper.pop(order="true", queueId=0).code == 210
    time.sleep(2.1)
    again = popper.pop(order="true", invisibleTime=3000, queueId=0)
    assert bodies(again) == [1, 2, 3, 4]
    assert sorted(again.fields["orderCountInfo"].split(";")) == [
        "0 0 0", "0 qo0%1 1", "0 qo0%2 1",
    ]  # fmt: skip
    assert popper.ack(again, 1, 2, 3, 4) == [0, 0, 0, 0]
    assert popper.ack(again, 4) == [0]
    assert popper.pop(order="true", queueId=0).code == 210
    popper.send(5)
    assert bodies(popper.pop(order="true", queueId=0)) == [5]


def test_an_attempt_gets_its_batch_again(popper: Popper) -> None:
    popper.send(0, 1, 2)
    ask = {"order": "true", "maxMsgNums": 2, "queueId": 0}
    assert bodies(popper.pop(**ask, attemptId="A")) == [0, 1]
    assert popper.pop(**ask, attemptId="B").code == 210
    again = popper.pop(**ask, attemptId="A")
    assert (bodies(again), again.fields["orderCountInfo"]) == ([0, 1], "0 0 0")


def test_another_visible_time_in_order(popper: Popper) -> None:
    popper.send(0, 1)
    first = popper.pop(order="true", maxMsgNums=1, queueId=0)
    place = popper.place(offset=0, extraInfo=popper.extra(first, 0), invisibleTime=1000)
    changed = popper.ask(CHANGE, **place)
    assert (changed.code, changed.fields["reviveQid"]) == (0, "999")
    assert changed.fields["popTime"] == first.fields["popTime"]
    assert popper.pop(order="true", queueId=0).code == 210
    time.sleep(1.2)
    assert bodies(popper.pop(order="true", queueId=0)) == [0, 1]


def test_what_is_not_acknowledged_comes_again(popper: Popper) -> None:
    popper.send(0, 1, 2)
    began = now_ms()
    first = popper.pop(invisibleTime=2000)
    assert popper.ack(first, 1) == [0]
    again = popper.pop_until(2)
    assert sorted(int(message.body) for message in again) == [0, 2]
    assert now_ms() - began >= 1900
    for message in again:
        assert (message.topic, message.reconsume_times) == (popper.topic, 1)
        assert message.properties["1ST_POP_TIME"] == first.fields["popTime"]
        extra = message.properties["POP_CK"].split(" ")
        assert extra[4:6] == ["1", "broker-a"]
        assert extra[7] == str(message.queue_offset)
        place = popper.place(
            topic=f"%RETRY%{popper.group}_{popper.topic}",
            offset=message.queue_offset, extraInfo=message.properties["POP_CK"],
        )  # fmt: skip
        assert popper.ask(ACK, **place).code == 0


def test_a_batch_of_acks(popper: Popper) -> None:
    popper.send(*range(10))
    fields = popper.pop(invisibleTime=2000).fields
    row = {
        "c": popper.group, "t": popper.topic, "r": "0", "so": 0, "q": 0,
        "rq": int(fields["reviveQid"]), "pt": int(fields["popTime"]), "it": 2000,
        "b": b64encode(bytes([0b11110111, 0b01])).decode(),
    }  # fmt: skip
    body = fastjson.dumps({"brokerName": "broker-a", "acks": [row]})
    assert popper.ask(BATCH_ACK, body).code == 0
    assert sorted(int(message.body) for message in popper.pop_until(2)) == [3, 9]


def test_a_batch_of_acks_in_order(popper: Popper) -> None:
    popper.send(*range(8))
    fields = popper.pop(order="true", maxMsgNums=3, queueId=0).fields

    def batch(bits: int, popped_ms: int = int(fields["popTime"])) -> int:
        row = {
            "c": popper.group, "t": popper.topic, "r": "0", "so": 0, "q": 0, "rq": 999,
            "pt": popped_ms, "it": 60_000, "b": b64encode(bits.to_bytes(2, "little")).decode(),
        }  # fmt: skip
        body = fastjson.dumps({"brokerName": "broker-a", "acks": [row]})
        return popper.ask(BATCH_ACK, body).code

    assert batch(0b100011) == 13  # 5 is not in the batch 0, 1, 2; the acks of 0 and 1 count
    # These acks are of another pop: nothing happens.
    assert batch(0b1000, int(fields["popTime"]) - 1) == 0
    assert popper.pop(order="true", queueId=0).code == 210
    assert batch(0b1000000101) == 0  # 0 again, 2, and 9, which is outside of the queue
    assert bodies(popper.pop(order="true", queueId=0)) == [3, 4, 5, 6, 7]


def test_notification_peek_and_polling_info(popper: Popper) -> None:
    popper.send(0)
    ask = popper.place(queueId=-1, pollTime=1000, bornTime=now_ms(), order="false")
    assert popper.ask(NOTIFICATION, **ask).fields["hasMsg"] == "true"
    peeked = popper.ask(PEEK, **popper.place(queueId=0, maxMsgNums=5))
    assert (peeked.code, bodies(peeked)) == (0, [0])
    assert bodies(popper.pop()) == [0]
    assert popper.ask(PEEK, **popper.place(queueId=0, maxMsgNums=5)).code == 19
    ask["bornTime"] = str(now_ms())
    assert popper.ask(NOTIFICATION, **ask).fields["hasMsg"] == "false"
    assert popper.ask(POLLING, **popper.place(queueId=-1)).fields["pollingNum"] == "0"


def test_codes_of_what_cannot_be_served(popper: Popper) -> None:
    popper.send(0)
    reply = popper.pop()
    assert [
        popper.pop(maxMsgNums=33).code,
        popper.pop(queueId=1).code,
        popper.pop(topic="nobody_made_it").code,
        popper.pop(bornTime=now_ms() - 60_000).code,
        popper.pop(exp="a >", expType="SQL92").code,
    ] == [29, 29, 17, 210, 23]
    good = popper.place(offset=0, extraInfo=popper.extra(reply, 0))
    assert [
        popper.ask(ACK, **{**good, "topic": "nobody_made_it"}).code,
        popper.ask(ACK, **{**good, "queueId": "5"}).code,
        popper.ask(ACK, **{**good, "offset": "99"}).code,
        popper.ask(CHANGE, **{**good, "offset": "1", "invisibleTime": "1000"}).code,
        popper.ask(BATCH_ACK, b"{}").code,
    ] == [17, 13, 208, 208, 208]


def test_pops_with_binary_headers_are_served_by_rmq_alone(popper: Popper, target: Target) -> None:
    """Binary headers have 16 bits for a code. Apache's client cuts 200050 to 3442, which Apache's
    broker does not know, so Java's client pops with JSON headers only. rmq understands 3442."""
    popper.send(0)
    host, _, port = target.broker.rpartition(":")
    fields = popper.place(queueId=-1, maxMsgNums=32, invisibleTime=60_000, pollTime=0,
                          bornTime=now_ms(), initMode=0, order="false")  # fmt: skip
    request = Command(code=POP, opaque=7, fields=fields, serialize_type=ROCKETMQ)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(encode(request))
        with connection.makefile("rb") as stream:
            reply = decode(stream.read(int.from_bytes(stream.read(4), "big")))
    assert reply.opaque == 7
    if target.kind == "rmq":
        assert (reply.serialize_type, reply.code, bodies(reply)) == (ROCKETMQ, 0, [0])
    else:
        assert (reply.code, reply.body) == (3, b"")
        assert bodies(popper.pop()) == [0]
