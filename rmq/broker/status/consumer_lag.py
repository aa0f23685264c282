"""Consumer lag: how many messages groups are behind, from the tables, and how old, from records.

    rows = lags(core.topic_table(), core.offsets(), core.offsets(1), groups)
    times.fill(rows, now_ms)  in a thread: reads records, which may have to come from the disk

The numbers are per group and topic, over the queues of this shard, as RocketMQ's
ConsumerLagCalculator has them:

    messages     above the committed offset         latency    age of the oldest of them
    inflight     those of them that a pull delivered
    ready        those that no pull delivered       queueing   age of the oldest of these

A group without a committed offset in a queue is not behind in it, because it has not begun there;
but in a queue of its retry topics it is, from the first message on, because it will read there
whatever lies there. Messages that still wait to come again are in no retry topic, and not counted.
Until it has pulled from a queue since the broker's start, only committed messages count as
delivered.

Example: queue 0 holds offsets 0 to 99, "g" committed 90 and pulled at 95: 10 messages, 5 inflight,
5 ready; the ages are those of offsets 90 and 95.
"""

import threading
from collections.abc import Collection, Iterator

import msgspec

from rmq.base import clock
from rmq.broker.store.queue_reader import QueueReader
from rmq.names import RETRY_PREFIX
from rmq.observe.sample import LagSample

TIMES_MAX = 1000  # how many records one fill() looks at
TIMES_S = 0.5  # and how long it looks

CoreTopics = dict[bytes, tuple[int, int, int, int, list[tuple[int, int] | None], list[int]]]
Offsets = dict[bytes, dict[int, int]]
Place = tuple[str, int, int]  # topic, queue id, offset of a queue
_RETRY = RETRY_PREFIX.encode()
_NONE = -1  # as an offset: none is committed


class Lag(msgspec.Struct):
    """A row, and the messages by which its ages are found."""

    sample: LagSample
    unconsumed: list[Place] = []
    unpulled: list[Place] = []


def lags(
    table: CoreTopics, committed: Offsets, pulled: Offsets, groups: Collection[bytes] = ()
) -> list[Lag]:
    """The lags, groups and topics in order; only of topics that exist. groups: all that exist."""
    found = []
    rows = committed | dict(_retries(table, committed, groups))
    for key, offsets in sorted(rows.items()):
        topic, _, group = key.partition(b"@")
        if topic in table:
            name = topic.decode(errors="replace")
            lag = Lag(LagSample(group.decode(errors="replace"), name, 0))
            spans = table[topic][4]
            for queue_id, offset in offsets.items():
                span = spans[queue_id] if queue_id < len(spans) else None
                if span is not None:
                    _add(lag, queue_id, span, offset, pulled.get(key, {}).get(queue_id, -1))
            found.append(lag)
    return found


def _retries(
    table: CoreTopics, committed: Offsets, groups: Collection[bytes]
) -> Iterator[tuple[bytes, dict[int, int]]]:
    """The offsets of groups in their retry topics, if messages lie in a queue without one."""
    for topic, row in table.items():
        if not topic.startswith(_RETRY):
            continue
        full = [queue_id for queue_id, span in enumerate(row[4]) if span and span[0] < span[1]]
        for group in _groups_of(topic.removeprefix(_RETRY), table, groups) if full else ():
            key = topic + b"@" + group
            offsets = committed.get(key, {})
            if not offsets.keys() >= set(full):
                yield key, dict.fromkeys(full, _NONE) | offsets


def _groups_of(name: bytes, table: CoreTopics, groups: Collection[bytes]) -> Iterator[bytes]:
    """Whose retry topic has this name behind its prefix: that of a group, or a group and the topic
    that it has popped, with _ or + between them."""
    if name in groups:
        yield name
        return
    for at, mark in enumerate(name):
        if mark in b"_+" and name[:at] in groups and name[at + 1 :] in table:
            yield name[:at]


def _add(lag: Lag, queue_id: int, span: tuple[int, int], committed: int, pulled: int) -> None:
    first, end = span
    low = max(committed, first)
    delivered = max(low, min(pulled, end))
    row = lag.sample
    row.messages += max(0, end - low)
    row.committed += max(0, committed)
    row.inflight += max(0, delivered - low)
    row.ready += max(0, end - delivered)
    if low < end:
        lag.unconsumed.append((row.topic, queue_id, low))
    if delivered < end:
        lag.unpulled.append((row.topic, queue_id, delivered))


class LagTimes:
    """Store times of the messages with which lags begin. May be used by any thread.

    A round that ends before it has looked at all rows keeps the times that are still needed, and
    the next round begins with the row at which it ended, so that each row has its turn."""

    def __init__(self, queues: QueueReader) -> None:
        self._queues = queues
        self._known: dict[Place, int] = {}
        self._first = 0  # the row that the next round begins with
        self._looks = 0  # records that this round has looked at
        self._end = 0.0  # when this round must end
        self._one = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """Stops reading queues; waits for the round under way. After that the core may end: a
        thread that still calls it would wait for ever."""
        self._stopped = True
        with self._one:
            pass

    def fill(self, rows: list[Lag], now_ms: int) -> int:
        """Sets latency_ms and queueing_ms: 0 where nothing waits, -1 where time ran out. Returns
        for how many rows time ran out."""
        with self._one:
            return self._fill(rows, now_ms)

    def _fill(self, rows: list[Lag], now_ms: int) -> int:
        self._looks, self._end = 0, clock.monotonic() + TIMES_S
        before, self._known = self._known, {}
        first = self._first if self._first < len(rows) else 0
        is_over, without_age = False, 0
        for number, row in enumerate(rows[first:] + rows[:first]):
            if self._look(row, before, is_over):
                row.sample.latency_ms = self._age(row.unconsumed, now_ms)
                row.sample.queueing_ms = self._age(row.unpulled, now_ms)
                continue
            without_age += 1
            if not is_over:
                # So that a row with more queues than a round looks at does not block the others.
                is_over, self._first = True, (first + max(number, 1)) % len(rows)
        return without_age

    def _look(self, row: Lag, before: dict[Place, int], is_over: bool) -> bool:
        """Whether all times of the row are known now. is_over: no more records may be read."""
        is_whole = True
        for place in {*row.unconsumed, *row.unpulled} - self._known.keys():
            stored = before.get(place)
            if stored is None and not is_over and self._may_look():
                self._looks += 1
                stored = self._queues.store_time_at(*place)
            if stored is None:
                is_whole, is_over = False, True
            else:
                self._known[place] = stored
        return is_whole

    def _may_look(self) -> bool:
        return not (self._stopped or self._looks >= TIMES_MAX or clock.monotonic() > self._end)

    def _age(self, places: list[Place], now_ms: int) -> int:
        """The age of the oldest message that can be read."""
        stored = [self._known[place] for place in places if self._known[place] > 0]
        if places and not stored:
            return -1
        return max(0, now_ms - min(stored)) if stored else 0
