"""Store: the files of a broker's store as a source: path=STORE_DIR (rmq/arrow/store_log.py).

spark.read.format("rmq").option("path", "/backup/store").load()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmq.arrow.options import Options
from rmq.arrow.store_log import LogRange, StoreLog
from rmq.spark import columns
from rmq.spark.collector import freeze_once
from rmq.spark.error_text import brief_errors, brief_errors_of


class LogRanges(InputPartition):
    """The ranges of the log that one task reads."""

    def __init__(self, ranges: list[LogRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


class StoreReader(DataSourceReader):
    """Plans on the driver; the executors must see the same files."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._log = StoreLog(columns.plan_of(options, schema))

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        ranges = self._log.ranges()
        limit = self._options.max_partitions or len(ranges) or 1
        tasks: list[list[LogRange]] = [[] for _ in range(min(limit, len(ranges)))]
        for at, each in enumerate(ranges):
            tasks[at * len(tasks) // len(ranges)].append(each)
        return [LogRanges(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, LogRanges):
            return iter(())
        freeze_once(self._options)
        return brief_errors_of(self._log.read(partition.ranges))
