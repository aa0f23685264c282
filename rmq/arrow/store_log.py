"""Store log: the log of a store directory, read without the broker: path=STORE_DIR.

    log = StoreLog(plan)
    for batch in log.read(log.ranges()): ...

The store may be any in RocketMQ's format: rmq's or Apache's, of a running broker or a copy, one
shard or all shards of a machine (shard-1, shard-2, .. in the directory). Only commitlog/ is read,
cut into ranges of physical offsets that are read in parallel; every record is checked against its
checksum. The log ends in the last file that holds a record anywhere. Whatever files before it lack
is damage: the end of a file, all of its records, or the file itself. Files that retention deletes
between plan and read are a DataLossError, unless failOnDataLoss=false.

Without topic, subscribePattern or assign all topics are read but RocketMQ's own. Messages that no
queue shows (half messages) are left out. Messages of a deleted topic are read as long as their log
is there. A named topic that the store does not know is an error; a pattern may match nothing.

These files do not hold the broker's name: the column brokerName shows the option brokerName, or
broker-a, and for shard i > 0 appends -i, as brokers name themselves.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Container, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from cext.arrow.decoder import Decoder
from cext.arrow.log_reader import LogReader
from rmq.arrow.batches import BatchMaker
from rmq.arrow.offsets import (
    EARLIEST,
    LATEST,
    Bound,
    QueueKey,
    end_of,
    parse_assign,
    start_of,
)
from rmq.arrow.options import OptionError, Options
from rmq.arrow.queues import PARTITIONS_PER_BROKER, DataLossError, is_system
from rmq.arrow.read_plan import DamagedMessageError, ReadPlan
from rmq.arrow.store_topics import check_topics
from rmq.format.store_files import persisted_ends

log = logging.getLogger("rmq.arrow")
RANGE_BYTES = 128 << 20
NAME = re.compile(r"\d{20}")
FOR_EVER = 1 << 62


class LogRange(NamedTuple):
    """Records that begin at [start, end) of the log, in one file."""

    path: str  # of a lost range: the name that its file would have
    segment_start: int
    segment_end: int  # the file's end, or the log's end in it
    start: int
    end: int
    broker_name: str
    shard: int
    is_lost: bool = False  # later files have records, but no file has these


class StoreLog:
    """The log of a store and of its shards. The plan and all readers must see the same files."""

    def __init__(self, plan: ReadPlan) -> None:
        options = plan.options
        self._plan, self._options = plan, options
        self._starts, self._ends = start_of(options), end_of(options)
        if "times" in (self._starts.kind, self._ends.kind):
            raise OptionError("with path give startingTimestamp and endingTimestamp, one for all")

    def ranges(self) -> list[LogRange]:
        """The whole log up to its end of now, in pieces; OptionError: a topic is not there."""
        shards = _shards(Path(self._options.path))
        found = [each for shard, root in shards for each in self._ranges(shard, root)]
        assign = self._options.assign
        asked = self._options.topics if assign is None else parse_assign(assign)
        check_topics(asked, [root for _, root in shards], found)
        return found

    def _ranges(self, shard: int, root: Path) -> list[LogRange]:
        """The log of one store up to its end of now, in pieces."""
        found = self._segments(root / "commitlog", persisted_ends(root))
        name = self._options.broker_name or "broker-a"
        name = f"{name}-{shard}" if shard else name
        wanted = max(1, (self._options.min_partitions or 1))
        total = sum(end - start for _, start, end, is_lost in found if not is_lost)
        step = max(1 << 16, min(RANGE_BYTES, -(-total // wanted)))
        if self._options.max_bytes_per_partition:
            step = min(step, self._options.max_bytes_per_partition)
        ranges: list[LogRange] = []
        for path, start, end, is_lost in found:
            piece = end - start if is_lost else step  # a lost range is reported once
            ranges += [
                LogRange(str(path), start, end, at, min(at + piece, end), name, shard, is_lost)
                for at in range(start, end, piece)
            ]
        return ranges

    def _segments(
        self, directory: Path, persisted: Container[int]
    ) -> list[tuple[Path, int, int, bool]]:
        """(file, where it begins, where the log ends in it, whether it is lost). A file that
        retention deletes at this moment counts as not there."""
        names = sorted(path for path in directory.iterdir() if NAME.fullmatch(path.name))
        probes = [_Probe(self._plan, path, persisted) for path in names]
        # Files that were made ahead hold no record. One that lost its first records holds others.
        while probes and probes[-1].log_end == probes[-1].start:
            probes.pop()
        found: list[tuple[Path, int, int, bool]] = []
        behind = -1  # where the next file must begin; -1: not known
        for probe in probes:
            first_ms = probe.ask("first_stored_ms", -1)
            if 0 <= behind < probe.start:
                found.append((directory / f"{behind:020d}", behind, probe.start, True))
            if self._ends.kind == "time" and first_ms >= max(self._ends.time_ms, 1):
                break  # store times do not decrease along the log
            if probe.size:
                end = probe.log_end if probe is probes[-1] else probe.start + probe.size
                found.append((probe.path, probe.start, end, False))
            behind = -1 if probe.is_gone else probe.start + probe.size
        return found

    def read(self, ranges: Iterable[LogRange]) -> Iterator[Any]:
        """The record batches of the ranges; one may hold rows of two of them."""
        plan = self._plan
        decoder = plan.decoder()
        maker = BatchMaker(plan.schema, decoder.columns)
        topics = Topics(self._options, self._starts, self._ends)
        for each in ranges:
            decoder.columns.place("", each.broker_name, -1, each.shard * PARTITIONS_PER_BROKER)
            if each.is_lost:
                _add_lost(decoder, each)
                continue
            try:
                with Path(each.path).open("rb", buffering=0) as file:
                    reader = LogReader(
                        decoder, file.fileno(), each.segment_start,
                        min(os.fstat(file.fileno()).st_size, each.segment_end - each.segment_start),
                        each.start, each.end,
                        partial(topics.ranges, each.broker_name),
                        self._starts.time_ms, self._ends.time_ms or FOR_EVER,
                    )  # fmt: skip
                    while not self._fill(reader, each, file):
                        yield maker.batch()
            except FileNotFoundError:
                self._lost(each, each.start)
        if decoder.columns.rows:
            yield maker.batch()

    def _fill(self, reader: LogReader, each: LogRange, file: IO[bytes]) -> bool:
        """Reads until the columns are full, and returns whether the range is done. A broker may
        meanwhile have used the file anew for the log's end: then it holds other records, or none,
        which is loss and not damage. A file that was only deleted still has all of its records,
        because it is open."""
        at, met, damage = reader.position, reader.decoder.damaged, ""
        try:
            done = reader.fill()
        except ValueError as error:
            at, damage, done = reader.position, str(error), True
        is_short = reader.decoder.damaged > met or (done and reader.position < each.end)
        if is_short and not _is_still(each.path, file):
            self._lost(each, at)
        elif damage:
            raise _damaged(each, at, damage)
        return done

    def _lost(self, each: LogRange, start: int) -> None:
        text = f"{each.path}: log offsets {start} to {each.end - 1} are gone"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}; failOnDataLoss=false reads what is left")
        log.warning("%s; going on without them", text)


def _add_lost(decoder: Decoder, each: LogRange) -> None:
    try:
        decoder.damage(-1, "no file of the commit log has these bytes")
    except ValueError as error:
        raise _damaged(each, each.start, str(error)) from None


def _damaged(each: LogRange, offset: int, reason: str) -> DamagedMessageError:
    return DamagedMessageError(
        f"{each.path}, log offset {offset}: {reason};"
        " mode=permissive or mode=dropmalformed reads on"
    )


class Topics:
    """Which messages of a topic the options ask for. The reader asks once for each topic."""

    def __init__(self, options: Options, starts: Bound, ends: Bound) -> None:
        self._starts, self._ends = starts, ends
        self._names = set(options.topics)
        self._pattern = options.subscribe_pattern and re.compile(options.subscribe_pattern)
        self._assigned = parse_assign(options.assign) if options.assign is not None else None

    def ranges(self, broker: str, topic: str) -> list[tuple[int, int, int]]:
        """(queue id or -1 for all others, first offset, end offset); empty: nothing."""
        if self._assigned is not None:
            brokers = self._assigned.get(topic, {})
            queues = brokers.get(broker, set()) | brokers.get("", set())
            return [self._range(topic, broker, queue) for queue in sorted(queues)]
        if self._names:
            wanted = topic in self._names
        elif self._pattern is not None:
            wanted = self._pattern.fullmatch(topic) is not None and not is_system(topic)
        else:
            wanted = not is_system(topic)
        if not wanted:
            return []
        named = {key.queue_id for bound in (self._starts, self._ends) for key in bound.values
                 if key.topic == topic and key.broker in ("", broker)}  # fmt: skip
        return [*(self._range(topic, broker, queue) for queue in sorted(named)), (-1, 0, FOR_EVER)]

    def _range(self, topic: str, broker: str, queue: int) -> tuple[int, int, int]:
        key = QueueKey(topic, broker, queue)
        first, end = self._starts.value(key), self._ends.value(key)
        if first == LATEST:
            raise OptionError("option startingOffsets: -1 (latest) is not known with path")
        return (
            queue,
            0 if first in (None, EARLIEST) else int(first or 0),
            FOR_EVER if end in (None, LATEST) else int(end or 0),
        )


class _Probe:
    """Looks at one file of the log while planning. A file that is gone counts as empty."""

    def __init__(self, plan: ReadPlan, path: Path, persisted: Container[int]) -> None:
        """`persisted`: log offsets up to which the store says that all is written."""
        self._plan, self._persisted = plan, persisted
        self.path, self.start = path, int(path.name)
        self.is_gone = False
        try:
            self.size = path.stat().st_size
        except FileNotFoundError:
            self.size, self.is_gone = 0, True

    @cached_property
    def log_end(self) -> int:
        """The offset behind the file's last record, wherever that is; its start: it has none."""
        return self.ask("log_end", self.start, self._persisted)

    def ask(self, question: str, otherwise: int, *given: Container[int]) -> int:
        try:
            with self.path.open("rb", buffering=0) as file:
                reader = LogReader(
                    self._plan.decoder(), file.fileno(), self.start, self.size, self.start,
                    self.start + self.size, lambda _: [],
                )  # fmt: skip
                return int(getattr(reader, question)(*given))
        except FileNotFoundError:
            self.size, self.is_gone = 0, True
            return otherwise


def _is_still(path: str, file: IO[bytes]) -> bool:
    """Whether the path still names the file that was opened."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _shards(path: Path) -> list[tuple[int, Path]]:
    """(shard number, its store), the store itself first."""
    if not (path / "commitlog").is_dir():
        raise OptionError(f"option path={path}: there is no commitlog in it, so it is no store")
    more = []
    for each in path.glob("shard-*"):
        number = each.name.removeprefix("shard-")
        if number.isdigit() and (each / "commitlog").is_dir():
            more.append((int(number), each))
    return [(0, path), *sorted(more)]
