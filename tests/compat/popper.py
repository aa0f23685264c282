"""Pops by hand: a topic of one queue, and a group that pops it request by request."""

from __future__ import annotations

import time
from typing import Any

from compat.targets import Target
from support.popping import ACK, POP, now_ms
from support.waiting import wait_until

from rmq.client.blocking.cluster import Cluster
from rmq.format import fastjson
from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import Command

REVIVED_S = 40.0  # Apache reads its revive log only now and then


class Popper:
    """One topic with one queue, one group, one connection."""

    def __init__(self, cluster: Cluster, target: Target, topic: str) -> None:
        self.broker = cluster.connect(target.broker)
        self.topic, self.group, self.sent = topic, f"g_{topic}", 0
        self.broker.call(17, {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        })  # fmt: skip
        body = fastjson.dumps({"groupName": self.group})
        self.broker.call(200, {}, body)

    def send(self, *numbers: int) -> None:
        """Sends, and waits until pops can see the messages, because Apache's queues are a moment
        behind its log."""
        self.sent += len(numbers)
        for number in numbers:
            self.broker.call(310, {
                "a": "P", "b": self.topic, "c": "TBW102", "d": "1", "e": "0", "f": "0",
                "g": str(now_ms()), "h": "0", "i": "", "j": "0", "k": "false",
            }, b"%d" % number)  # fmt: skip
        wait_until(self.is_in_the_queue, REVIVED_S)

    def is_in_the_queue(self) -> bool:
        reply = self.broker.call(30, {"topic": self.topic, "queueId": "0"})
        return int(reply.fields["offset"]) == self.sent

    def place(self, **fields: Any) -> dict[str, str]:
        place = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0, **fields}
        return {name: str(value) for name, value in place.items()}

    def ask(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        return self.broker.ask(code, fields, body)

    def pop(self, **fields: Any) -> Command:
        asked = {
            "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0,
            "bornTime": now_ms(), "initMode": 0, "order": "false", **fields,
        }  # fmt: skip
        return self.ask(POP, **self.place(**asked))

    def pop_until(self, count: int, **fields: Any) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        end = time.monotonic() + REVIVED_S
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count}"
            reply = self.pop(pollTime=1000, **fields)
            found += decode_messages(reply.body) if reply.code == 0 else []
        return found

    def extra(self, reply: Command, offset: int) -> str:
        fields = reply.fields
        start = fields["startOffsetInfo"].split(" ")[2]
        return (
            f"{start} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 "
            f"broker-a 0 {offset}"
        )

    def ack(self, reply: Command, *offsets: int) -> list[int]:
        return [
            self.ask(
                ACK, **self.place(offset=offset, extraInfo=self.extra(reply, offset))
            ).code
            for offset in offsets
        ]  # fmt: skip


def bodies(reply: Command) -> list[int]:
    return [int(message.body) for message in decode_messages(reply.body)]
