"""Offsets: where reading starts and ends, in the forms that options may give.

    earliest | latest | group                                     every queue
    {"orders":{"broker-a":{"0":23,"1":-2}}}                       per queue; -2 earliest, -1 latest
    {"orders":{"0":23}}                                           as Kafka's source; one broker only
    startingTimestamp=1763726400123                               first message stored then or later
    startingOffsetsByTimestamp={"orders":{"broker-a":{"0":1763726400123}}}

As with Kafka's source, startingTimestamp wins over startingOffsetsByTimestamp, and that over
startingOffsets. Queues that a JSON does not name start at the earliest and end at the latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rmq.arrow.options import READ, OptionError, Options
from rmq.limits import TOPIC_QUEUES_MAX

EARLIEST, LATEST = -2, -1


class QueueKey(NamedTuple):
    topic: str
    broker: str  # "": the topic's only broker
    queue_id: int


@dataclass(frozen=True)
class Bound:
    """One end of what is read. kind: earliest, latest, group, offsets, times or time."""

    kind: str
    values: Mapping[QueueKey, int] = field(default_factory=dict)
    time_ms: int = 0
    option: str = ""
    strict: bool = True  # of times: that no message is so young is an error

    def value(self, key: QueueKey) -> int | None:
        """What the JSON says about the queue; None when it does not name the queue."""
        return self.values.get(key, self.values.get(key._replace(broker="")))

    def time_of(self, key: QueueKey) -> int | None:
        """The bound of this queue as a time; None when it is given otherwise."""
        if self.kind == "time":
            return self.time_ms
        return self.value(key) if self.kind == "times" else None


def start_of(options: Options) -> Bound:
    strict = options.starting_offsets_by_timestamp_strategy == "error"
    if options.starting_timestamp is not None:
        return Bound("time", time_ms=options.starting_timestamp, option="startingTimestamp",
                     strict=strict)  # fmt: skip
    if options.starting_offsets_by_timestamp is not None:
        name = "startingOffsetsByTimestamp"
        values = parse_json(options.starting_offsets_by_timestamp, name, 0)
        return Bound("times", values, option=name, strict=strict)
    default = "earliest" if options.where == READ else "latest"
    return _named(options.starting_offsets or default, "startingOffsets",
                  ("earliest", "latest", "group"))  # fmt: skip


def end_of(options: Options) -> Bound:
    if options.ending_timestamp is not None:
        return Bound("time", time_ms=options.ending_timestamp, option="endingTimestamp",
                     strict=False)  # fmt: skip
    if options.ending_offsets_by_timestamp is not None:
        name = "endingOffsetsByTimestamp"
        values = parse_json(options.ending_offsets_by_timestamp, name, 0)
        return Bound("times", values, option=name, strict=False)
    bound = _named(options.ending_offsets or "latest", "endingOffsets", ("latest",))
    if EARLIEST in bound.values.values():
        raise OptionError("option endingOffsets: -2 (earliest) cannot be an end")
    return bound


def _named(text: str, option: str, names: tuple[str, ...]) -> Bound:
    if text.strip().lower() in names:
        return Bound(text.strip().lower(), option=option)
    if not text.strip().startswith("{"):
        raise OptionError(
            f"option {option}={text!r}: give {', '.join(names)}"
            ' or {"topic":{"broker":{"0":5}}}'
        )
    return Bound("offsets", parse_json(text, option, EARLIEST), option=option)


def parse_json(text: str, option: str, lowest: int) -> dict[QueueKey, int]:
    """{"topic":{"broker":{"queue":n}}} or {"topic":{"queue":n}} as a flat table."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"option {option} is not JSON: {error}") from None
    found: dict[QueueKey, int] = {}
    for topic, brokers in _members(data, option):
        for name, value in _members(brokers, option):
            if isinstance(value, dict):
                for queue, number in _members(value, option):
                    found[_key(topic, name, queue, option)] = _number(number, lowest, option)
            else:
                found[_key(topic, "", name, option)] = _number(value, lowest, option)
    return found


def _members(data: Any, option: str) -> list[tuple[str, Any]]:
    if not isinstance(data, dict):
        raise OptionError(f'option {option}: {data!r} is not of the form {{"t":{{"b":{{"0":5}}}}}}')
    return list(data.items())


def _key(topic: str, broker: str, queue: str, option: str) -> QueueKey:
    if not queue.isascii() or not queue.isdigit() or int(queue) > TOPIC_QUEUES_MAX:
        raise OptionError(f"option {option}: {queue!r} of topic {topic} is not a queue id")
    return QueueKey(topic, broker, int(queue))


def _number(value: Any, lowest: int, option: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value < 1 << 62:
        raise OptionError(f"option {option}: {value!r} is not a number from {lowest} on")
    return value


def parse_assign(text: str) -> dict[str, dict[str, set[int]]]:
    """{"t":{"broker-a":[0,1]}} or, with one broker, {"t":[0,1]}: topic -> broker -> queue ids."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"option assign is not JSON: {error}") from None
    found: dict[str, dict[str, set[int]]] = {}
    for topic, brokers in _members(data, "assign"):
        rows = {"": brokers} if isinstance(brokers, list) else dict(_members(brokers, "assign"))
        for broker, ids in rows.items():
            if not isinstance(ids, list) or not ids:
                raise OptionError(f"option assign: queues of {topic} are a list of numbers")
            for each in ids:
                key = _key(topic, broker, str(each), "assign")
                found.setdefault(topic, {}).setdefault(broker, set()).add(key.queue_id)
    if not found:
        raise OptionError("option assign names no queue")
    return found


# ---- offsets as they stand in a checkpoint: {"topic":{"broker":{"0":23}}}

Offsets = dict[str, dict[str, dict[str, int]]]


def to_json(offsets: Mapping[QueueKey, int]) -> Offsets:
    found: Offsets = {}
    for key in sorted(offsets):
        found.setdefault(key.topic, {}).setdefault(key.broker, {})[str(key.queue_id)] = offsets[key]
    return found


def from_json(offsets: Mapping[str, Any]) -> dict[QueueKey, int]:
    return {
        QueueKey(topic, broker, int(queue)): int(offset)
        for topic, brokers in offsets.items()
        for broker, queues in brokers.items()
        for queue, offset in queues.items()
    }
