"""Dead letters: messages that a group gave up: found, and sent again.

    for each in letters_of(cluster, dlq_topic("billing")): each.queue, each.count, each.waiting
    found = list(chosen(cluster, topic, key="order-7"))
    for each in send_again(cluster, "billing", found, keywords): ...

They lie in %DLQ%group until they expire. How far they were sent again is kept at the brokers, as
the offset of the tools' group in that topic, whoever sends them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start, first_offset, tail
from rmq.codes import ResponseCode
from rmq.errors import MessageError, ProtocolError, RemoteError, RmqError
from rmq.format.fastjson import MessageQueue
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.names import (
    CLIENT_PRODUCER_GROUP,
    DLQ_PREFIX,
    TOOLS_CONSUMER_GROUP,
    dlq_topic,
    retry_topic,
)

if TYPE_CHECKING:
    from cext.client.message import Message
    from rmq.client.parameters.keywords import ClientKeywords

ORIGIN = "origin"  # as a target: the topic that each came from
ORIGINS = ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")  # properties that name the topic it came from


@dataclass(frozen=True)
class Letters:
    """Dead letters in one queue: first .. end, of which those before `sent` were sent again."""

    queue: MessageQueue
    first: int
    end: int
    sent: int
    last_stored_ms: int

    @property
    def count(self) -> int:
        return self.end - self.first

    @property
    def waiting(self) -> int:
        return max(self.end - max(self.first, self.sent), 0)


def letters_of(cluster: Cluster, topic: str) -> list[Letters]:
    return [
        Letters(
            each.queue, each.min_offset, each.max_offset,
            admin.committed_offset(cluster, TOOLS_CONSUMER_GROUP, each.queue) or 0,
            each.last_stored_ms,
        )
        for each in admin.topic_queues(cluster, topic)
    ]  # fmt: skip


def topic_of(cluster: Cluster, group: str) -> str:
    """RemoteError: the group has no dead letters."""
    topic = dlq_topic(group)
    if topic not in cluster.topics():
        raise RemoteError(ResponseCode.TOPIC_NOT_EXIST, f"group {group} has no dead letters")
    return topic


def chosen(
    cluster: Cluster,
    topic: str,
    start: Start | None = None,
    key: str | None = None,
    ids: Sequence[str] = (),
    count: int | None = None,
) -> Iterator[ReceivedMessage]:
    """Without a start, in each queue those that were not sent again; with ids or a key from the
    first on."""
    if start is None:
        start = Start("first") if key is not None or ids else None
    left = count if count is not None else -1
    for each in letters_of(cluster, topic):
        begin = max(each.first, each.sent)
        if start is not None:
            begin = first_offset(cluster, each.queue, start, each.end)
        end = each.end if start is None or start.end is None else min(each.end, start.end)
        if begin >= end:
            continue
        for message in tail(
            cluster, topic, start=Start("offset", begin, end), queues=[each.queue.queue_id],
            broker=each.queue.broker_name,
        ):  # fmt: skip
            if left == 0:
                return
            if key is not None and key not in message.properties.get("KEYS", "").split():
                continue
            if ids and message.properties.get("UNIQ_KEY") not in ids:
                continue
            left -= 1
            yield message


def origin_of(message: ReceivedMessage) -> str | None:
    """The topic that its group read it from; None: nothing says so."""
    found = _came_by(message)
    group = message.stored.topic.removeprefix(DLQ_PREFIX)
    retry = retry_topic(group)
    if found is None or not found.startswith(retry):
        return found
    return found[len(retry) + 1 :] or None  # of a pop: %RETRY%group_topic, or with a +


def _came_by(message: ReceivedMessage) -> str | None:
    found = (message.properties.get(name) for name in ORIGINS)
    return next((each for each in found if each), None)


def _letter(message: ReceivedMessage, group: str, target: str | None) -> Message:
    """What is sent. MessageError, ProtocolError: it cannot be."""
    from cext.client.message import Message, unpack_body

    stored = message.stored
    place = f"{message.broker_name}, queue {stored.queue_id}, offset {stored.queue_offset}"
    try:
        body = unpack_body(stored.sys_flag, stored.body)
    except ProtocolError as error:
        raise MessageError(f"{place}: {error}; --id and --from send others") from None
    kept = {name: value for name, value in message.properties.items()
            if name not in OWN_PROPERTIES}  # fmt: skip
    origin, came_by = origin_of(message), _came_by(message)
    # Who pops reads a retry topic for each topic, which is the one that it came by.
    is_popped = came_by != origin
    topic = origin if target == ORIGIN else target
    if target is None:
        topic = came_by if is_popped else retry_topic(group)
    if topic is None:
        raise MessageError(f"{place}: nothing says which topic it came from: name one (--to)")
    made = Message(topic, body, properties=kept, flag=stored.flag)
    if target is None and origin is not None and not is_popped:
        made.put_property("RETRY_TOPIC", origin)  # as which the group sees it
    return made


def require_all(found: Sequence[ReceivedMessage], key: str | None, ids: Sequence[str]) -> None:
    """RmqError: what was named is not there."""
    missing = set(ids) - {str(each.properties.get("UNIQ_KEY")) for each in found}
    if missing or (key is not None and not found):
        raise RmqError(f"no dead letter has {min(missing) if missing else key}")


def send_again(
    cluster: Cluster,
    group: str,
    found: Sequence[ReceivedMessage],
    keywords: ClientKeywords,
    *,
    target: str | None = None,
    is_rest: bool = False,
) -> Iterator[ReceivedMessage]:
    """Each of these once it was sent again. target: to this topic, or ORIGIN; None: the group alone
    gets them, by its retry topic. is_rest: they are what was not sent again yet, and brokers take
    note of how far that is. keywords: of the producer."""
    topic = dlq_topic(group)
    if is_rest:  # somebody else may have sent them meanwhile
        marks = {each.queue: each.sent for each in letters_of(cluster, topic)}
        found = [each for each in found
                 if each.stored.queue_offset >= marks[_queue(topic, each)]]  # fmt: skip
        for name in {each.broker_name for each in found}:
            cluster.address_of(name)  # its master takes note of how far it is
    letters = [_letter(each, group, target) for each in found]
    is_first = True
    for each, message_id in zip(found, _send(letters, keywords), strict=True):
        if target is None and is_first:
            _check_taken(cluster, topic, group, message_id)
        is_first = False
        if is_rest:
            _note(cluster, _queue(topic, each), each.stored.queue_offset + 1)
        yield each


def _send(letters: Sequence[Message], keywords: ClientKeywords) -> Iterator[str]:
    """The unique id of each, once it is stored."""
    from rmq.client.producer.producer import Producer

    if not letters:
        return
    with Producer(CLIENT_PRODUCER_GROUP, **keywords) as producer:
        for each in letters:
            yield str(producer.send(each).message_id)


def _queue(topic: str, message: ReceivedMessage) -> MessageQueue:
    return MessageQueue(topic, message.broker_name, message.stored.queue_id)


def _note(cluster: Cluster, queue: MessageQueue, offset: int) -> None:
    """How far they were sent again; never back, whoever else is at it."""
    before = admin.committed_offset(cluster, TOOLS_CONSUMER_GROUP, queue) or 0
    if offset > before:
        admin.commit_offset(cluster, TOOLS_CONSUMER_GROUP, queue, offset)


def _check_taken(cluster: Cluster, topic: str, group: str, message_id: str) -> None:
    """After the first one: of a group that consumes in order, and holds locks, brokers make dead
    letters of what comes to its retry topic. RmqError."""
    for each in tail(cluster, topic, start=Start("back", 1)):
        if each.properties.get("UNIQ_KEY") == message_id:
            raise RmqError(
                f"group {group} consumes in order: what comes to its retry topic is a dead letter "
                "again, as this first one is now. Stop its members meanwhile, or send to where "
                "they came from: --to origin"
            )
