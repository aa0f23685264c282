"""Dedupe: exactly once for readers of what a sink may have sent twice.

    once = drop_repeats(spark.read.format("rmq")...load())
    once = drop_repeats(stream, watermark="10 minutes")

The sink gives a row the same unique key whenever it sends it again (rmq.spark.sink): a repeat is a
row whose uniqueKey was there before. A stream remembers keys for the time of its watermark, on
storeTimestamp by default.
"""

from __future__ import annotations

from pyspark.sql import DataFrame


def drop_repeats(
    frame: DataFrame, watermark: str = "10 minutes", time_column: str = "storeTimestamp"
) -> DataFrame:
    """The rows without repeats; the frame needs the columns uniqueKey and, streaming, the time."""
    if not frame.isStreaming:
        return frame.dropDuplicates(["uniqueKey"])
    return frame.withWatermark(time_column, watermark).dropDuplicatesWithinWatermark(["uniqueKey"])
