"""Message pages: a page of a topic's messages, the newest or from a place on, within a time limit.

    ranges = admin.topic_queues(cluster, "orders")
    found = newest(cluster, ranges, 20, Filter(tags=("paid",)), until)
    found = onwards(cluster, ranges, Start("time", ms), 20, Filter(), until)
    found.messages, found.is_cut            some queues, or old messages, were not looked through
    found.following                         where to go on in each queue; empty: all was read
    from_offsets(cluster, ranges, found.following, 20, Filter(), until)

If a filter lets few messages pass, brokers must look through many; the page then has what was found
until the time was over. However short the time is, something is read of each queue, so that going
on comes to an end. In a topic of many queues the QUEUES_MAX queues with the latest messages are
read.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import msgspec

from rmq.base import clock
from rmq.client.blocking.admin import QueueRange
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.reads import read
from rmq.client.blocking.tail import ReceivedMessage, Start, first_offset
from rmq.errors import MessageError
from rmq.format.fastjson import MessageQueue

QUEUES_MAX = 16
WINDOW_MAX = 4096  # messages in one step backwards


class Filter(msgspec.Struct, frozen=True):
    """Brokers filter by tags or by an SQL92 expression; this process filters by `key` and `unique`,
    and by tags what brokers have found by their index."""

    tags: tuple[str, ...] = ()
    sql: str | None = None
    key: str | None = None
    unique: str | None = None

    def check(self) -> None:
        if self.tags and self.sql is not None:
            raise MessageError("messages are filtered by a tag or by an SQL92 expression, not both")

    def passes(self, message: ReceivedMessage) -> bool:
        said = message.properties
        return (
            (self.key is None or self.key in said.get("KEYS", "").split())
            and (self.unique is None or self.unique == said.get("UNIQ_KEY"))
            and (not self.tags or said.get("TAGS") in self.tags)
        )


class Browsed(msgspec.Struct):
    messages: list[ReceivedMessage]
    is_cut: bool = False  # some of what was asked for was not looked through
    following: dict[MessageQueue, int] = {}  # the rest of it: where to go on in each queue


def newest(
    cluster: Cluster, ranges: Sequence[QueueRange], count: int, wanted: Filter, until: float
) -> Browsed:
    """The newest messages, the newest first. until: a moment of clock.monotonic()."""
    wanted.check()
    busy = _busiest(ranges)
    found: list[ReceivedMessage] = []
    is_cut = len(busy) < sum(each.max_offset > each.min_offset for each in ranges)
    for each in busy:
        messages, is_whole = _backwards(cluster, each, count, wanted, until)
        found += messages
        is_cut = is_cut or not is_whole
    found.sort(key=_moment, reverse=True)
    return Browsed(found[:count], is_cut)


def onwards(
    cluster: Cluster, ranges: Sequence[QueueRange], start: Start, count: int, wanted: Filter,
    until: float,
) -> Browsed:  # fmt: skip
    """Messages from a place in each queue on, the oldest first."""
    wanted.check()
    busy = _busiest(ranges)
    begins = {
        each.queue: first_offset(cluster, each.queue, start, each.max_offset) for each in busy
    }
    found = from_offsets(cluster, busy, begins, count, wanted, until)
    found.is_cut = len(busy) < sum(each.max_offset > each.min_offset for each in ranges)
    return found


def from_offsets(
    cluster: Cluster, ranges: Sequence[QueueRange], begins: Mapping[MessageQueue, int], count: int,
    wanted: Filter, until: float,
) -> Browsed:  # fmt: skip
    """The same from an offset on in each of these queues."""
    wanted.check()
    found: dict[MessageQueue, list[ReceivedMessage]] = {}
    following: dict[MessageQueue, int] = {}
    for each in ranges:
        if each.queue in begins:
            begin = max(begins[each.queue], each.min_offset)
            found[each.queue], reached = _forwards(
                cluster, each.queue, begin, each.max_offset, count, wanted, until
            )
            if reached < each.max_offset:
                following[each.queue] = reached
    messages, left = merged(found, count)
    return Browsed(messages, following={**following, **left})


def merged(
    found: Mapping[MessageQueue, list[ReceivedMessage]], count: int
) -> tuple[list[ReceivedMessage], dict[MessageQueue, int]]:
    """The oldest messages of all queues, and the offset of the first one of each queue that is not
    among them. Those of a queue stay in its order, though a clock was set back between two."""
    rows = ([(message, queue) for message in each] for queue, each in found.items())
    ordered = list(heapq.merge(*rows, key=lambda row: _moment(row[0])))
    left: dict[MessageQueue, int] = {}
    for message, queue in ordered[count:]:
        left.setdefault(queue, message.stored.queue_offset)
    return [message for message, _ in ordered[:count]], left


def _busiest(ranges: Sequence[QueueRange]) -> list[QueueRange]:
    there = [each for each in ranges if each.max_offset > each.min_offset]
    return sorted(there, key=lambda each: -each.last_stored_ms)[:QUEUES_MAX]


def _moment(message: ReceivedMessage) -> tuple[int, int]:
    return message.stored.store_timestamp_ms, message.stored.queue_offset


def _backwards(
    cluster: Cluster, span: QueueRange, count: int, wanted: Filter, until: float
) -> tuple[list[ReceivedMessage], bool]:
    """The last messages of a queue, and whether all that was needed was looked through."""
    found: list[ReceivedMessage] = []
    end, window = span.max_offset, count
    while end > span.min_offset and len(found) < count:
        begin = max(span.min_offset, end - window)
        part, reached = _forwards(cluster, span.queue, begin, end, window, wanted, until)
        found = part + found
        if reached < end:
            return found[-count:], False
        end, window = begin, min(4 * window, WINDOW_MAX)
    return found[-count:], True


def _forwards(
    cluster: Cluster, queue: MessageQueue, begin: int, end: int, count: int, wanted: Filter,
    until: float,
) -> tuple[list[ReceivedMessage], int]:  # fmt: skip
    """Messages from `begin` to before `end`, and the offset up to which the queue was searched."""
    found: list[ReceivedMessage] = []
    while begin < end and len(found) < count:
        part = read(cluster, queue, begin, tags=wanted.tags, sql=wanted.sql)
        for message in part.messages:
            if message.stored.queue_offset < end and wanted.passes(message):
                found.append(message)
                if len(found) == count:
                    return found, message.stored.queue_offset + 1
        if part.next_offset <= begin:
            return found, end  # nothing more is there
        begin = part.next_offset
        if clock.monotonic() >= until:
            break
    return found, begin
