"""Input partitions: ranges of queues as Spark's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import InputPartition

from rmq.arrow.queue_ranges import QueueRange


class QueueRanges(InputPartition):
    """The ranges that one task reads, and the addresses of their brokers when it was planned."""

    def __init__(self, ranges: Sequence[QueueRange], addresses: Mapping[str, str]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)
        names = {each.key.broker for each in ranges}
        self.addresses = {name: addresses[name] for name in sorted(names) if name in addresses}
