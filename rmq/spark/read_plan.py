"""ReadPlan: what every task of a read has in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from rmq.arrow.access import Access
from rmq.arrow.options import Options
from rmq.spark import columns


@dataclass(frozen=True)
class ReadPlan:
    """Made by the driver; pickled to the executors."""

    options: Options
    access: Access | None  # None: a store is read, without a broker
    fields: tuple[str, ...]
    schema: Any  # of Arrow
    tags: tuple[str, ...]

    @classmethod
    def of(cls, options: Options, schema: StructType, tags: Iterable[str] = ()) -> ReadPlan:
        """Of a read from brokers; the tags are those of the options unless some are given."""
        return cls(
            options,
            Access.of(options),
            tuple(columns.fields_of(schema, options)),
            columns.arrow_schema(schema),
            tuple(tags or options.tags),
        )
