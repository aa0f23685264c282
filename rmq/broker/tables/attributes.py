"""Attributes: the attributes of topics and groups, and the values of them that rmq serves.

They arrive as changes, "+message.type=FIFO,-cleanup.policy" (17) or {"+message.type":"FIFO"} (18,
200): + adds or changes, - removes. Values that RocketMQ 5.5.0 knows and rmq does not serve are
refused with the reason: a topic that claimed to be compacted without being so would lose what its
owner wants to keep.

message.type is kept and shown; as in RocketMQ, proxies check it, brokers do not.

    altered(TOPIC, {}, {"+message.type": "FIFO"}, creating=True)    {"message.type": "FIFO"}
    altered(TOPIC, {}, {"+queue.type": "BatchCQ"}, creating=True)
        ProtocolError: attribute queue.type=BatchCQ is refused: batch consume queues are not built;
        leave it out or use SimpleCQ, where batches are stored too
"""

from collections.abc import Mapping

import msgspec

from rmq.errors import ProtocolError


class Attribute(msgspec.Struct, frozen=True):
    served: tuple[str, ...]
    changeable: bool = True  # after creation
    refused: Mapping[str, str] = {}  # a value of RocketMQ -> why it is not served here
    otherwise: str = ""  # why all other values are not served; empty: they are simply wrong


_NO_LITE = "lite topics are not built"
_OWN_TIME = (
    "no topic has a time of keeping of its own, fileReservedTime of the broker holds for all; "
    "leave it out"
)
_NO_PRIORITY = "messages have no priorities here"

TOPIC: Mapping[str, Attribute] = {
    "queue.type": Attribute(
        ("SimpleCQ",),
        changeable=False,
        refused={
            "BatchCQ": "batch consume queues are not built; leave it out or use SimpleCQ, where "
            "batches are stored too"
        },
    ),
    "cleanup.policy": Attribute(
        ("DELETE",),
        changeable=False,
        refused={
            "COMPACTION": "topics are not compacted, all messages go with their log file "
            "(fileReservedTime); leave it out or use DELETE"
        },
    ),
    "message.type": Attribute(
        ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"),
        refused={"LITE": _NO_LITE, "PRIORITY": _NO_PRIORITY},
    ),
    "reserve.time": Attribute(("-1",), otherwise=_OWN_TIME),
    "lite.topic.expiration": Attribute(("-1",), otherwise=_NO_LITE),
}

GROUP: Mapping[str, Attribute] = {
    "priority.factor": Attribute(("100",), otherwise=_NO_PRIORITY),
    "lite.bind.topic": Attribute((), otherwise=_NO_LITE),
    "lite.sub.model": Attribute((), otherwise=_NO_LITE),
    "lite.sub.reset.offset.exclusive": Attribute(("false",), otherwise=_NO_LITE),
    "lite.sub.reset.offset.unsubscribe": Attribute(("false",), otherwise=_NO_LITE),
    "lite.sub.client.quota": Attribute((), otherwise=_NO_LITE),
    "lite.sub.client.max.event.cnt": Attribute((), otherwise=_NO_LITE),
    "lite.sub.wildcard": Attribute((), otherwise=_NO_LITE),
}


def changes_of_text(text: str) -> dict[str, str]:
    """{"+key": value, "-key": ""} from the form with commas; ProtocolError says what is wrong."""
    changes: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = item.partition("=")
        if item[0] not in "+-" or len(key) < 2 or (item[0] == "+" and not equals):
            raise ProtocolError(f"attribute {item!r} is neither +key=value nor -key")
        if changes.keys() & {"+" + key[1:], "-" + key[1:]}:
            raise ProtocolError(f"attribute {key[1:]} is given twice")
        changes[key] = value
    return changes


def altered(
    known: Mapping[str, Attribute],
    current: Mapping[str, str],
    changes: Mapping[str, str],
    *,
    creating: bool,
) -> dict[str, str]:
    """The attributes after the changes; ProtocolError says what is wrong with these."""
    out = dict(current)
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-") or not key:
            raise ProtocolError(f"attribute {signed!r} is neither +key nor -key")
        if key not in known:
            raise ProtocolError(f"attribute {key!r} is unknown; known are {', '.join(known)}")
        if not known[key].changeable and not creating:
            raise ProtocolError(f"attribute {key} cannot be changed after the topic was created")
        if sign == "+":
            why = fault(known[key], key, value)
            if why:
                raise ProtocolError(why)
            out[key] = value
        elif creating:
            raise ProtocolError(f"attribute {key} cannot be removed: it is being created")
        elif out.pop(key, None) is None:
            raise ProtocolError(f"attribute {key} is not set and cannot be removed")
    return out


def fault(attribute: Attribute, key: str, value: str) -> str:
    """Why this value is not served; empty when it is."""
    if value in attribute.served:
        return ""
    reason = attribute.refused.get(value) or attribute.otherwise
    if reason:
        return f"attribute {key}={value} is refused: {reason}"
    return f"attribute {key}={value!r}: one of {', '.join(attribute.served)}"


def faults(known: Mapping[str, Attribute], attributes: Mapping[str, str]) -> list[str]:
    """The attributes of a stored table (Apache's, or an older rmq's) that have no effect here."""
    return [
        why
        for key, value in attributes.items()
        if (why := fault(known[key], key, value) if key in known else f"attribute {key} is unknown")
    ]
