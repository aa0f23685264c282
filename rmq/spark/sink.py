"""Sink: write and writeStream: rows become messages.

    df.write.format("rmq").mode("append").option("nameserver", ...).option("topic", "orders").save()

    body (or value)    binary or string      required
    topic              string                instead of the option topic
    tags, keys         string                keys may be an array of strings
    properties         map<string,string>
    shardingKey        string                rows of one key go to one queue, in order
    delay              int                   delay level
    deliverAt          timestamp             not before

At least once: a task that Spark runs again sends its rows again, with the same unique keys. The key
is made of the query, the batch, the partition and the row (of a batch write: of this write, or of
idPrefix), so readers drop repeats by the column uniqueKey (rmq.spark.dedupe.drop_repeats).

transactional=true sends half messages, which nobody sees until all tasks of the batch are done and
the driver ends their transactions; a batch that fails is rolled back. Should the driver die
meanwhile, a streaming query sends the batch again, and only what was not committed before is now:
exactly once, on the conditions that are named in rmq.spark.transactions.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from rmq.arrow.access import Access
from rmq.arrow.options import OptionError, Options
from rmq.errors import RmqError
from rmq.spark.error_text import brief_errors
from rmq.spark.transactions import Halves, Outcome, end_all

COLUMNS = {
    "body": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "delay": ("int", "smallint", "tinyint"),
    "deliverAt": ("timestamp",),
}
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class BadRowError(RmqError):
    """A row cannot become a message."""


class _Sink:
    """What both writers do; pickled to the executors."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a topic cannot be overwritten: write with mode("append")')
        self._options = options
        self._access = Access.of(options)
        self._names = _checked(schema, options)
        self._prefix = options.id_prefix or uuid.uuid4().hex

    def _write(self, batches: Iterator[Any], prefix: str, partition: int) -> Halves:
        from rmq.arrow.sender import Sender

        done = Halves()
        topic = (self._options.topic or ("",))[0]
        transactional = self._options.transactional
        sender = Sender(self._options, self._access, done.add if transactional else None)
        try:
            rows = Rows(self._options, self._names, prefix, partition)
            for batch in batches:
                done.rows += batch.num_rows
                taken = 0
                for following, encoded in rows.encoded(batch):
                    sender.add_encoded(topic, encoded)
                    taken = following
                for target, shard, properties, body, single in rows.of(batch.slice(taken)):
                    sender.add(target, shard, properties, body, single=single, half=transactional)
            sender.flush()
        finally:
            sender.close()
        return done


class BatchSink(_Sink, DataSourceArrowWriter):
    """df.write"""

    @brief_errors()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        return self._write(iterator, self._prefix, context.partitionId() if context else 0)

    @brief_errors()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        again = self._options.id_prefix is not None  # without it no other write has these keys
        end_all(self._access, self._options, messages, Outcome.COMMIT, again)

    @brief_errors()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        end_all(self._access, self._options, messages, Outcome.ROLLBACK)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """df.writeStream"""

    @brief_errors()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise BadRowError("a streaming write outside of a task")
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise BadRowError("Spark does not say which query and batch this is")
        prefix = f"{self._options.id_prefix or query}/{batch}"
        return self._write(iterator, prefix, context.partitionId())

    @brief_errors()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        end_all(self._access, self._options, messages, Outcome.COMMIT, again=True)

    @brief_errors()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        end_all(self._access, self._options, messages, Outcome.ROLLBACK)


def _checked(schema: StructType, options: Options) -> list[str]:
    """The columns by their names in COLUMNS; OptionError says what is wrong and what to do."""
    known = {name.lower(): name for name in COLUMNS}
    names = []
    for column in schema.fields:
        name = known.get(column.name.lower())
        if name is None:
            raise OptionError(
                f"column {column.name} has no meaning in a message; there are"
                f" {', '.join(COLUMNS)}: drop it or put it into properties"
            )
        if column.dataType.simpleString() not in COLUMNS[name]:
            allowed = " or ".join(COLUMNS[name])
            raise OptionError(f"column {column.name} is {column.dataType.simpleString()},"
                              f" it must be {allowed}: cast it")  # fmt: skip
        names.append(name)
    if not {"body", "value"} & set(names):
        raise OptionError("there is no column body: name one, select(... .alias('body'))")
    if options.topic is None and "topic" not in names:
        raise OptionError("no topic: give option topic or a column topic")
    if options.transactional and {"delay", "deliverAt"} & set(names):
        raise OptionError("a delayed message cannot be transactional: drop one of the two")
    return names


class Rows:
    """Record batches as messages: (topic, shard, properties, body, must go alone)."""

    def __init__(self, options: Options, names: list[str], prefix: str, partition: int) -> None:
        self._names = ["body" if name == "value" else name for name in names]
        self._topic = options.topic[0] if options.topic else None
        digest = hashlib.md5(prefix.encode(), usedforsecurity=False).hexdigest()[:16]
        self._key = f"{digest}{partition & 0xFFFFFFFF:08x}".upper()
        self._row = 0
        self._most = options.batch_send_bytes
        extra = ""
        if options.transactional:
            immune = options.transaction_timeout // 1000
            extra = (f"TRAN_MSG\1true\2PGROUP\1{options.producer_group}\2"
                     f"CHECK_IMMUNITY_TIME_IN_SECONDS\1{immune}\2")  # fmt: skip
        self._extra = extra

    def encoded(self, batch: Any) -> Iterator[tuple[int, bytes]]:
        """(rows taken so far, body of a batch send) as far as rows are plain: C does those."""
        from cext.arrow.encoder import encode_rows

        if self._extra or self._topic is None or not {"tags", "keys"} >= {*self._names} - {"body"}:
            return
        columns = dict(zip(self._names, batch.columns, strict=True))
        if any(not _is_small(each) for each in columns.values()):
            return
        buffers = tuple(
            None if columns.get(name) is None
            else (*columns[name].buffers(), columns[name].offset)
            for name in ("body", "tags", "keys")
        )  # fmt: skip
        at = 0
        while at < batch.num_rows:
            try:
                body, following = encode_rows(
                    buffers, at, batch.num_rows, self._most, self._key.encode(), self._row
                )
            except ValueError:
                return  # the slow way says which row, and why
            self._row += following - at
            at = following
            yield at, body

    def of(self, batch: Any) -> Iterator[tuple[str, int | None, bytes, bytes, bool]]:
        columns = dict(zip(self._names, (each.to_pylist() for each in batch.columns), strict=True))
        bodies = columns.pop("body")
        if not columns and not self._extra and self._topic is not None:
            for body in bodies:
                yield self._topic, None, self._unique().encode(), _bytes(body), False
            return
        for at, body in enumerate(bodies):
            row = {name: values[at] for name, values in columns.items()}
            yield self._message(row, _bytes(body))

    def _unique(self) -> str:
        self._row += 1
        return f"UNIQ_KEY\1{self._key}{self._row - 1:08X}\2"

    def _message(
        self, row: dict[str, Any], body: bytes
    ) -> tuple[str, int | None, bytes, bytes, bool]:
        parts = [self._unique(), self._extra]
        single = False
        for name, value in dict(row.get("properties") or {}).items():
            parts.append(_pair(name, value))
        keys = row.get("keys")
        for name, value in (
            ("TAGS", row.get("tags")),
            ("KEYS", " ".join(keys) if isinstance(keys, list) else keys),
            ("__SHARDINGKEY", row.get("shardingKey")),
        ):
            if value:
                parts.append(_pair(name, value))
        if row.get("delay"):
            parts.append(_pair("DELAY", str(row["delay"])))
            single = True
        if row.get("deliverAt") is not None:
            parts.append(_pair("TIMER_DELIVER_MS", str(int(row["deliverAt"].timestamp() * 1000))))
            single = True
        shard = None
        if row.get("shardingKey"):
            import mmh3

            shard = mmh3.hash(row["shardingKey"], signed=False)
        topic = row.get("topic") or self._topic
        if not topic:
            raise BadRowError("a row without topic, and no option topic")
        return topic, shard, "".join(parts).encode(), body, single


def _is_small(array: Any) -> bool:
    """Offsets of 32 bits, which is what Spark gives by default."""
    import pyarrow as pa

    return bool(pa.types.is_string(array.type) or pa.types.is_binary(array.type))


def _pair(name: str, value: str | None) -> str:
    if value is None or not name or any(mark in text for mark in "\1\2" for text in (name, value)):
        raise BadRowError(f"not a property: {name[:80]!r} = {str(value)[:80]!r}")
    return f"{name}\1{value}\2"


def _bytes(body: bytes | str | None) -> bytes:
    if body is None:
        raise BadRowError("a row without body: filter it out, body IS NOT NULL")
    if not body:
        raise BadRowError("a row with an empty body: brokers refuse it, filter it out")
    return body.encode() if isinstance(body, str) else body
