"""The columns of the source: names, Spark types, and the field of a stored record behind each.

    topic brokerName queueId queueOffset msgId uniqueKey tags keys body properties bornTimestamp
    storeTimestamp bornHost storeHost reconsumeTimes flag sysFlag bodyCrc physicalOffset
    preparedTransactionOffset                           and _corrupt with mode=permissive

Null only: uniqueKey, tags and keys of messages without them; everything but topic, brokerName,
queueId, queueOffset and _corrupt in a row that stands for a damaged message. All are declared
nullable, as Spark asks of Python sources. A schema of one's own may ask for body as a string.

schema=kafka has the columns of Spark's Kafka source: key (KEYS), value, topic, partition (queue id,
plus 65536 for each broker before this one by name), offset, timestamp (of storing), timestampType.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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

from rmq.arrow.options import OptionError, Options


class ColumnType(NamedTuple):
    field: str  # name in cext.arrow.columns.Field
    types: tuple[DataType, ...]  # the first is the default, the others may be asked for


_TEXT, _BYTES, _INT, _LONG = StringType(), BinaryType(), IntegerType(), LongType()
_MAP = MapType(StringType(), StringType(), True)
_TIME = TimestampType()
HEADERS = ArrayType(
    StructType([StructField("key", StringType(), True), StructField("value", BinaryType(), True)]),
    True,
)

RMQ = {
    "topic": ColumnType("TOPIC", (_TEXT,)),
    "brokerName": ColumnType("BROKER_NAME", (_TEXT,)),
    "queueId": ColumnType("QUEUE_ID", (_INT,)),
    "queueOffset": ColumnType("QUEUE_OFFSET", (_LONG,)),
    "msgId": ColumnType("MESSAGE_ID", (_TEXT,)),
    "uniqueKey": ColumnType("UNIQUE_KEY", (_TEXT,)),
    "tags": ColumnType("TAGS", (_TEXT,)),
    "keys": ColumnType("KEYS", (_TEXT,)),
    "body": ColumnType("BODY", (_BYTES, _TEXT)),
    "properties": ColumnType("PROPERTIES", (_MAP,)),
    "bornTimestamp": ColumnType("BORN_TIMESTAMP", (_TIME,)),
    "storeTimestamp": ColumnType("STORE_TIMESTAMP", (_TIME,)),
    "bornHost": ColumnType("BORN_HOST", (_TEXT,)),
    "storeHost": ColumnType("STORE_HOST", (_TEXT,)),
    "reconsumeTimes": ColumnType("RECONSUME_TIMES", (_INT,)),
    "flag": ColumnType("FLAG", (_INT,)),
    "sysFlag": ColumnType("SYS_FLAG", (_INT,)),
    "bodyCrc": ColumnType("BODY_CRC", (_INT,)),
    "physicalOffset": ColumnType("PHYSICAL_OFFSET", (_LONG,)),
    "preparedTransactionOffset": ColumnType("PREPARED_OFFSET", (_LONG,)),
    "_corrupt": ColumnType("CORRUPT", (_TEXT,)),
}
KAFKA = {
    "key": ColumnType("KEYS", (_BYTES, _TEXT)),
    "value": ColumnType("BODY", (_BYTES, _TEXT)),
    "topic": ColumnType("TOPIC", (_TEXT,)),
    "partition": ColumnType("PARTITION", (_INT,)),
    "offset": ColumnType("QUEUE_OFFSET", (_LONG,)),
    "timestamp": ColumnType("STORE_TIMESTAMP", (_TIME,)),
    "timestampType": ColumnType("TIMESTAMP_TYPE", (_INT,)),
    "headers": ColumnType("PROPERTIES", (HEADERS,)),
    "_corrupt": ColumnType("CORRUPT", (_TEXT,)),
}


def table_of(options: Options) -> dict[str, ColumnType]:
    return KAFKA if options.schema == "kafka" else RMQ


def default_schema(options: Options) -> StructType:
    """The columns that the options ask for, in the order of `columns` or of the table."""
    table = table_of(options)
    if options.columns is not None:
        names = [_known(name, table) for name in options.columns]
        if len(set(names)) != len(names):
            raise OptionError("option columns names a column twice")
    else:
        names = [name for name in table if _by_default(name, options)]
    return StructType([StructField(name, table[name].types[0], True) for name in names])


def _by_default(name: str, options: Options) -> bool:
    if name == "_corrupt":
        return bool(options.mode == "permissive")
    if name == "headers":
        return bool(options.include_headers)
    if name in ("body", "value"):
        return bool(options.include_body)
    return name != "properties" or bool(options.include_properties)


def _known(name: str, table: dict[str, ColumnType]) -> str:
    for known in table:
        if known.lower() == name.lower():
            return known
    raise OptionError(f"there is no column {name}; there are {', '.join(table)}")


def fields_of(schema: StructType, options: Options) -> list[str]:
    """The field behind each column of a schema, which may be the user's; OptionError."""
    table = table_of(options)
    fields = []
    for column in schema.fields:
        known = table[_known(column.name, table)]
        if not any(_same(column.dataType, each) for each in known.types):
            allowed = " or ".join(each.simpleString() for each in known.types)
            raise OptionError(
                f"column {column.name} is {column.dataType.simpleString()} in the given schema;"
                f" it is {allowed}: cast it afterwards"
            )
        fields.append(known.field)
    return fields


def _same(one: DataType, other: DataType) -> bool:
    return one.simpleString() == other.simpleString()


def arrow_schema(schema: StructType) -> Any:
    """As Spark compares it with what a reader yields."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
