"""One pop: the fields of the request, and the messages of the answer.

    fields = pop_fields(group, parameters, target, subscription, most=32, .., held_ms=15_000)
    messages = popped(reply, target, subscription, group, namespace)

Each message carries its handle as property POP_CK, and the topic's name that the user knows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from cext.client.message import MessageExt, decode_messages
from cext.client.reply import Reply
from rmq.base import clock
from rmq.client.connection.namespaces import unwrap
from rmq.client.consumer.subscription import Subscription
from rmq.client.pop.handles import handles_of, kind_of, order_counts
from rmq.codes import ResponseCode

ALL_QUEUES = -1
NOTHING = (
    ResponseCode.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT,
    ResponseCode.PULL_NOT_FOUND,
)
PATIENCE_MS = 10_000  # to wait for an answer after the time for which the pop may be held


class Target(NamedTuple):
    """What is popped: all queues of a topic (its name on the wire) at one broker, or one queue."""

    topic: str
    broker_name: str
    queue_id: int = ALL_QUEUES


class PopParameters(Protocol):
    """The parameters that a pop depends on."""

    consume_from_where: str
    consume_orderly: bool


def pop_fields(
    group: str, given: PopParameters, target: Target, subscription: Subscription, *, most: int,
    invisible_ms: int, held_ms: int,
) -> dict[str, Any]:  # fmt: skip
    """The header fields of the request."""
    first = given.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    return {
        "consumerGroup": group, "topic": target.topic, "queueId": target.queue_id,
        "maxMsgNums": most, "invisibleTime": invisible_ms, "pollTime": held_ms,
        "bornTime": clock.now_ms(), "initMode": 0 if first else 1,
        "expType": subscription.kind, "exp": subscription.text, "order": given.consume_orderly,
        "bname": target.broker_name,
    }  # fmt: skip


def popped(reply: Reply, target: Target, group: str, namespace: str | None) -> list[MessageExt]:
    """The messages of an answer whose code is SUCCESS."""
    found = decode_messages(reply, target.broker_name)
    handles = handles_of(reply, found, target.topic, group, target.broker_name)
    counts = order_counts(reply)
    shown = unwrap(namespace, target.topic)
    for message, handle in zip(found, handles, strict=True):
        kind = kind_of(message.topic)
        for at in ((kind, message.queue_id, message.queue_offset),
                   (kind, message.queue_id, -1)):  # fmt: skip
            if counts.get(at):
                message.reconsume_times = counts[at]
                break
        message.properties["POP_CK"] = handle.text
        message.topic = shown
    return found


def without(messages: list[MessageExt], others: list[MessageExt]) -> list[MessageExt]:
    """The messages that are not among `others`."""
    left_out = {id(each) for each in others}
    return [each for each in messages if id(each) not in left_out]
