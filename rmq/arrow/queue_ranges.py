"""Queue ranges: parts of queues, cut and gathered into tasks.

    without options           one task for each queue, none for an empty range
    minPartitions             larger ranges are cut, in proportion to their messages
    maxRecordsPerPartition    ranges are cut so that no task has more messages
    maxBytesPerPartition      the same for bytes, by the size of a few messages of each queue
    maxPartitions             too many ranges are gathered: a task reads several of them in turn

Example: ranges of 1000 and 10 messages, minPartitions=3 -> 0..500, 500..1000, 0..10.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rmq.arrow.offsets import QueueKey
from rmq.arrow.options import Options


class QueueRange(NamedTuple):
    """Messages [start, end) of one queue; `number` is its partition in schema=kafka."""

    key: QueueKey
    start: int
    end: int
    number: int


def cut(
    ranges: Mapping[QueueKey, tuple[int, int]],
    numbers: Mapping[QueueKey, int],
    options: Options,
    row_bytes: Mapping[QueueKey, int] | None = None,
) -> list[QueueRange]:
    """The ranges, cut; row_bytes is needed for maxBytesPerPartition only."""
    full = {key: each for key, each in sorted(ranges.items()) if each[0] < each[1]}
    total = sum(end - start for start, end in full.values())
    wanted = options.min_partitions or 0
    found = []
    for key, (start, end) in full.items():
        count = end - start
        parts = 1
        if options.max_records_per_partition:
            parts = max(parts, -(-count // options.max_records_per_partition))
        if options.max_bytes_per_partition and row_bytes is not None:
            parts = max(parts, -(-count * row_bytes.get(key, 1024)
                                 // options.max_bytes_per_partition))  # fmt: skip
        if wanted > len(full):
            parts = max(parts, round(count / total * wanted))
        parts = min(parts, count)
        found += [
            QueueRange(
                key, start + count * at // parts, start + count * (at + 1) // parts, numbers[key]
            )
            for at in range(parts)
        ]
    return found


def gather(ranges: Sequence[QueueRange], options: Options) -> list[list[QueueRange]]:
    """A list for each task: one range each, or at most maxPartitions lists of about equal size."""
    limit = options.max_partitions
    if limit is None or len(ranges) <= limit:
        return [[each] for each in ranges]
    tasks: list[list[QueueRange]] = [[] for _ in range(limit)]
    heap = [(0, at) for at in range(limit)]
    for each in sorted(ranges, key=lambda one: one.start - one.end):
        load, at = heapq.heappop(heap)
        tasks[at].append(each)
        heapq.heappush(heap, (load + each.end - each.start, at))
    return [sorted(task) for task in tasks]
