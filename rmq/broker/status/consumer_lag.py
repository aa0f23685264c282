"""Consumer lag: messages behind, from the tables, and their ages, from the records.

    rows = lags(core.topic_table(), core.offsets(), core.offsets(1))
    times.fill(rows)          in a thread: reads records, which may have to come from the disk

Per group and topic, over the queues of this shard (RocketMQ's ConsumerLagCalculator in words):

    messages     above what is committed            latency    age of the oldest of them
    inflight     of these delivered by a pull
    ready        and those that are not             queueing   age of the oldest of these

A group without a committed offset in a queue is not behind in it: it has not begun there. Until it
has pulled from a queue since the broker's start, what is committed counts as delivered.

Example: queue 0 holds offsets 0 to 99, "g" committed 90 and pulled at 95: 10 messages, 5 inflight,
5 ready; the ages are those of offsets 90 and 95.
"""

import threading

import msgspec

from rmq.base import clock
from rmq.broker.store.queue_reader import QueueReader
from rmq.observe.sample import LagSample

TIMES_MAX = 1000  # records one fill() looks at
TIMES_S = 0.5  # and how long

CoreTopics = dict[bytes, tuple[int, int, int, int, list[tuple[int, int] | None], list[int]]]
Offsets = dict[bytes, dict[int, int]]
Place = tuple[str, int, int]  # topic, queue id, offset of a queue


class Lag(msgspec.Struct):
    """A row, and the messages by which its ages are found."""

    sample: LagSample
    unconsumed: list[Place] = []
    unpulled: list[Place] = []


def lags(table: CoreTopics, committed: Offsets, pulled: Offsets) -> list[Lag]:
    """Groups and topics in order; only topics that are there."""
    found = []
    for key, offsets in sorted(committed.items()):
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
    """Store times of messages that lags begin with. Any thread."""

    def __init__(self, queues: QueueReader) -> None:
        self._queues = queues
        self._known: dict[Place, int] = {}
        self._one = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """No queue is read for this from here on; waits for the round under way. Then the core may
        end: a thread that still calls it would wait for ever."""
        self._stopped = True
        with self._one:
            pass

    def fill(self, rows: list[Lag], now_ms: int) -> None:
        """Sets latency_ms and queueing_ms: 0 where nothing waits, -1 where time ran out."""
        with self._one:
            self._fill(rows, now_ms)

    def _fill(self, rows: list[Lag], now_ms: int) -> None:
        end = clock.monotonic() + TIMES_S
        known, self._known = self._known, {}
        looks = 0
        for row in rows:
            wanted = [
                place for place in {*row.unconsumed, *row.unpulled} if place not in self._known
            ]
            for place in wanted:
                stored = known.get(place)
                if stored is None:
                    if self._stopped or looks >= TIMES_MAX or clock.monotonic() > end:
                        return
                    looks += 1
                    stored = self._queues.store_time_at(*place)
                self._known[place] = stored
            row.sample.latency_ms = self._age(row.unconsumed, now_ms)
            row.sample.queueing_ms = self._age(row.unpulled, now_ms)

    def _age(self, places: list[Place], now_ms: int) -> int:
        """Of the oldest that can be read."""
        stored = [self._known[place] for place in places if self._known[place] > 0]
        if places and not stored:
            return -1
        return max(0, now_ms - min(stored)) if stored else 0
