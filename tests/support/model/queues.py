"""Model queues: what a broker must hold, in the simplest form: lists of messages, and offsets.

    queue.entries       the messages that are there, in order; an index is an offset
    queue.late          messages that are promised for later: delayed, timed, committed, sent back
    queue.unsure        sends that were under way when the broker was killed

A message that a pull brings behind the known end must be one of the promised ones (`came`); the
answer to every send tells the model where the message is. Only after a kill may a delivery be
repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from support.driven_clock import DrivenClock

from rmq.format.message import StoredMessage

SLOW_MS = 8000  # how much later than due a message may come on a busy machine
KEPT_MS = 5000  # an offset that was replaced longer ago is no longer in the file

Key = tuple[bytes, int]  # body, how often it was sent back
Place = tuple[str, str, int]  # group, topic, queue
_clock: DrivenClock | None = None


def now_ms() -> int:
    """The time by the broker's clock, or by the machine's until there is a broker."""
    return time.time_ns() // 1_000_000 if _clock is None else _clock.now_ms()


def go_by(clock: DrivenClock) -> None:
    global _clock
    _clock = clock


@dataclass
class Message:
    body: bytes
    tag: str = ""
    keys: str = ""
    number: int = 0  # property "a", for SQL92
    retries: int = 0
    record: StoredMessage | None = None  # as first read; it never changes again

    @property
    def key(self) -> Key:
        return self.body, self.retries

    def properties(self, **more: object) -> str:
        pairs = {"KEYS": self.keys, "TAGS": self.tag, "a": self.number, **more}
        return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value != "")

    def check(self, record: StoredMessage, topic: str) -> None:
        """Checks that the record is this message, and the same as when it was first read."""
        found = record.properties
        here = (record.topic, record.body, found.get("TAGS", ""), found.get("KEYS", ""))
        assert here == (topic, self.body, self.tag, self.keys)
        assert (int(found["a"]), record.reconsume_times) == (self.number, self.retries)
        assert self.record is None or self.record == record, (self.record, record)
        self.record = record


@dataclass
class Late:
    message: Message
    least_ms: int  # not earlier than this
    most_ms: int


@dataclass
class QueueModel:
    topic: str
    queue_id: int
    entries: list[Message] = field(default_factory=list)
    late: dict[Key, list[Late]] = field(default_factory=dict)
    unsure: list[Message] = field(default_factory=list)
    came_late: dict[Key, Message] = field(default_factory=dict)
    again: dict[Key, Message] = field(default_factory=dict)  # may be repeated, after a kill

    def promise(self, message: Message, least_ms: int, most_ms: int) -> None:
        self.late.setdefault(message.key, []).append(Late(message, least_ms, most_ms))

    def waiting(self) -> list[Late]:
        return [item for items in self.late.values() for item in items]

    def came(self, record: StoredMessage) -> None:
        """Takes a record behind the known end, which must be one of the promised messages."""
        assert record.queue_offset == len(self.entries), (record, len(self.entries))
        key = record.body, record.reconsume_times
        items = self.late.get(key, [])
        due = [item for item in items if item.least_ms <= record.store_timestamp_ms]
        if due:
            items.remove(due[0])
            message = due[0].message
            self.came_late[key] = message
            if not items:
                del self.late[key]
        elif key in self.again:
            message = replace(self.again[key], record=None)
        else:
            assert not items, f"{record.store_timestamp_ms} is too early for {items}"
            assert self.unsure and self.unsure[0].key == key, f"nobody sent {record}"
            message = self.unsure.pop(0)
        message.check(record, self.topic)
        self.entries.append(message)

    def killed(self) -> None:
        """After a kill, delivered messages may come again, even those that no pull has seen."""
        self.again.update(self.came_late)
        self.again.update(
            (x.message.key, x.message) for x in self.waiting() if x.least_ms < now_ms()
        )

    def check_times(self, up_since_ms: int) -> None:
        """Checks that no message is overdue. Call it when the queue has been read to its end."""
        now = now_ms()
        over = [x for x in self.waiting() if max(x.most_ms, up_since_ms) + SLOW_MS < now]
        assert not over, f"overdue in {self.topic} {self.queue_id} at {now}: {over}"

    def matching(self, begin: int, end: int, tags: Iterable[str], above: int) -> list[Message]:
        """The messages of a range that a consumer gets with these tags (none: all) and with
        a > above."""
        wanted = set(tags)
        return [
            each
            for each in self.entries[begin:end]
            if (not wanted or each.tag in wanted) and each.number > above
        ]


@dataclass
class Offsets:
    """The offsets of groups. A reset leaves a mark until the group's next pull is told of it."""

    table: dict[Place, int] = field(default_factory=dict)
    marks: set[Place] = field(default_factory=set)
    taken: set[Place] = field(default_factory=set)  # marks that a kill may bring back
    history: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)

    def commit(self, place: Place, offset: int) -> None:
        if place not in self.marks and self.table.get(place) != offset:
            self.table[place] = offset
            self.history.setdefault(place, [(0, -1)]).append((now_ms(), offset))

    def reset(self, place: Place, offset: int) -> None:
        """Resets an offset. The broker answers when the reset is in its file, so that no earlier
        offset can come back."""
        self.table[place] = offset
        self.marks.add(place)
        self.taken.discard(place)
        self.history[place] = [(now_ms(), offset)]

    def take_mark(self, place: Place) -> int | None:
        """The offset to which the next pull is sent, or None if it is not sent elsewhere."""
        if place not in self.marks:
            return None
        self.marks.discard(place)
        self.taken.add(place)
        return self.table[place]

    def remove_topic(self, topic: str) -> None:
        for place in [place for place in self.history if place[1] == topic]:
            self.table.pop(place, None)
            self.marks.discard(place)
            self.taken.discard(place)
            del self.history[place]

    def after_kill(self, found: dict[Place, int], killed_at_ms: int) -> None:
        """Takes over the offsets of a broker after a kill, which must be ones that it once had."""
        limit = killed_at_ms - KEPT_MS
        for place, history in self.history.items():
            values = [value for _, value in history]
            ends = [at for at, _ in history[1:]] + [now_ms()]
            allowed = {value for value, end in zip(values, ends, strict=True) if end >= limit}
            offset = found.get(place, -1)
            assert offset in allowed, (place, offset, history)
            if offset >= 0:
                self.table[place] = offset
            else:
                self.table.pop(place, None)
