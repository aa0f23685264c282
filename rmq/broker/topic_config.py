"""One topic's configuration, its JSON form, and the attribute text of mqadmin.

    {"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",
     "topicName":"t","topicSysFlag":0,"writeQueueNums":4}

perm is a sum of read 4, write 2, inherit 1 (topics may be created in its image). Consumers see the
read queues, producers the write queues; queue ids run from 0.

Attributes arrive as "+message.type=FIFO,-cleanup.policy": + adds or changes, - removes. Which keys
there are and what they may hold: ATTRIBUTES.

Example: altered_attributes({}, "+message.type=FIFO") == {"message.type": "FIFO"}.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rmq.broker.names import check_topic
from rmq.broker.request import bool_member, int_member, text_member
from rmq.errors import ProtocolError

PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
PERM_MAX = 7

QUEUES_MAX = 65535  # of one topic; ours, so that no request makes us walk 2^31 queues

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")

_MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
# key -> (values it may have, None: any whole number; whether it may change after creation)
ATTRIBUTES: dict[str, tuple[tuple[str, ...] | None, bool]] = {
    "queue.type": (("SimpleCQ", "BatchCQ"), False),
    "cleanup.policy": (("DELETE", "COMPACTION"), False),
    "message.type": (_MESSAGE_TYPES, True),
    "reserve.time": (None, True),
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Immutable: a change makes a new one, so a snapshot of the table is a plain copy of it."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = PERM_READ | PERM_WRITE
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queues(self) -> int:
        """Queues that may hold messages."""
        return max(self.read_queues, self.write_queues)

    def members(self) -> dict[str, Any]:
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    def masked(self, broker_permission: int) -> "TopicConfig":
        """As clients may see it on a broker with this permission."""
        return replace(self, perm=self.perm & (broker_permission | PERM_INHERIT))

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "TopicConfig":
        """From JSON, every name and number checked; ProtocolError or Refusal when wrong."""
        attributes = members.get("attributes") or {}
        if not isinstance(attributes, Mapping):
            raise ProtocolError("member attributes of a topic is not an object")
        return cls(
            name=check_topic(text_member(members, "topicName")),
            read_queues=int_member(members, "readQueueNums", 16, 0, QUEUES_MAX),
            write_queues=int_member(members, "writeQueueNums", 16, 0, QUEUES_MAX),
            perm=int_member(members, "perm", PERM_READ | PERM_WRITE, 0, PERM_MAX),
            order=bool_member(members, "order", False),
            filter_type=text_member(members, "topicFilterType", "SINGLE_TAG"),
            sys_flag=int_member(members, "topicSysFlag", 0, -(2**31), 2**31 - 1),
            attributes={str(key): str(value) for key, value in attributes.items()},
        )


def altered_attributes(current: Mapping[str, str], text: str, creating: bool) -> dict[str, str]:
    """The attributes after the changes in `text`; ProtocolError naming what is wrong with it."""
    altered = dict(current)
    seen = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        sign, (key, equals, value) = item[0], item[1:].partition("=")
        if sign not in "+-" or not key or (sign == "+" and not equals):
            raise ProtocolError(f"attribute {item!r} is neither +key=value nor -key")
        if key in seen:
            raise ProtocolError(f"attribute {key} is given twice")
        seen.add(key)
        _check_attribute(key, value if sign == "+" else None, creating)
        if sign == "+":
            altered[key] = value
        elif creating:
            raise ProtocolError(f"attribute {key} cannot be removed from a topic being created")
        elif altered.pop(key, None) is None:
            raise ProtocolError(f"attribute {key} is not set and cannot be removed")
    return altered


def _check_attribute(key: str, value: str | None, creating: bool) -> None:
    if key not in ATTRIBUTES:
        raise ProtocolError(f"attribute {key!r} is unknown; known are {', '.join(ATTRIBUTES)}")
    allowed, changeable = ATTRIBUTES[key]
    if not changeable and not creating:
        raise ProtocolError(f"attribute {key} cannot be changed after the topic was created")
    if value is None:
        return
    if allowed is not None and value not in allowed:
        raise ProtocolError(f"attribute {key}={value!r}: one of {', '.join(allowed)}")
    if allowed is None and not (value.removeprefix("-").isdecimal() and len(value) <= 19):
        raise ProtocolError(f"attribute {key}={value!r}: a whole number")
