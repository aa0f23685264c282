"""Repeats: readers get each row exactly once, although a sink may have sent it twice.

    once = drop_repeats(spark.read.format("rmq")...load())
    once = drop_repeats(stream, watermark="10 minutes")

When the sink sends a row again, the row has the same unique key as before (rmq.spark.sink). So a
repeat is a row whose uniqueKey was there before. A stream remembers keys for the time of its
watermark, which is on storeTimestamp by default.
"""

from __future__ import annotations

from pyspark.sql import DataFrame


def drop_repeats(
    frame: DataFrame, watermark: str = "10 minutes", time_column: str = "storeTimestamp"
) -> DataFrame:
    """The rows without repeats; the frame needs uniqueKey and, as a stream, the time column."""
    if not frame.isStreaming:
        return frame.dropDuplicates(["uniqueKey"])
    return frame.withWatermark(time_column, watermark).dropDuplicatesWithinWatermark(["uniqueKey"])
