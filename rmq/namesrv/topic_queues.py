"""Topic queues: which broker holds how many queues of which topic, as it registered them.

    topic -> broker name -> QueueData {perm, readQueueNums, writeQueueNums, topicSysFlag}

`perm` is 4 read + 2 write + 1 inherit (the topic may serve as a template). `topicSysFlag` has bit 0
for a topic of a unit and bit 1 for one that units subscribe to. Rows live as long as one process of
the broker name is registered; a topic without rows is forgotten.

Example: after put("TopicA", QueueData("broker-a", 6, 4, 0, 4)) and
change_write_permission("broker-a", False) the row of TopicA reads perm 4, so producers leave it.

Owned by the event loop of the name server; nothing here waits or does I/O.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from rmq.codes import PERM_READ, PERM_WRITE

_UNIT = 1
_UNIT_SUBSCRIBED = 2


class QueueData(msgspec.Struct):
    """One row. The members are in the order in which Java writes them."""

    brokerName: str
    perm: int
    readQueueNums: int
    topicSysFlag: int
    writeQueueNums: int


class TopicQueues:
    """The table of all topics. `mappings` holds the queue maps of static topics beside it."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, dict[str, Any]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def topics(self) -> list[str]:
        return sorted(self._rows)

    def rows(self, topic: str) -> dict[str, QueueData]:
        """Broker name -> row of this topic; empty when nobody holds it. The caller must not change
        it."""
        return self._rows.get(topic, {})

    def put(self, topic: str, row: QueueData) -> None:
        self._rows.setdefault(topic, {})[row.brokerName] = row

    def has(self, topic: str, broker_name: str) -> bool:
        return broker_name in self._rows.get(topic, ())

    def topics_of(self, broker_name: str) -> list[str]:
        return sorted(topic for topic, rows in self._rows.items() if broker_name in rows)

    def remove_topic(self, topic: str) -> None:
        self._rows.pop(topic, None)
        self._mappings.pop(topic, None)

    def remove_row(self, topic: str, broker_name: str) -> None:
        _remove(self._rows, topic, broker_name)
        _remove(self._mappings, topic, broker_name)

    def remove_broker(self, broker_name: str) -> None:
        """Removes every row of a broker name that has no process left."""
        for topic in self.topics_of(broker_name):
            self.remove_row(topic, broker_name)

    def change_write_permission(self, broker_name: str, allowed: bool) -> int:
        """Takes the write bit from all rows of the broker, or makes all of them read and write."""
        count = 0
        for rows in self._rows.values():
            row = rows.get(broker_name)
            if row is not None:
                row.perm = PERM_READ | PERM_WRITE if allowed else row.perm & ~PERM_WRITE
                count += 1
        return count

    def unit_topics(self) -> list[str]:
        return self._flagged(_UNIT, _UNIT)

    def unit_subscribed_topics(self) -> list[str]:
        return self._flagged(_UNIT_SUBSCRIBED, _UNIT_SUBSCRIBED)

    def unit_subscribed_plain_topics(self) -> list[str]:
        """Topics that units subscribe to without being topics of a unit."""
        return self._flagged(_UNIT | _UNIT_SUBSCRIBED, _UNIT_SUBSCRIBED)

    def _flagged(self, mask: int, wanted: int) -> list[str]:
        return sorted(topic for topic, flag in self._flags() if flag & mask == wanted)

    def _flags(self) -> Iterator[tuple[str, int]]:
        """Each topic with the flag of its first row: brokers are expected to agree."""
        for topic, rows in self._rows.items():
            yield topic, next(iter(rows.values())).topicSysFlag

    def put_mapping(self, topic: str, broker_name: str, mapping: dict[str, Any]) -> None:
        self._mappings.setdefault(topic, {})[broker_name] = mapping

    def mappings(self, topic: str) -> dict[str, dict[str, Any]] | None:
        """Broker name -> queue map of a static topic; None for every other topic."""
        return self._mappings.get(topic)


def _remove(table: dict[str, Any], topic: str, broker_name: str) -> None:
    rows = table.get(topic)
    if rows is not None and rows.pop(broker_name, None) is not None and not rows:
        del table[topic]
