"""Handle: the text by which a broker finds a popped message that it has given out.

    handles_of(reply, messages, "broker-a")      # one for each message, in their order
    handle.text == "12 1700000000000 60000 3 0 broker-a 2 14"

The text is RocketMQ's POP_CK: offset of the check point, time of the pop, invisible time, queue of
the revive topic, whether the message came from a retry topic (0 no, 1, 2 by the form of its name),
broker, queue and offset of the message. The answer to a pop names offsets by queue. A message that
came from a retry topic shows its original topic, and carries its own POP_CK if the broker made one.

Values only; no I/O. A part that is missing, or that is not a number, is a ProtocolError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cext.client.message import MessageExt
from cext.client.reply import Reply
from rmq.errors import ProtocolError
from rmq.names import RETRY_PREFIX, pop_retry_topics

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
PARTS = 8


class CheckPoint(NamedTuple):
    """The values that are the same for all messages that one pop took from one queue."""

    topic: str
    kind: str
    queue_id: int
    start_offset: int
    pop_time: int
    invisible_ms: int
    revive_queue: int


@dataclass(frozen=True)
class Handle:
    """One delivery of a message. `topic` is the topic in which the message is stored, `asked` the
    one that was popped."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    text: str
    asked: str

    @classmethod
    def of(cls, text: str, topic: str, group: str) -> Handle:
        """The handle with this text, a POP_CK; `topic` is the one that was popped."""
        parts = text.split(" ")
        if len(parts) < PARTS:
            raise ProtocolError(f"a handle of {len(parts)} parts: {text[:200]!r}")
        retry_topics = pop_retry_topics(group, topic)
        stored = {
            NORMAL: topic, RETRY_V1: retry_topics[0], RETRY_V2: retry_topics[1],
        }.get(parts[4])  # fmt: skip
        if stored is None:
            raise ProtocolError(f"a handle of an unknown kind: {text[:200]!r}")
        return cls(stored, parts[5], _number(parts[6]), _number(parts[7]), text, topic)

    def renewed(self, pop_time: int, invisible_ms: int, revive_queue: int) -> Handle:
        """The handle after the invisible time was changed, which has a new check point."""
        parts = self.text.split(" ")
        text = (f"{self.queue_offset} {pop_time} {invisible_ms} {revive_queue} {parts[4]} "
                f"{self.broker_name} {self.queue_id} {self.queue_offset}")  # fmt: skip
        return replace(self, text=text)

    @property
    def check_point(self) -> CheckPoint:
        start, popped, invisible, revive_queue, kind = self.text.split(" ")[:5]
        return CheckPoint(self.asked, kind, self.queue_id, _number(start), _number(popped),
                          _number(invisible), _number(revive_queue))  # fmt: skip


def kind_of(topic: str) -> str:
    """The kind of a topic: 0 an ordinary one, 1 and 2 retry topics of pops, by the form of their
    names."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def handles_of(
    reply: Reply, messages: Sequence[MessageExt], topic: str, group: str, broker_name: str
) -> list[Handle]:
    """The handles of a pop's messages; topics have their names on the wire."""
    fields = reply.fields
    pop_time, invisible = reply.int_field("popTime"), reply.int_field("invisibleTime")
    revive_queue = reply.int_field("reviveQid")
    starts = _table(fields.get("startOffsetInfo", ""))
    by_queue: dict[tuple[str, int], int] = {}
    found = []
    for message in messages:
        text = message.get_property("POP_CK")
        if not text:
            kind = kind_of(message.topic)
            key = (kind, message.queue_id)
            if starts:
                start = starts.get(key)
                if start is None:
                    raise ProtocolError(f"the answer to a pop tells no offset of {key}")
            else:
                start = by_queue.setdefault(key, message.queue_offset)
            text = (f"{start} {pop_time} {invisible} {revive_queue} {kind} {broker_name} "
                    f"{message.queue_id} {message.queue_offset}")  # fmt: skip
        found.append(Handle.of(text, topic, group))
    return found


def order_counts(reply: Reply) -> dict[tuple[str, int, int], int]:
    """How often messages that are popped in order were delivered before, by (kind, queue, offset);
    offset -1 stands for all messages of the queue."""
    found = {}
    for row in filter(None, reply.fields.get("orderCountInfo", "").split(";")):
        parts = row.split(" ")
        if len(parts) != 3:
            raise ProtocolError(f"an order count of {len(parts)} parts")
        queue, _, offset = parts[1].removeprefix("qo").partition("%")
        at = (parts[0], _number(queue), _number(offset) if offset else -1)
        found[at] = _number(parts[2])
    return found


def _table(text: str) -> dict[tuple[str, int], int]:
    """The numbers of "kind queue number;..", by kind and queue."""
    found = {}
    for row in filter(None, text.split(";")):
        parts = row.split(" ")
        if len(parts) != 3:
            raise ProtocolError(f"offsets of a pop in {len(parts)} parts: {text[:200]!r}")
        found[parts[0], _number(parts[1])] = _number(parts[2])
    return found


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ProtocolError(f"{text[:40]!r} in a handle is no number") from None
