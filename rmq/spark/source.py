"""Source: the data source that Spark knows as "rmq": the class, and reading a batch.

    spark.read.format("rmq").option("nameserver", "127.0.0.1:9876").option("topic", "orders").load()

A DataFrame is a snapshot: its first action asks the brokers where the queues end, and every further
action on the same DataFrame reads the same messages. Call load() again to see newer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from rmq.arrow import columns as table
from rmq.arrow.options import Options, read_options, write_options
from rmq.arrow.queue_ranges import cut, gather
from rmq.errors import ConfigError
from rmq.spark import columns
from rmq.spark.collector import freeze_once
from rmq.spark.error_text import brief_errors, brief_errors_of
from rmq.spark.input_partitions import QueueRanges

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from rmq.spark.filter_pushdown import FilterPushdown


class RmqDataSource(DataSource):
    """Topics of a RocketMQ-compatible broker, or the files of its store."""

    @classmethod
    def name(cls) -> str:
        return "rmq"

    @brief_errors()
    def schema(self) -> StructType:
        # Spark asks for the schema before it says whether this is a batch or a stream.
        from rmq.arrow.options import lenient_options

        return columns.default_schema(lenient_options(self.options))

    @brief_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, streaming=False)
        if options.path is not None:
            from rmq.spark.store import StoreReader

            return StoreReader(options, schema)
        if options.pushdown:
            return PushdownReader(options, schema)
        return RmqReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rmq.spark.stream import RefusingReader, RmqStreamReader

        try:
            return RmqStreamReader(read_options(self.options, streaming=True), schema)
        except ConfigError as error:
            return RefusingReader(error)

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rmq.spark.sink import BatchSink

        return BatchSink(write_options(self.options), schema, overwrite)

    @brief_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from rmq.spark.sink import StreamSink

        return StreamSink(write_options(self.options), schema, overwrite)


class RmqReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._plan = columns.plan_of(options, schema)
        self._pushdown: FilterPushdown | None = None

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        from rmq.arrow.queues import Queues, partition_numbers
        from rmq.arrow.snapshot import snapshot

        view = Queues(self._options)
        try:
            ranges = snapshot(view, self._options)
            numbers = partition_numbers(ranges)
            if self._pushdown is not None:
                ranges = self._pushdown.narrow(ranges, numbers, view)
            sizes = view.row_bytes(ranges) if self._options.max_bytes_per_partition else None
            tasks = gather(cut(ranges, numbers, self._options, sizes), self._options)
            addresses = view.addresses() if tasks else {}
        finally:
            view.close()
        return [QueueRanges(task, addresses) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from rmq.arrow.range_reader import read_ranges

        if not isinstance(partition, QueueRanges):  # Spark's stand-in for an empty plan
            return iter(())
        freeze_once(self._options)
        return brief_errors_of(read_ranges(self._plan, partition.ranges, partition.addresses))


class PushdownReader(RmqReader):
    """With pushdown=true: Spark's filters make the plan smaller. Spark still applies them all."""

    @brief_errors()
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        from rmq.spark.filter_pushdown import FilterPushdown

        self._pushdown = FilterPushdown.of(filters, table.table_of(self._options))
        if not self._options.tags and self._options.sql is None:
            self._plan = columns.plan_of(self._options, self._schema, self._pushdown.tags)
        return filters
