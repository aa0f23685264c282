"""Handles of popped messages, made from answers as brokers send them."""

from __future__ import annotations

from typing import Any

import pytest

from cext.client.message import MessageExt, decode_messages
from cext.client.reply import Reply, reply_of
from rmq.client.pop.handles import Handle, handles_of, kind_of, order_counts
from rmq.codes import FLAG_RESPONSE
from rmq.errors import ProtocolError
from rmq.format.message import Host, StoredMessage, encode_message
from rmq.format.remoting import Command, encode

HOST = Host("127.0.0.1", 1)
FIELDS = {"popTime": "1000", "invisibleTime": "60000", "reviveQid": "3", "restNum": "0"}


def stored(topic: str, queue_id: int, offset: int, properties: str = "A\x01b\x02") -> bytes:
    return encode_message(StoredMessage(
        topic=topic, body=b"x", properties_bytes=properties.encode(), queue_id=queue_id, flag=0,
        queue_offset=offset, sys_flag=0, born_timestamp_ms=0, store_timestamp_ms=0,
        born_host=HOST, store_host=HOST,
    ))  # fmt: skip


def answer(fields: dict[str, str], *records: bytes) -> tuple[Reply, list[MessageExt]]:
    command = Command(code=0, flag=FLAG_RESPONSE, fields={**FIELDS, **fields},
                      body=b"".join(records))  # fmt: skip
    reply = reply_of(encode(command))
    return reply, decode_messages(reply, "b") if records else []


def texts(fields: dict[str, str], *records: bytes) -> list[str]:
    reply, messages = answer(fields, *records)
    return [each.text for each in handles_of(reply, messages, "t", "g", "b")]


def test_offsets_are_told_by_queue() -> None:
    fields = {"startOffsetInfo": "0 0 5;0 2 7;1 0 1", "msgOffsetInfo": "0 0 5,6;0 2 9;1 0 1"}
    assert texts(
        fields, stored("t", 0, 5), stored("t", 0, 6), stored("t", 2, 9), stored("%RETRY%g_t", 0, 1)
    ) == [
        "5 1000 60000 3 0 b 0 5", "5 1000 60000 3 0 b 0 6", "7 1000 60000 3 0 b 2 9",
        "1 1000 60000 3 1 b 0 1",
    ]  # fmt: skip


def test_without_them_the_first_message_of_a_queue_counts() -> None:
    assert texts({}, stored("t", 1, 5), stored("t", 1, 6), stored("t", 0, 2)) == [
        "5 1000 60000 3 0 b 1 5", "5 1000 60000 3 0 b 1 6", "2 1000 60000 3 0 b 0 2",
    ]  # fmt: skip


def test_a_message_may_bring_its_handle() -> None:
    own = "4 999 60000 5 2 b 0 4"
    reply, messages = answer(
        {"startOffsetInfo": "2 0 4"}, stored("t", 0, 4, f"POP_CK\x01{own}\x02")
    )
    (handle,) = handles_of(reply, messages, "t", "g", "b")
    assert handle == Handle("%RETRY%g+t", "b", 0, 4, own, "t")


@pytest.mark.parametrize(("kind", "topic"), [("0", "t"), ("1", "%RETRY%g_t"), ("2", "%RETRY%g+t")])
def test_a_handle_knows_where_its_message_is_stored(kind: str, topic: str) -> None:
    handle = Handle.of(f"5 1 2 3 {kind} b 7 9", "t", "g")
    assert (handle.topic, handle.broker_name, handle.queue_id, handle.queue_offset) == (
        topic, "b", 7, 9,
    )  # fmt: skip
    assert kind_of(topic) == kind


def test_a_new_invisible_time_makes_a_new_handle() -> None:
    handle = Handle.of("5 1 2 3 1 b 7 9", "t", "g").renewed(11, 22, 33)
    assert handle.text == "9 11 22 33 1 b 7 9"
    assert handle.topic == "%RETRY%g_t"


def test_counts_of_queues_in_order() -> None:
    reply, _ = answer({"orderCountInfo": "0 1 2;0 qo3%17 4"})
    assert order_counts(reply) == {("0", 1, -1): 2, ("0", 3, 17): 4}


@pytest.mark.parametrize(
    ("fields", "record"),
    [({"popTime": "x"}, stored("t", 0, 1)), ({"startOffsetInfo": "0 1 5"}, stored("t", 0, 1)),
     ({"startOffsetInfo": "0 1"}, stored("t", 1, 1)),
     ({"startOffsetInfo": "0 1 y"}, stored("t", 1, 1)),
     ({}, stored("t", 1, 1, "POP_CK\x011 2 3\x02")),
     ({}, stored("t", 1, 1, "POP_CK\x011 2 3 4 9 b 0 1\x02")),
     ({}, stored("t", 1, 1, "POP_CK\x011 2 3 4 0 b 0 z\x02"))],
)  # fmt: skip
def test_answers_that_make_no_sense_are_refused(fields: Any, record: bytes) -> None:
    with pytest.raises(ProtocolError):
        texts(fields, record)


@pytest.mark.parametrize("text", ["0 1", "0 x 1", "0 qo1%z 1", "0 1 2 3"])
def test_broken_counts_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        order_counts(answer({"orderCountInfo": text})[0])
