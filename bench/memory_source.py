"""Memory source: Arrow batches from memory, the most that a Python source of Spark can do.

Its options are `rows` and `body`; it has two partitions. The body column of every batch is the same
piece of memory, so only Spark and the transfer to it are measured, and nothing of a source.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

BATCH_ROWS = 1000


class MemorySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "memory_rows"

    def schema(self) -> str:
        return "body binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        return MemoryReader(int(self.options["rows"]), int(self.options["size"]))


class MemoryReader(DataSourceReader):
    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(at) for at in range(2)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import array

        offsets = array.array("i", range(0, (BATCH_ROWS + 1) * self._size, self._size))
        body = pa.py_buffer(bytes(range(256)) * (BATCH_ROWS * self._size // 256))
        column = pa.Array.from_buffers(
            pa.binary(), BATCH_ROWS, [None, pa.py_buffer(offsets), body], 0
        )
        batch = pa.RecordBatch.from_arrays([column], names=["body"])
        for _ in range(self._rows // 2 // BATCH_ROWS):
            yield batch
