"""Popping: the requests of a consumer that pops, over a BrokerClient, and what replies mean."""

import time
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from support.broker_client import BrokerClient
from support.driven_clock import pass_some_time
from support.waiting import HANG_S, POLL_S, machine_sleep

from rmq.base import clock
from rmq.format import fastjson
from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import Command

POP, ACK, PEEK, CHANGE, NOTIFICATION, POLLING, BATCH_ACK = (
    200050, 200051, 200052, 200053, 200054, 200055, 200151,
)  # fmt: skip
REVIVE_LOG = "rmq_sys_REVIVE_LOG_DefaultCluster"


def now_ms() -> int:
    return int(clock.wall() * 1000)


@dataclass(frozen=True)
class Popped:
    """One message and its check point, as the official client combines them."""

    message: StoredMessage
    extra: str
    topic: str  # where it is stored: the topic, or the group's retry topic

    @property
    def visible_ms(self) -> int:
        """When the message comes again if it is not acknowledged."""
        _, popped_ms, invisible_ms, *_ = self.extra.split(" ")
        return int(popped_ms) + int(invisible_ms)

    @property
    def body(self) -> bytes:
        return self.message.body


def pop_fields(group: str, topic: str, **fields: Any) -> dict[str, Any]:
    return {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32,
        "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0, "initMode": 0, **fields,
    }  # fmt: skip


async def pop(client: BrokerClient, group: str, topic: str, **fields: Any) -> list[Popped]:
    """Pops once; returns the messages, or [] if there are none (210)."""
    reply = await client.call(POP, **pop_fields(group, topic, **fields))
    if reply.code == 210:
        return []
    assert reply.code == 0, (reply.code, reply.remark)
    return popped(reply, group, topic)


def popped(reply: Command, group: str, topic: str) -> list[Popped]:
    starts = dict(
        (tuple(part.split(" ")[:2]), part.split(" ")[2])
        for part in reply.fields["startOffsetInfo"].split(";")
    )
    out = []
    for message in decode_messages(reply.body):
        assert message.topic == topic, "a client sees messages of the topic it asked for"
        extra = message.properties.get("POP_CK")
        if extra is None:
            start = starts["0", str(message.queue_id)]
            extra = (
                f"{start} {reply.fields['popTime']} {reply.fields['invisibleTime']} "
                f"{reply.fields['reviveQid']} 0 broker-a {message.queue_id} {message.queue_offset}"
            )
        retry = extra.split(" ")[4]
        place = topic if retry == "0" else f"%RETRY%{group}{'_' if retry == '1' else '+'}{topic}"
        out.append(Popped(message, extra, place))
    listed = [
        offset
        for part in reply.fields["msgOffsetInfo"].split(";")
        for offset in part.split(" ")[2].split(",")
    ]
    assert sorted(listed) == sorted(str(each.message.queue_offset) for each in out)
    return out


def ack_fields(group: str, one: Popped) -> dict[str, Any]:
    return {
        "consumerGroup": group, "topic": one.topic, "queueId": one.message.queue_id,
        "offset": one.message.queue_offset, "extraInfo": one.extra,
    }  # fmt: skip


async def ack(client: BrokerClient, group: str, *some: Popped) -> None:
    for one in some:
        reply = await client.call(ACK, **ack_fields(group, one))
        assert reply.code == 0, (reply.code, reply.remark)


def batch_of(*rows: tuple[Popped, str, list[int]]) -> bytes:
    """The body of a batch of acks. Each part: (any message of a pop, group, queue offsets)."""
    acks = []
    for one, group, offsets in rows:
        start, popped_ms, invisible, revive, *_ = one.extra.split(" ")
        bits = sum(1 << offset - int(start) for offset in offsets)
        acks.append({
            "c": group, "t": one.message.topic, "r": "0", "so": int(start),
            "q": one.message.queue_id, "rq": int(revive), "pt": int(popped_ms),
            "it": int(invisible), "b": b64encode(bits.to_bytes(8, "little")).decode(),
        })  # fmt: skip
    return fastjson.dumps({"brokerName": "broker-a", "acks": acks})


async def change(client: BrokerClient, group: str, one: Popped, invisible_ms: int) -> Popped:
    """Changes when the message is visible; returns it with its new check point."""
    reply = await client.call(CHANGE, **ack_fields(group, one), invisibleTime=invisible_ms)
    assert reply.code == 0, (reply.code, reply.remark)
    old = one.extra.split(" ")
    extra = " ".join(
        [str(one.message.queue_offset), reply.fields["popTime"], reply.fields["invisibleTime"],
         reply.fields["reviveQid"], *old[4:]]
    )  # fmt: skip
    return Popped(one.message, extra, one.topic)


async def pop_all(
    client: BrokerClient, group: str, topic: str, count: int, timeout_s: float = HANG_S,
    **fields: Any,
) -> list[Popped]:  # fmt: skip
    """Pops until `count` messages have come."""
    end = time.monotonic() + timeout_s
    out: list[Popped] = []
    while len(out) < count:
        left = end - time.monotonic()
        assert left > 0, f"{len(out)} of {count} messages"
        if clock.is_driven():  # instead of a long poll
            pass_some_time()
            await machine_sleep(POLL_S)
            out += await pop(client, group, topic, **fields)
        else:
            hold_ms = max(1, int(min(left, 1) * 1000))
            out += await pop(client, group, topic, pollTime=hold_ms, **fields)
    return out
