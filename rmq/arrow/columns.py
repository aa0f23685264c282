"""Columns: those of a read, with their types and the field of a stored record behind each.

    topic brokerName queueId queueOffset msgId uniqueKey tags keys body properties bornTimestamp
    storeTimestamp bornHost storeHost reconsumeTimes flag sysFlag bodyCrc physicalOffset
    preparedTransactionOffset           and _corrupt with mode=permissive, bodySize when it is named

Only these can be null: uniqueKey, tags and keys of messages without them; in a row that stands for
a damaged message, every column but topic, brokerName, queueId, queueOffset and _corrupt.

schema=kafka has the columns of Spark's Kafka source: key (KEYS), value, topic, partition (queue id,
plus 65536 for each broker before this one by name), offset, timestamp (of storing), timestampType.

Types have the names that Spark writes. Each of them stands for one of Arrow's types, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from rmq.arrow.options import OptionError, Options

TEXT, BYTES, INT, LONG, TIME = "string", "binary", "int", "bigint", "timestamp"
MAP = "map<string,string>"
HEADERS = "array<struct<key:string,value:binary>>"


class Column(NamedTuple):
    field: str  # name in cext.arrow.columns.Field
    types: tuple[str, ...]  # the first is the default, the others may be asked for


RMQ = {
    "topic": Column("TOPIC", (TEXT,)),
    "brokerName": Column("BROKER_NAME", (TEXT,)),
    "queueId": Column("QUEUE_ID", (INT,)),
    "queueOffset": Column("QUEUE_OFFSET", (LONG,)),
    "msgId": Column("MESSAGE_ID", (TEXT,)),
    "uniqueKey": Column("UNIQUE_KEY", (TEXT,)),
    "tags": Column("TAGS", (TEXT,)),
    "keys": Column("KEYS", (TEXT,)),
    "body": Column("BODY", (BYTES, TEXT)),
    "properties": Column("PROPERTIES", (MAP,)),
    "bornTimestamp": Column("BORN_TIMESTAMP", (TIME,)),
    "storeTimestamp": Column("STORE_TIMESTAMP", (TIME,)),
    "bornHost": Column("BORN_HOST", (TEXT,)),
    "storeHost": Column("STORE_HOST", (TEXT,)),
    "reconsumeTimes": Column("RECONSUME_TIMES", (INT,)),
    "flag": Column("FLAG", (INT,)),
    "sysFlag": Column("SYS_FLAG", (INT,)),
    "bodyCrc": Column("BODY_CRC", (INT,)),
    "physicalOffset": Column("PHYSICAL_OFFSET", (LONG,)),
    "preparedTransactionOffset": Column("PREPARED_OFFSET", (LONG,)),
    "bodySize": Column("BODY_SIZE", (INT,)),
    "_corrupt": Column("CORRUPT", (TEXT,)),
}
KAFKA = {
    "key": Column("KEYS", (BYTES, TEXT)),
    "value": Column("BODY", (BYTES, TEXT)),
    "topic": Column("TOPIC", (TEXT,)),
    "partition": Column("PARTITION", (INT,)),
    "offset": Column("QUEUE_OFFSET", (LONG,)),
    "timestamp": Column("STORE_TIMESTAMP", (TIME,)),
    "timestampType": Column("TIMESTAMP_TYPE", (INT,)),
    "headers": Column("PROPERTIES", (HEADERS,)),
    "_corrupt": Column("CORRUPT", (TEXT,)),
}


def table_of(options: Options) -> dict[str, Column]:
    return KAFKA if options.schema == "kafka" else RMQ


def names_of(options: Options) -> list[str]:
    """The columns that the options ask for, in the order of `columns` or of the table."""
    table = table_of(options)
    if options.columns is None:
        return [name for name in table if _by_default(name, options)]
    names = [known(name, table) for name in options.columns]
    if len(set(names)) != len(names):
        raise OptionError("option columns names a column twice")
    return names


def _by_default(name: str, options: Options) -> bool:
    if name == "_corrupt":
        return bool(options.mode == "permissive")
    if name == "bodySize":  # a reader of the body does not need it
        return False
    if name == "headers":
        return bool(options.include_headers)
    if name in ("body", "value"):
        return bool(options.include_body)
    return name != "properties" or bool(options.include_properties)


def known(name: str, table: Iterable[str]) -> str:
    """The name as the table writes it, in whatever case it is given; OptionError: there is none."""
    for each in table:
        if each.lower() == name.lower():
            return each
    raise OptionError(f"there is no column {name}; there are {', '.join(table)}")


@cache
def arrow_types() -> Mapping[str, Any]:
    """pyarrow's type for each type that a column may have."""
    import pyarrow as pa

    return {
        TEXT: pa.string(), BYTES: pa.binary(), INT: pa.int32(), LONG: pa.int64(),
        TIME: pa.timestamp("us", "UTC"), MAP: pa.map_(pa.string(), pa.string()),
        HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }  # fmt: skip


def arrow_schema(types: Iterable[tuple[str, str]]) -> Any:
    """pyarrow's schema of columns, which are given as (name, type)."""
    import pyarrow as pa

    arrow = arrow_types()
    return pa.schema([pa.field(name, arrow[each]) for name, each in types])
