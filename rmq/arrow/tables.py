"""Tables: topics and stores as Arrow data.

    import rmq

    rmq.read_table("orders", columns=["queueOffset", "body"]).to_pandas()
    for batch in rmq.read_batches("orders", starting_timestamp=datetime(2026, 6, 1)): ...
    rmq.scan_store("/backup/store", topic="orders").read_all()

Columns, ranges and filters are those of the Spark source, and so is the decoder. A read gives the
messages that are there when it is called, ordered by topic, broker, queue and offset. Those of a
store come in the order of its log. pandas, polars and DuckDB take tables and readers as they are.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("tables are pyarrow's: pip install 'rmq[arrow]'") from error

from rmq.arrow.access import Access
from rmq.arrow.arguments import (
    BROKER,
    STORE,
    documented,
    python_names,
    read_options_of,
)
from rmq.arrow.columns import arrow_schema, names_of, table_of
from rmq.arrow.options import OptionError, Options
from rmq.arrow.queue_ranges import QueueRange, cut
from rmq.arrow.queues import Queues, partition_numbers
from rmq.arrow.range_reader import read_ranges
from rmq.arrow.read_ahead import Part, in_order
from rmq.arrow.read_plan import ReadPlan
from rmq.arrow.snapshot import snapshot
from rmq.arrow.store_log import StoreLog

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.arrow.keywords import ReadKeywords, ScanKeywords

PART_BYTES = 16 << 20  # read by a thread in one go; estimated


@documented(BROKER)
def read_batches(
    topic: str | Iterable[str] | None = None,
    *,
    threads: int | None = None,
    text: bool = False,
    **given: Unpack[ReadKeywords],
) -> Any:
    """The messages of a topic, or of several, as a pyarrow.RecordBatchReader.

    topic     one or a list of them; or give subscribe_pattern or assign
    threads   that read at once; None: one for each processor. The order does not depend on it
    text      bodies (and keys, with schema="kafka") as strings instead of bytes: UTF-8, what is
              none replaced by U+FFFD

    To stop before the end, drop the reader: its threads end with it.

    Raises OptionError (a ConfigError) for impossible arguments, and UnreachableError when brokers
    stay away for plan_timeout_ms. While it is read, the reader raises UnreachableError after
    poll_timeout_ms, DataLossError when messages that should be read are gone, and
    DamagedMessageError for a message that fails its checksum.
    """
    threads = _threads(threads)
    with python_names():
        options = read_options_of({"topic": topic, **given}, BROKER, _cut_for(threads))
        plan = _plan(options, Access.of(options), text)
        parts = _parts_of_topics(plan)
    return _reader(plan, parts, threads)


@documented(BROKER)
def read_table(
    topic: str | Iterable[str] | None = None,
    *,
    threads: int | None = None,
    text: bool = False,
    **given: Unpack[ReadKeywords],
) -> Any:
    """The messages of a topic, or of several, as a pyarrow.Table.

    It takes the arguments of read_batches and raises the same errors. The whole table is in memory:
    about the bytes of the bodies, and 100 to 300 bytes for each message's other columns.
    """
    return read_batches(topic, threads=threads, text=text, **given).read_all()


@documented(STORE)
def scan_store(
    path: str | Path,
    topic: str | Iterable[str] | None = None,
    *,
    threads: int | None = None,
    text: bool = False,
    **given: Unpack[ScanKeywords],
) -> Any:
    """The messages in the files of a store, read without a broker, as a pyarrow.RecordBatchReader.

    path      a store directory of ours or of Apache's, of a broker that runs, has ended, or a copy
    topic     one or a list of them; None: all but RocketMQ's own
    threads   that read at once; None: one for each processor. The order does not depend on it
    text      bodies (and keys, with schema="kafka") as strings instead of bytes: UTF-8, what is
              none replaced by U+FFFD

    Raises OptionError (a ConfigError) for impossible arguments, DamagedMessageError for a message
    that fails its checksum, DataLossError when retention deletes messages before they are read.
    """
    threads = _threads(threads)
    with python_names():
        given_all = {"path": path, "topic": topic, **given}
        options = read_options_of(given_all, STORE, _cut_for(threads))
        plan = _plan(options, None, text)
        log = StoreLog(plan)
        ranges = log.ranges()
        each_part = [ranges] if threads == 1 else [[each] for each in ranges]
        parts: list[Part] = [partial(log.read, part) for part in each_part]
    return _reader(plan, parts, threads)


def _threads(given: int | None) -> int:
    """The number of threads; OptionError: `given` is no such number."""
    if given is None:
        return max(1, len(os.sched_getaffinity(0)))
    try:
        number = operator.index(given)
    except TypeError:
        number = 0
    if number < 1:
        raise OptionError(f"threads={given!r}: give a number from 1 on")
    return number


def _cut_for(threads: int) -> dict[str, str]:
    """The option that cuts a read into parts; for one thread all of it is one part."""
    return {"maxBytesPerPartition": str(PART_BYTES)} if threads > 1 else {}


def _plan(options: Options, access: Access | None, text: bool) -> ReadPlan:
    table = table_of(options)
    names = names_of(options)
    types = [(name, table[name].types[-1 if text else 0]) for name in names]
    fields = tuple(
        "BODY_TEXT" if text and table[name].field == "BODY" else table[name].field for name in names
    )
    return ReadPlan(options, access, fields, arrow_schema(types), tuple(options.tags))


def _parts_of_topics(plan: ReadPlan) -> list[Part]:
    """The messages of now; for several threads in parts of about PART_BYTES."""
    options = plan.options
    view = Queues(options)
    try:
        ranges = snapshot(view, options)
        sizes = view.row_bytes(ranges) if options.max_bytes_per_partition else {}
        pieces = cut(ranges, partition_numbers(ranges), options, sizes)
        addresses = view.addresses() if pieces else {}
    finally:
        view.close()
    if not options.max_bytes_per_partition:
        return [partial(read_ranges, plan, pieces, addresses)]
    parts: list[list[QueueRange]] = []
    held = PART_BYTES
    for piece in pieces:
        if held >= PART_BYTES:
            parts.append([])
            held = 0
        parts[-1].append(piece)
        held += (piece.end - piece.start) * sizes[piece.key]
    return [partial(read_ranges, plan, part, addresses) for part in parts]


def _reader(plan: ReadPlan, parts: Sequence[Part], threads: int) -> Any:
    return pa.RecordBatchReader.from_batches(plan.schema, _named(in_order(parts, threads)))


def _named(batches: Iterator[Any]) -> Iterator[Any]:
    with python_names():
        yield from batches
