"""Store log: the log of a store directory, read without the broker: path=STORE_DIR.

    log = StoreLog(plan)
    for batch in log.read(log.ranges()): ...

Any store of RocketMQ's format: ours or Apache's, live or a copy, one shard or all of a machine
(shard-1, shard-2, .. beside it). Only commitlog/ is read, cut into ranges of physical offsets that
are read in parallel; every record is checked against its checksum. The log ends in the last file
that holds a record anywhere: what those before it have lost is damage, be it the end of a file, all
of it, or the file itself. What retention deletes between plan and read is a DataLossError, unless
failOnDataLoss=false.

Without topic, subscribePattern or assign all topics are read but RocketMQ's own. Messages that no
queue shows (half messages) are left out; those of a topic that was deleted are there as long as
their log is. A topic that is named and of which the store knows nothing is an error; a pattern may
match nothing.

brokerName is not in these files: the column shows the option brokerName (broker-a), for shard i > 0
with -i behind it, as brokers name themselves.
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
from rmq.arrow.queues import DataLossError, is_system
from rmq.arrow.read_plan import DamagedMessageError, ReadPlan
from rmq.arrow.store_topics import check_topics
from rmq.format.store_files import persisted_ends

log = logging.getLogger("rmq.arrow")
RANGE_BYTES = 128 << 20
NAME = re.compile(r"\d{20}")
FOR_EVER = 1 << 62


class LogRange(NamedTuple):
    """Records that begin at [start, end) of the log, in one file."""

    path: str  # where it is lost: the name of a file that would begin there
    segment_start: int
    segment_end: int  # of the file, or where the log ends in it
    start: int
    end: int
    broker_name: str
    shard: int
    is_lost: bool = False  # files behind have records, and none has these


class StoreLog:
    """The log of a store and of its shards; whoever plans and whoever reads see the same files."""

    def __init__(self, plan: ReadPlan) -> None:
        options = plan.options
        self._plan, self._options = plan, options
        self._starts, self._ends = start_of(options), end_of(options)
        if "times" in (self._starts.kind, self._ends.kind):
            raise OptionError("with path give startingTimestamp and endingTimestamp, one for all")

    def ranges(self) -> list[LogRange]:
        """All of it up to where it ends now, in pieces; OptionError: a topic is not there."""
        shards = _shards(Path(self._options.path))
        found = [each for shard, root in shards for each in self._ranges(shard, root)]
        assign = self._options.assign
        asked = self._options.topics if assign is None else parse_assign(assign)
        check_topics(asked, [root for _, root in shards], found)
        return found

    def _ranges(self, shard: int, root: Path) -> list[LogRange]:
        """The log of one store, up to where it ends now, in pieces."""
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
            piece = end - start if is_lost else step  # told once
            ranges += [
                LogRange(str(path), start, end, at, min(at + piece, end), name, shard, is_lost)
                for at in range(start, end, piece)
            ]
        return ranges

    def _segments(
        self, directory: Path, persisted: Container[int]
    ) -> list[tuple[Path, int, int, bool]]:
        """(file, where it begins, where the log ends in it, whether it is lost). What retention
        takes away just now was not there."""
        names = sorted(path for path in directory.iterdir() if NAME.fullmatch(path.name))
        probes = [_Probe(self._plan, path, persisted) for path in names]
        # Those made ahead hold nothing; of others a disk may have lost the first records.
        while probes and probes[-1].log_end == probes[-1].start:
            probes.pop()
        found: list[tuple[Path, int, int, bool]] = []
        behind = -1  # where the next file is to begin; -1: not known
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
            decoder.columns.place("", each.broker_name, -1, each.shard * 65536)
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
        """Whether the range is done. A file that is used anew for the log's end meanwhile holds
        other records than those of the range, or none: that is no damage, but loss. One that is
        only deleted has them all, for whom it is open."""
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
    """Which messages of a topic are wanted, by the options: asked once for each topic met."""

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
    """Looks at one file of the log while planning; one that is gone has nothing."""

    def __init__(self, plan: ReadPlan, path: Path, persisted: Container[int]) -> None:
        """`persisted`: what the store says of the log's end."""
        self._plan, self._persisted = plan, persisted
        self.path, self.start = path, int(path.name)
        self.is_gone = False
        try:
            self.size = path.stat().st_size
        except FileNotFoundError:
            self.size, self.is_gone = 0, True

    @cached_property
    def log_end(self) -> int:
        """Behind its last record, wherever that is; its start: there is none."""
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
    """Whether the name stands for the file that was opened by it."""
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
