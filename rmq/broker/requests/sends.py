"""Sends: handlers of sends that the reactor passes on to control: 10, 310, 320.

The reactor passes on a send to a topic that it does not know, be it the topic itself or that of the
group's dead letters (cext/flow/send/dead_letter.pxd); to a retry topic of a group that it does not
know; a send that steps 1 and 2 may refuse; and one with more header fields than it reads (64),
which it refuses with 1 when it comes back. The checks are RocketMQ's, in its order. When none
fails, the reactor gets what it did not know, and then the frame (core.resubmit); it never passes
the same frame on twice.

    1   before startAcceptSendRequestTimeStamp                          1
    2   broker not writable and the topic is ordered                    16
    3   topic name                                                      29
    4   a system topic that clients may not send to                     16
    5   topic unknown: create it like defaultTopic, or as retry topic   17
    6   queueId beyond the topic's queues                               29
    7   %RETRY%group: group unknown                                     26
    8   batch: retry topic, delayed, transactional, long topic          13
    9   no body, body or properties too long                            13
    10  transaction messages while rejectTransactionMessage is set      16
    11  %RETRY%group: reconsumed too often, or the group is orderly
                      -> %DLQ%group is made; it may not be written      16

Sends that wait for a topic's creation are given back in the order of their arrival. So are sends
that a new master cannot promise to keep yet (replication/waiting_sends.py), before these steps.

Example: 310 {b: "new", c: "TBW102", d: "4", e: "3", ..} creates "new" with 4 queues and goes back;
with e "4" it is answered with 29, and the topic is not created.
"""

from collections.abc import Awaitable
from typing import Protocol

import msgspec

from rmq import names
from rmq.base import clock
from rmq.broker.core_seam import ConnectionCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.dispatch.topic_creations import TopicCreations
from rmq.broker.name_checks import check_topic
from rmq.broker.replication.replication import Replication
from rmq.broker.tables.groups import GroupConfig, GroupTable
from rmq.broker.tables.locks import LockTable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import PERM_READ, PERM_WRITE, SYS_FLAGS_KNOWN, VERSION_RECONSUME, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.format.message import decode_properties
from rmq.format.remoting import Command
from rmq.limits import I32_MAX, I32_MIN, PROPERTIES_BYTES_MAX, TOPIC_CHARACTERS_MAX
from rmq.refusal import Refusal

_LONG_NAMES = (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE)
# long name -> short name of requests 310, 320 and 325
_SHORT = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}


class LimitsContext(Protocol):
    """What is used here of the broker to check a send."""

    settings: Settings
    topics: TopicTable


class Context(LimitsContext, Protocol):
    """What these handlers use of the broker."""

    creations: TopicCreations
    groups: GroupTable
    locks: LockTable
    replication: Replication

    @property
    def core(self) -> ConnectionCalls: ...


class SendHeader(msgspec.Struct, frozen=True):
    """The fields of a send that control looks at."""

    topic: str
    default_topic: str
    default_queues: int
    queue_id: int
    properties: str
    reconsume_times: int
    reconsume_times_max: int | None
    batch: bool

    def found(self) -> dict[str, str]:
        """The message's properties by name."""
        return decode_properties(self.properties.encode("utf-8", "replace"))

    def delay_level(self) -> int:
        text = self.found().get("DELAY", "")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    @classmethod
    def of(cls, command: Command) -> "SendHeader":
        """Reads the fields; ProtocolError names the field, as the client spells it, that is missing
        or malformed."""
        for name in ("producerGroup", "sysFlag", "bornTimestamp", "flag"):
            command.require(spelling(command, name))
        return cls(
            topic=command.require(spelling(command, "topic")),
            default_topic=command.require(spelling(command, "defaultTopic")),
            default_queues=command.int_field(
                spelling(command, "defaultTopicQueueNums"), minimum=I32_MIN, maximum=I32_MAX
            ),
            queue_id=command.int_field(
                spelling(command, "queueId"), minimum=I32_MIN, maximum=I32_MAX
            ),
            properties=command.text_field(spelling(command, "properties")) or "",
            reconsume_times=command.int_field(
                spelling(command, "reconsumeTimes"), 0, I32_MIN, I32_MAX
            ),
            reconsume_times_max=command.int_field(
                spelling(command, "maxReconsumeTimes"), None, I32_MIN, I32_MAX
            ),
            batch=command.code == Code.SEND_BATCH_MESSAGE
            or command.bool_field(spelling(command, "batch"), False),
        )


def spelling(command: Command, name: str) -> str:
    """The name this request uses for the field."""
    return name if command.code in _LONG_NAMES else _SHORT[name]


def send(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    if (waiting := context.replication.waiting_sends).is_on:
        return waiting.add(lambda: send(context, request))
    command = request.command
    header = SendHeader.of(command)
    check_broker(context, header)
    check_topic(header.topic)
    if header.topic in names.CLOSED_TO_CLIENTS:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"sending to topic[{header.topic}] is not allowed"
        )
    retry = header.topic.startswith(names.RETRY_PREFIX)
    group = None
    if retry:
        group = context.groups.require(header.topic.removeprefix(names.RETRY_PREFIX))
    config = context.topics.get(header.topic)
    if config is None:
        config = (
            TopicConfig(header.topic, group.retry_queues, group.retry_queues)
            if group is not None
            else context.topics.in_image_of(
                header.topic, header.default_topic, header.default_queues
            )
        )
    if header.queue_id >= config.queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId {header.queue_id} is illegal: topic[{header.topic}] has "
            f"{config.read_queues} read and {config.write_queues} write queues",
        )
    _check_message(context, command, header)
    topics = [config]
    if group is not None:
        if _is_dead(context, command, header, group):
            topics.append(_dead_letters(context, group.name))
        context.groups.put_in_core(group.name)
        context.locks.put_in_core(group.name)
    missing = [each for each in topics if not context.creations.is_made(each.name)]
    for each in topics:
        if each not in missing:
            context.topics.put_in_core(each.name)
    if missing:
        return context.creations.wait(request, *missing)
    context.core.resubmit(request.connection.number, request.frame)
    return None


def check_broker(context: LimitsContext, header: SendHeader) -> None:
    settings = context.settings
    if clock.wall() * 1000 < settings.startAcceptSendRequestTimeStamp:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            "this broker takes sends only from its startAcceptSendRequestTimeStamp on",
        )
    topic = context.topics.get(header.topic)
    if not settings.brokerPermission & PERM_WRITE and topic is not None and topic.order:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{settings.brokerIP1}] does not take sends at present",
        )


def check_sizes(context: LimitsContext, command: Command, header: SendHeader) -> None:
    """Checks step 9, and that the send has no flags that this broker does not know."""
    unknown_flags = (
        command.int_field(spelling(command, "sysFlag"), 0, I32_MIN, I32_MAX) & ~SYS_FLAGS_KNOWN
    )
    if unknown_flags:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL, f"unknown system flags {unknown_flags & 0xFFFFFFFF:#x}"
        )
    limit = context.settings.maxMessageSize
    if not command.body:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
    if len(command.body) > limit:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message body has {len(command.body)} bytes, maxMessageSize is {limit}",
        )
    if len(header.properties.encode("utf-8", "replace")) > PROPERTIES_BYTES_MAX:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message properties are longer than {PROPERTIES_BYTES_MAX} bytes",
        )


def _check_message(context: Context, command: Command, header: SendHeader) -> None:
    """Checks steps 8 to 10."""
    check_sizes(context, command, header)
    found = header.found()
    delayed = header.delay_level() > 0
    retry = header.topic.startswith(names.RETRY_PREFIX)
    if header.batch and (retry or delayed or len(header.topic) > TOPIC_CHARACTERS_MAX):
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "a batch may not be delayed nor go to a retry topic or one of a long name",
        )
    if found.get("TRAN_MSG", "").lower() == "true" and context.settings.rejectTransactionMessage:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{context.settings.brokerIP1}] takes no transaction messages",
        )


def _is_dead(context: Context, command: Command, header: SendHeader, group: GroupConfig) -> bool:
    """Whether a send to %RETRY%group belongs to the dead letters."""
    times_max = group.retry_times_max
    if command.version >= VERSION_RECONSUME and header.reconsume_times_max is not None:
        times_max = header.reconsume_times_max
    return header.reconsume_times > times_max or context.locks.held_by_anyone(group.name)


def _dead_letters(context: Context, group: str) -> TopicConfig:
    """The group's %DLQ% topic, as it is or would be created."""
    topic = context.topics.dead_letter(group)
    if not topic.perm & (PERM_READ | PERM_WRITE):
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic[{topic.name}] takes no messages")
    return topic


HANDLERS: dict[int, Handler[Context]] = {
    Code.SEND_MESSAGE: send,
    Code.SEND_MESSAGE_V2: send,
    Code.SEND_BATCH_MESSAGE: send,
}
