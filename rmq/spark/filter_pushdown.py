"""Filter pushdown: with pushdown=true Spark's filters limit what a read plans.

Spark applies every filter again, so a limit may let too much through, but never too little. The
filters used are comparisons with constants on topic, brokerName, queueId, queueOffset,
storeTimestamp and tags (and the columns of schema=kafka with the same content). All other filters
are left to Spark.

Spark itself requires spark.sql.python.filterPushdown.enabled=true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from rmq.arrow.columns import Column
from rmq.arrow.offsets import QueueKey

if TYPE_CHECKING:
    from rmq.arrow.queues import Queues

_COMPARISONS = (EqualTo, EqualNullSafe, In, GreaterThan, GreaterThanOrEqual, LessThan,
                LessThanOrEqual)  # fmt: skip


@dataclass
class FilterPushdown:
    """For each field the allowed values (all, where the field is missing), and closed ranges."""

    allowed: dict[str, set[Any]] = field(default_factory=dict)
    lowest: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, filters: Iterable[Filter], table: Mapping[str, Column]) -> FilterPushdown:
        found = cls()
        for each in filters:
            if isinstance(each, _COMPARISONS) and len(each.attribute) == 1:
                column = table.get(each.attribute[0])
                if column is not None:
                    found._take(column.field, each)
        return found

    def _take(self, name: str, each: Any) -> None:
        values = list(each.value) if isinstance(each, In) else [each.value]
        if any(value is None for value in values) or not values:
            return
        if name in ("TOPIC", "BROKER_NAME", "QUEUE_ID", "PARTITION", "TAGS"):
            if isinstance(each, (EqualTo, EqualNullSafe, In)):
                before = self.allowed.get(name)
                self.allowed[name] = set(values) & before if before is not None else set(values)
        elif name in ("QUEUE_OFFSET", "STORE_TIMESTAMP"):
            self._limit(name, each, [_number(value) for value in values])

    def _limit(self, name: str, each: Any, values: list[int]) -> None:
        """Open ends are taken as closed ones, because times are floored to the millisecond."""
        if not isinstance(each, (LessThan, LessThanOrEqual)):
            self.lowest[name] = max(self.lowest.get(name, 0), min(values))
        if not isinstance(each, (GreaterThan, GreaterThanOrEqual)):
            self.highest[name] = min(self.highest.get(name, 1 << 62), max(values))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, self.allowed.get("TAGS", ()))))

    def narrow(
        self,
        ranges: Mapping[QueueKey, tuple[int, int]],
        numbers: Mapping[QueueKey, int],
        view: Queues,
    ) -> dict[QueueKey, tuple[int, int]]:
        """The ranges without what the filters exclude."""
        found = {}
        for key, (start, end) in ranges.items():
            if start >= end or not self._wants(key, numbers[key]):
                continue
            start = max(start, self.lowest.get("QUEUE_OFFSET", 0))
            end = min(end, self.highest.get("QUEUE_OFFSET", end) + 1)
            if start < end:
                found[key] = (start, end)
        if "STORE_TIMESTAMP" in self.lowest:
            firsts = view.first_at(found, self.lowest["STORE_TIMESTAMP"])
            found = {key: (max(start, firsts[key]), end) for key, (start, end) in found.items()
                     if firsts[key] < end}  # fmt: skip
        if "STORE_TIMESTAMP" in self.highest:
            lasts = view.first_at(found, self.highest["STORE_TIMESTAMP"] + 1)
            found = {key: (start, min(end, lasts[key])) for key, (start, end) in found.items()
                     if start < lasts[key]}  # fmt: skip
        return found

    def _wants(self, key: QueueKey, number: int) -> bool:
        shown = {"TOPIC": key.topic, "BROKER_NAME": key.broker, "QUEUE_ID": key.queue_id,
                 "PARTITION": number}  # fmt: skip
        return all(shown[name] in values for name, values in self.allowed.items() if name in shown)


def _number(value: Any) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    return int(value)
