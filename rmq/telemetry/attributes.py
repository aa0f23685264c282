"""Attributes of spans, by OpenTelemetry's conventions for messaging systems.

Source: opentelemetry.io/docs/specs/semconv/messaging, and its page on RocketMQ.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.util.types import AttributeValue

from cext.client.message import Message, MessageExt
from cext.client.result import SendResult
from rmq.base.server_address import split_address

Attributes = dict[str, AttributeValue]

SYSTEM = "messaging.system"
OPERATION_NAME, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
DESTINATION, PARTITION = "messaging.destination.name", "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
CLIENT_ID = "messaging.client.id"
MESSAGE_ID, BODY_BYTES = "messaging.message.id", "messaging.message.body.size"
BATCH_COUNT = "messaging.batch.message_count"
CLIENT_GROUP = "messaging.rocketmq.client_group"
KIND, TAG, KEYS = (
    "messaging.rocketmq.message.type",
    "messaging.rocketmq.message.tag",
    "messaging.rocketmq.message.keys",
)
MESSAGE_GROUP = "messaging.rocketmq.message.group"
DELAY_LEVEL = "messaging.rocketmq.message.delay_time_level"
ERROR = "error.type"
SERVER, PORT = "server.address", "server.port"
TIMED = ("TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC")  # properties of timed messages


def of_operation(name: str, topic: str, group: str) -> Attributes:
    """What spans and metrics of one kind have in common. name: send, receive or process."""
    return {
        SYSTEM: "rocketmq", OPERATION_NAME: name, OPERATION_TYPE: name, DESTINATION: topic,
        CLIENT_GROUP: group,
    }  # fmt: skip


def of_sent(messages: Sequence[Message], *, is_half: bool = False) -> Attributes:
    """What is known before the broker answers."""
    first = messages[0]
    found: Attributes = {BODY_BYTES: sum(len(each.body) for each in messages)}
    if len(messages) > 1:
        return {**found, BATCH_COUNT: len(messages)}
    found[KIND] = "transaction" if is_half else _kind(first)
    _add_marks(found, first)
    if first.sharding_key:
        found[MESSAGE_GROUP] = first.sharding_key
    if first.delay_level:
        found[DELAY_LEVEL] = first.delay_level
    return found


def of_stored(result: SendResult) -> Attributes:
    """Where a broker stored the message."""
    queue = result.queue
    return {MESSAGE_ID: result.message_id, PARTITION: f"{queue.broker_name}:{queue.queue_id}"}


def of_server(address: str | None) -> Attributes:
    """The broker that was asked, "10.0.0.7:10911"; None: it is not known, or there were several."""
    if address is None:
        return {}
    host, port = split_address(address)
    return {SERVER: host, PORT: port}


def of_received(messages: Sequence[MessageExt], client_id: str) -> Attributes:
    found: Attributes = {CLIENT_ID: client_id}
    if len(messages) > 1:
        return {**found, BATCH_COUNT: len(messages)}
    first, queue = messages[0], messages[0].queue
    found[MESSAGE_ID] = first.message_id
    found[PARTITION] = f"{queue.broker_name}:{queue.queue_id}"
    found[BODY_BYTES] = first.stored_body_bytes
    _add_marks(found, first)
    return found


def _add_marks(found: Attributes, message: Message | MessageExt) -> None:
    if message.tags:
        found[TAG] = message.tags
    if message.keys:
        found[KEYS] = message.keys.split()


def _kind(message: Message) -> str:
    if message.delay_level or any(map(message.get_property, TIMED)):
        return "delay"
    return "fifo" if message.sharding_key else "normal"
