"""Requests as bytes: the same requests to rmq and to Apache RocketMQ, the same answers.

What a sender may not decide because it belongs to the broker, what 208 tells about a group, which
settings and attributes a running broker takes. The official clients ask for none of this in such
detail.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from compat.targets import Target
from support.waiting import wait_until

from rmq import java_properties
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import JSON, ROCKETMQ, Command, decode, encode

WAIT_S = 40.0
TOPIC: dict[str, Any] = {
    "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip
LIE = "POP_CK\x011 2 3 4 0 other 0 9\x02"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Place:
    """A topic with one queue, a group, and a connection."""

    def __init__(self, broker: Connection, target: Target, topic: str) -> None:
        self.broker, self.target = broker, target
        self.topic, self.group = topic, f"g_{topic}"
        broker.call(17, {**TOPIC, "topic": topic})
        broker.call(200, {}, fastjson.dumps({"groupName": self.group}))

    def send_fields(self, code: int, text: str) -> dict[str, str]:
        short = {
            "a": "P", "b": self.topic, "c": "TBW102", "d": "1", "e": "0", "f": "0",
            "g": str(now_ms()), "h": "0", "i": text, "j": "0", "k": "false",
        }  # fmt: skip
        long = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId",
                "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes",
                "unitMode")  # fmt: skip
        return dict(zip(long, short.values(), strict=True)) if code == 10 else short

    def send(self, text: str = "", body: bytes = b"x", code: int = 310, kind: int = JSON) -> None:
        """Sends on a connection of its own, with either kind of header."""
        host, _, port = self.target.broker.partition(":")
        fields = self.send_fields(code, text)
        frame = encode(Command(code=code, language="JAVA", version=477, opaque=1, body=body,
                               fields=fields, serialize_type=kind))  # fmt: skip
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as stream:
            stream.sendall(frame)
            reader = stream.makefile("rb")
            reply = decode(reader.read(int.from_bytes(reader.read(4), "big")))
        assert reply.code == 0, reply.remark

    def wait_for(self, count: int) -> None:
        """Waits until pulls can see so many messages, because Apache's queues are a moment behind
        its log."""
        fields = {"topic": self.topic, "queueId": "0"}
        wait_until(lambda: self.broker.call(30, fields).fields["offset"] == str(count), WAIT_S)

    def pull(self, offset: int, count: int = 32) -> list[StoredMessage]:
        reply = self.broker.ask(11, {
            "consumerGroup": self.group, "topic": self.topic, "queueId": "0",
            "queueOffset": str(offset), "maxMsgNums": str(count), "sysFlag": "4",
            "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": str(now_ms()),
            "subscription": "*", "expressionType": "TAG",
        })  # fmt: skip
        return list(decode_messages(reply.body)) if reply.code == 0 else []

    def pop(self) -> list[StoredMessage]:
        reply = self.broker.ask(200050, {
            "consumerGroup": self.group, "topic": self.topic, "queueId": "-1", "maxMsgNums": "32",
            "invisibleTime": "60000", "pollTime": "0", "bornTime": str(now_ms()), "initMode": "0",
            "order": "false",
        })  # fmt: skip
        return list(decode_messages(reply.body)) if reply.code == 0 else []

    def progress(self) -> tuple[int, int, int]:
        """(the broker's offset, the pulled offset, the committed offset)"""
        reply = self.broker.call(208, {"consumerGroup": self.group, "topic": self.topic})
        row = fastjson.loads(reply.body)["offsetTable"][MessageQueue(self.topic, "broker-a", 0)]
        return row["brokerOffset"], row["pullOffset"], row["consumerOffset"]

    def commit(self, offset: int) -> None:
        self.broker.call(15, {"consumerGroup": self.group, "topic": self.topic, "queueId": "0",
                              "commitOffset": str(offset)})  # fmt: skip


@pytest.fixture
def place(target: Target, session_id: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    name = "".join(each if each.isalnum() else "_" for each in request.node.name[-40:])
    with Cluster(target.name_server) as cluster:
        yield Place(cluster.connect(target.broker), target, f"{session_id}_{name}")


@pytest.mark.parametrize("header", [JSON, ROCKETMQ])
@pytest.mark.parametrize("code", [10, 310])
def test_what_only_the_broker_may_say_is_left_out(place: Place, code: int, header: int) -> None:
    for text in (f"{LIE}KEYS\x01k\x02", f"KEYS\x01k\x02{LIE}", f"KEYS\x01k\x02{LIE[:-1]}"):
        place.send(text, code=code, kind=header)
    place.wait_for(3)
    for found in (place.pull(0), place.pop()):
        assert [each.properties["KEYS"] for each in found] == ["k", "k", "k"]
        assert not [each for each in found if "POP_CK" in each.properties]


def test_what_was_pulled_is_told_from_what_is_committed(place: Place) -> None:
    for number in range(10):
        place.send(body=b"%d" % number)
    place.wait_for(10)
    assert place.progress() == (10, 0, 0)
    assert len(place.pull(0, 4)) == 4
    assert place.progress() == (10, 4, 0)
    place.commit(2)
    assert place.progress() == (10, 4, 2)
    assert len(place.pull(4)) == 6
    assert place.progress() == (10, 10, 2)
    place.commit(10)
    assert len(place.pull(0, 3)) == 3
    assert place.progress() == (10, 10, 10)


def test_settings_of_a_file_are_taken_at_run_time(place: Place) -> None:
    def shown() -> dict[str, str]:
        return java_properties.parse(place.broker.call(26, {}).body.decode())

    before = shown()
    for key, value in (("sendThreadPoolQueueCapacity", "20000"), ("fileReservedTime", "71"),
                       ("enableMixedMessageType", "true"), ("aclEnable", "false")):  # fmt: skip
        place.broker.call(25, {}, f"{key}={value}\n".encode())
        assert shown()[key] == value
        if key in before:
            place.broker.call(25, {}, f"{key}={before[key]}\n".encode())
            assert shown()[key] == before[key]


@pytest.mark.parametrize("key", ["configBlackList", "brokerConfigPath"])
def test_settings_on_the_black_list_are_nobodys_to_change(place: Place, key: str) -> None:
    with pytest.raises(RemoteError) as refused:
        place.broker.call(25, {}, f"fileReservedTime=70\n{key}=/tmp/x\n".encode())
    assert refused.value.code == 16
    kept = java_properties.parse(place.broker.call(26, {}).body.decode())
    assert kept["fileReservedTime"] != "70"


def test_attributes_that_a_topic_or_group_may_not_have(place: Place) -> None:
    wrong = {"+message.type=MIXED": 29, "+nonsense=1": 1, "+message.type=NONSENSE": 1,
             "+queue.type=Nonsense": 1}  # fmt: skip
    for attributes, code in wrong.items():
        name = f"{place.topic}_new"
        reply = place.broker.ask(17, {**TOPIC, "topic": name, "attributes": attributes})
        assert reply.code == code, (attributes, reply.remark)
        assert place.broker.ask(351, {"topic": name}).code == 17
    body = fastjson.dumps({"groupName": f"{place.group}_new", "attributes": {"+nonsense": "1"}})
    assert place.broker.ask(200, {}, body).code == 1


def test_an_attribute_is_kept_changed_and_removed(place: Place) -> None:
    def attributes() -> dict[str, str]:
        body = fastjson.loads(place.broker.call(351, {"topic": place.topic}).body)
        found: dict[str, str] = body["attributes"]
        return found

    for change, expected in (("+message.type=FIFO", {"message.type": "FIFO"}),
                             ("+message.type=DELAY", {"message.type": "DELAY"}),
                             ("-message.type", {})):  # fmt: skip
        place.broker.call(17, {**TOPIC, "topic": place.topic, "attributes": change})
        assert attributes() == expected
