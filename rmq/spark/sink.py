"""Sink: the writers behind write and writeStream, which make messages of rows.

    df.write.format("rmq").mode("append").option("nameserver", ...).option("topic", "orders").save()

The columns are those of rmq/arrow/rows.py, or with schema=kafka those of kafka_rows.py.

At least once: a task that Spark runs again sends its rows again, with the same unique keys. A key
is made of the query, the batch, the partition and the row. (A batch write has an id of its own, or
idPrefix, instead of query and batch.) So readers can drop repeats by the column uniqueKey
(rmq.spark.repeats.drop_repeats).

transactional=true sends half messages, which nobody sees until all tasks of the batch are done and
the driver ends their transactions. A batch that fails is rolled back. If the driver dies before
all transactions are ended, a streaming query sends the batch again, and only rows that are not
committed yet are committed now. This makes it exactly once, on the conditions that
rmq.spark.transactions names.
"""

from __future__ import annotations

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
from rmq.arrow.kafka_rows import columns_of, rows_of
from rmq.arrow.options import OptionError, Options
from rmq.arrow.rows import BadRowError, checked_names
from rmq.spark.error_text import brief_errors
from rmq.spark.transactions import Halves, Outcome, end_all

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class _Sink:
    """What both writers have in common. Spark pickles it to the executors."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a topic cannot be overwritten: write with mode("append")')
        self._options = options
        self._access = Access.of(options)
        self._names = checked_names(
            ((each.name, each.dataType.simpleString()) for each in schema.fields), options,
            columns_of(options),
        )  # fmt: skip
        self._prefix = options.id_prefix or uuid.uuid4().hex

    def _write(self, batches: Iterator[Any], prefix: str, partition: int) -> Halves:
        from rmq.arrow.sender import Sender

        done = Halves()
        transactional = self._options.transactional
        sender = Sender(self._options, self._access, done.add if transactional else None)
        try:
            rows = rows_of(self._options, self._names, prefix, partition)
            for batch in batches:
                done.rows += batch.num_rows
                rows.put(batch, sender, transactional)
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
        again = self._options.id_prefix is not None  # else no other write can have these keys
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
