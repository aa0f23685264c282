"""Columns: those of the source as Spark's types. Spark wants all of a Python source to be nullable.

What each one means is in rmq/arrow/columns.py. A user's own schema may ask for body as a string.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmq.arrow import columns
from rmq.arrow.access import Access
from rmq.arrow.options import OptionError, Options
from rmq.arrow.read_plan import ReadPlan

TYPES: dict[str, DataType] = {
    columns.TEXT: StringType(),
    columns.BYTES: BinaryType(),
    columns.INT: IntegerType(),
    columns.LONG: LongType(),
    columns.TIME: TimestampType(),
    columns.MAP: MapType(StringType(), StringType(), True),
    columns.HEADERS: ArrayType(
        StructType([
            StructField("key", StringType(), True), StructField("value", BinaryType(), True)
        ]),
        True,
    ),
}  # fmt: skip


def default_schema(options: Options) -> StructType:
    """The columns that the options ask for."""
    table = columns.table_of(options)
    return StructType([
        StructField(name, TYPES[table[name].types[0]], True) for name in columns.names_of(options)
    ])  # fmt: skip


def fields_of(schema: StructType, options: Options) -> list[str]:
    """The field behind each column of a schema, which may be the user's; OptionError."""
    table = columns.table_of(options)
    fields = []
    for column in schema.fields:
        known = table[columns.known(column.name, table)]
        asked = column.dataType.simpleString()
        if asked not in known.types:
            raise OptionError(
                f"column {column.name} is {asked} in the given schema;"
                f" it is {' or '.join(known.types)}: cast it afterwards"
            )
        fields.append(known.field)
    return fields


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema with which Spark compares the batches that a reader yields."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def plan_of(options: Options, schema: StructType, tags: Iterable[str] = ()) -> ReadPlan:
    """The plan of a read; the tags are those of the options unless others are given."""
    return ReadPlan(
        options,
        Access.of(options) if options.path is None else None,
        tuple(fields_of(schema, options)),
        arrow_schema(schema),
        tuple(tags or options.tags),
    )
