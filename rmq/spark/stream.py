"""Stream: the reader behind readStream, which decides on the driver what a micro-batch reads.

    spark.readStream.format("rmq").option("nameserver", ...).option("topic", "orders").load()

The checkpoint has the offsets as {"topic":{"broker":{"queue":next offset}}}, and they alone say how
far a query is. Queues, brokers and (with subscribePattern) topics that appear while the query runs
are read from their first message. In every queue that is offset 0. So the offsets need no start for
a queue that is new in a batch, and a new queue that begins later than 0 has lost messages. How much
a batch takes:

    maxOffsetsPerTrigger    dealt out over the queues in proportion to what waits; each gets one at
                            least, so that a small queue never starves
    maxBytesPerTrigger      the same in bytes, by the size of a few messages of each queue
    minOffsetsPerTrigger    no batch before so many wait, or maxTriggerDelay has passed

With commitOffsets=true the offsets also hold the group and the name server, under the empty topic
name. From there rmq.spark.listener.OffsetListener knows where to commit what a finished batch has
read. This reader's commit() is only the fallback: Spark calls it one batch late, and never for the
last batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rmq.arrow.access import Access
from rmq.arrow.offsets import QueueKey, from_json, start_of, to_json
from rmq.arrow.options import Options
from rmq.arrow.queue_ranges import cut, gather
from rmq.arrow.queues import (
    FIRST_PAUSE,
    LAST_PAUSE,
    DataLossError,
    Ends,
    Queues,
    describe,
    partition_numbers,
)
from rmq.errors import ConfigError, RmqError, UnreachableError
from rmq.spark import columns
from rmq.spark.collector import freeze_once
from rmq.spark.error_text import brief_errors, brief_errors_of
from rmq.spark.input_partitions import QueueRanges
from rmq.spark.offset_commits import commit_offsets

log = logging.getLogger("rmq.spark")
COMMIT = ""  # no topic has this name


class RmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One process on the driver keeps it for the life of a query. Executors get copies to read."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._plan = columns.plan_of(options, schema)
        self._view: Queues | None = None
        self._target: dict[QueueKey, Ends] | None = None  # where a run of AvailableNow ends
        self._latest: dict[QueueKey, int] | None = None
        self._triggered_at: float | None = None
        self._given_up: set[str] = set()  # brokers that were waited for in vain, and not seen since

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_view": None}

    @property
    def view(self) -> Queues:
        if self._view is None:
            self._view = Queues(self._options)
        return self._view

    # ---- offsets

    @brief_errors()
    def initialOffset(self) -> dict[str, Any]:
        # With AvailableNow the start is looked up in the target: now it might lie behind that.
        ends = self.view.find() if self._target is None else self._target
        return self._written(self.view.resolve(start_of(self._options), ends))

    @brief_errors()
    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @brief_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends({})

    @brief_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = _read(start)
        ends = self._not_behind(before, self._ends(before))
        self._latest = {key: each.last for key, each in ends.items()}
        self._check_gone(before, ends)
        if self._target is not None:
            # Queues that came later wait for the next run. What was read already may lie behind the
            # target, if that was asked of a slave that lacks the end of the queue.
            until = {key: max(each.last, before.get(key, 0)) for key, each in self._target.items()}
            ends = {key: Ends(each.first, min(each.last, until[key]))
                    for key, each in ends.items() if key in until}  # fmt: skip
        ranges = {key: (before.get(key, each.first), each.last) for key, each in ends.items()}
        waiting = {key: last - first for key, (first, last) in ranges.items() if last > first}
        after = {**before, **{key: self._reached(key, *each) for key, each in ranges.items()}}
        if isinstance(limit, ReadAllAvailable) or not waiting:
            return self._next(before, after)
        if self._too_early(sum(waiting.values())):
            return start
        shares = waiting
        if isinstance(limit, ReadMaxRows):
            shares = deal_out(waiting, limit.max_rows)
        most = self._options.max_bytes_per_trigger
        if isinstance(limit, ReadMaxBytes):
            most = limit.max_bytes
        if most is not None:
            shares = self._within_bytes(ranges, shares, most)
        for key, share in shares.items():
            after[key] = min(ranges[key][0] + share, ranges[key][1])
        return self._next(before, after)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._written(self._latest)

    def _ends(self, before: Mapping[QueueKey, int]) -> dict[QueueKey, Ends]:
        """The queues as they are now. A broker of `before` that is away is waited for, but once
        only: a checkpoint names a broker for ever, also one that was taken out of the cluster, and
        each batch would wait for it."""
        if before:  # the query runs: it has more patience than one that begins
            self.view.patience_ms = self._options.poll_timeout_ms
        deadline = time.monotonic() + self.view.patience_ms / 1000
        pause = FIRST_PAUSE
        registered: set[str] = set()  # before find(): a broker may come back in between
        while True:
            ends = self.view.find(gone={key.topic for key in before})
            missing = {key.broker for key in before if key not in ends}
            self._given_up &= missing
            missing -= self._given_up
            if missing <= registered:
                return ends
            if time.monotonic() > deadline:
                self._given_up |= missing - registered
                return ends
            registered = set(self.view.addresses())
            if missing <= registered:
                continue
            log.warning("waiting for brokers: not registered: %s", ", ".join(sorted(missing)))
            time.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _not_behind(
        self, before: Mapping[QueueKey, int], ends: Mapping[QueueKey, Ends]
    ) -> dict[QueueKey, Ends]:
        """A slave, asked while its master is away, may lack messages that were read from the
        master. Then the queue has nothing new, and whether the messages are lost is decided when a
        master answers. Nor does a slave end a run of AvailableNow because it lacks messages up to
        the target: they were there, and the readers wait for them."""
        found = dict(ends)
        target = self._target or {}
        for key in (*before, *(key for key in target if key not in before)):
            if key.broker in self.view.slaves:
                least = max(before.get(key, 0), target[key].last if key in target else 0)
                first, last = found.get(key) or target.get(key) or Ends(least, least)
                found[key] = Ends(first, max(last, least))
        return found

    def _next(self, before: Mapping[QueueKey, int], after: dict[QueueKey, int]) -> dict[str, Any]:
        if any(offset != before.get(key) for key, offset in after.items()):
            self._triggered_at = time.monotonic()
        return self._written(after)

    def _too_early(self, waiting: int) -> bool:
        """Whether minOffsetsPerTrigger holds the batch back; never while AvailableNow runs."""
        least = self._options.min_offsets_per_trigger
        if least is None or waiting >= least or self._target is not None:
            return False
        if self._triggered_at is None:  # the first batch of a run comes at once, as Kafka's does
            return False
        delay = self._options.max_trigger_delay / 1000
        return bool(time.monotonic() - self._triggered_at < delay)

    def _within_bytes(
        self,
        ranges: Mapping[QueueKey, tuple[int, int]],
        shares: Mapping[QueueKey, int],
        most: int,
    ) -> dict[QueueKey, int]:
        sizes = self.view.row_bytes({key: ranges[key] for key in shares})
        total = sum(count * sizes[key] for key, count in shares.items())
        if total <= most:
            return dict(shares)
        return {key: max(1, count * most // total) for key, count in shares.items()}

    def _check_gone(self, before: Mapping[QueueKey, int], ends: Mapping[QueueKey, Ends]) -> None:
        gone = [key for key in before if key not in ends]
        if gone:
            self._loss(f"{describe(gone[0])} is no longer there"
                       + (f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""))  # fmt: skip

    def _reached(self, key: QueueKey, first: int, last: int) -> int:
        if first > last:
            self._loss(f"{describe(key)} ends at {last}, but {first} was read already")
        return last

    def _loss(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}; failOnDataLoss=false goes on with what is there")
        log.warning("%s; going on with what is there", text)

    def _written(self, offsets: Mapping[QueueKey, int]) -> dict[str, Any]:
        found: dict[str, Any] = dict(to_json(offsets))
        if self._options.commit_offsets:
            found[COMMIT] = {
                "group": self._options.group, "nameserver": self._options.nameserver,
            }  # fmt: skip
        return found

    # ---- batches

    @brief_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = _read(start), _read(end)
        starts = {**before, **self._firsts(before, after)}
        ranges = {key: (starts[key], stop) for key, stop in after.items() if starts[key] < stop}
        if not ranges:
            return []
        sizes = self.view.row_bytes(ranges) if self._options.max_bytes_per_partition else None
        parts = cut(ranges, partition_numbers(after), self._options, sizes)
        try:
            addresses = self.view.addresses()
        except UnreachableError:  # the executors ask again, and for longer
            addresses = {}
        return [QueueRanges(task, addresses) for task in gather(parts, self._options)]

    def _firsts(
        self, before: Mapping[QueueKey, int], after: Mapping[QueueKey, int]
    ) -> dict[QueueKey, int]:
        """The offsets at which those queues begin that are new in the batch. As with new partitions
        in Kafka's source, messages that are gone before a queue's first one are a loss: they came
        while the query did not look. (If the broker was away when the query began, nobody can say
        when they came, and they are a loss, too.) Only a master can say that messages are gone.
        Where a slave answered, the range begins at 0, and the readers ask."""
        fresh = [key for key in after if key not in before]
        ends = self._ends(after) if any(after[key] for key in fresh) else {}
        firsts = {key: ends[key].first for key in fresh
                  if key in ends and key.broker not in self.view.slaves}  # fmt: skip
        late = [key for key in firsts if after[key] and firsts[key]]
        if late:
            at = firsts[late[0]]
            self._loss(f"{describe(late[0])} is new to the query and begins at {at}, not at 0"
                       + (f" (and {len(late) - 1} more)" if late[1:] else ""))  # fmt: skip
        return {**dict.fromkeys(fresh, 0), **firsts}

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from rmq.arrow.range_reader import read_ranges

        if not isinstance(partition, QueueRanges):
            return iter(())
        freeze_once(self._options)
        return brief_errors_of(read_ranges(self._plan, partition.ranges, partition.addresses))

    def commit(self, end: dict[str, Any]) -> None:
        if not self._options.commit_offsets:
            return
        try:
            commit_offsets(Access.of(self._options), self._options.group, _read(end))
        except RmqError as error:
            log.warning("group %s: offsets are not committed: %s", self._options.group, error)

    def stop(self) -> None:
        if self._view is not None:
            self._view.close()


class RefusingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error about the options in the first call. If streamReader() itself raised it,
    Spark would add an error of its own, and that would be the last line that the user sees."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    @brief_errors()
    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    @brief_errors()
    def getDefaultReadLimit(self) -> ReadLimit:
        raise self._error

    @brief_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        raise self._error

    @brief_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self._error

    @brief_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error


def _read(offsets: Mapping[str, Any]) -> dict[QueueKey, int]:
    return from_json({topic: rest for topic, rest in offsets.items() if topic != COMMIT})


def deal_out(waiting: Mapping[QueueKey, int], most: int) -> dict[QueueKey, int]:
    """Shares in proportion to what waits, rounded up so that each queue gets at least one."""
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    return {key: min(count, -(-count * most // total)) for key, count in waiting.items()}
