"""Table writer: tables as messages.

    rmq.write_table(table, "orders")        # a table of pyarrow, a frame of pandas or polars, ..

The columns are those of rows.py. Columns that a read has and a new message cannot have (brokerName,
queueId, ..) are left out, and so are properties that brokers and clients make. So what read_table
gives can be written again, to another topic or another cluster.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("tables are pyarrow's: pip install 'rmq[arrow]'") from error

from rmq.arrow.access import Access
from rmq.arrow.arguments import WRITE, documented, python_names, texts_of
from rmq.arrow.columns import HEADERS, INT, LONG, MAP, TIME, arrow_types, table_of
from rmq.arrow.kafka_rows import columns_of, rows_of
from rmq.arrow.options import OptionError, write_options
from rmq.arrow.rows import checked_names
from rmq.arrow.sender import Sender
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.names import SHARDING_KEY

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.arrow.keywords import WriteKeywords

_TYPES = arrow_types()
_HEADERS = _TYPES[HEADERS]
# The types that columns get which hold nothing but nulls.
_OF_NULLS = {"delay": _TYPES[INT], "partition": _TYPES[INT], "headers": _HEADERS,
             "deliverat": _TYPES[TIME], "properties": _TYPES[MAP]}  # fmt: skip
# Types by their names in rows.COLUMNS. That has no LONG, so errors call LONG by Arrow's name.
_NAMES = {kind: name for name, kind in _TYPES.items() if name != LONG}
_NAMES[pa.list_(pa.string())] = "array<string>"
_OF_COLUMNS = {"tags": "TAGS", "keys": "KEYS", "key": "KEYS", "shardingkey": SHARDING_KEY}


@documented(WRITE)
def write_table(data: Any, topic: str | None = None, **given: Unpack[WriteKeywords]) -> int:
    """Sends each row as a message, and returns their number; when it returns, all are stored.

    data      what gives Arrow data: a pyarrow.Table, RecordBatch or RecordBatchReader, a DataFrame
              of pandas (2.2 or later) or polars
    topic     where to; None: the column topic says so, for each row

    The column body (bytes or text) is required. There may be tags, keys (text, or a list of texts),
    properties (a map of texts), shardingKey (rows with the same one go to one queue, in their
    order), delay (a level) and deliverAt (a time). With schema="kafka" the columns are value, key,
    partition and headers, as in Spark's sink for Kafka.

    Rows are stored at least once: if an answer is lost, a row may be stored twice, with the same
    unique key. If id_prefix is given, the same rows have the same keys in another call, too. Sends
    that a broker stored less safely than it promises (10, 11, 12) are counted in a warning of the
    logger rmq.arrow.

    Raises OptionError (a ConfigError) for impossible arguments and for columns that no message has,
    BadRowError for a row that cannot become a message, RemoteError when brokers refuse a send,
    UnreachableError when they stay away for poll_timeout_ms. Earlier rows may be stored by then.
    """
    with python_names():
        options = write_options(texts_of({"topic": topic, **given}, WRITE))
        table = columns_of(options)
        reader = _reader(data)
        left_out = {name.lower() for name in table_of(options)} - {name.lower() for name in table}
        left_out |= {"topic"} if topic is not None else set()
        index = _index_columns(reader.schema) - set(table)
        fields = [each for each in reader.schema
                  if each.name.lower() not in left_out and each.name not in index]  # fmt: skip
        types = {each.name: _plain_type(each.name, each.type) for each in fields}
        if len(types) < len(fields):
            raise OptionError("a column is there twice")
        names = checked_names(
            ((name, _as_spark(each)) for name, each in types.items()), options, table
        )
        has = {name.lower() for name in names}
        taken_by_columns = {name for column, name in _OF_COLUMNS.items() if column in has}
        own = OWN_PROPERTIES | taken_by_columns
        rows = rows_of(options, names, options.id_prefix or uuid.uuid4().hex, 0)
        sender = Sender(options, Access.of(options))
        count = 0
        try:
            for batch in reader:
                columns = [_plain(batch.column(name), each, own) for name, each in types.items()]
                rows.put(pa.RecordBatch.from_arrays(columns, list(types)), sender)
                count += batch.num_rows
            sender.flush()
        finally:
            sender.close()
        return count


def _reader(data: Any) -> Any:
    """The data as a RecordBatchReader. One of pyarrow's is returned as it is, so its errors keep
    their types: through the C interface only their texts would come."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        cure = "pyarrow.Table.from_pylist makes a table of a list of dicts"
        if type(data).__module__.partition(".")[0] == "pandas":
            cure = "pandas does from 2.2 on; pyarrow.Table.from_pandas makes a table of a frame"
        raise OptionError(f"{type(data).__name__} gives no Arrow data: {cure}")
    return pa.RecordBatchReader.from_stream(data)


def _index_columns(schema: Any) -> set[str]:
    """The columns in which pandas hands over a frame's index."""
    try:
        found = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except ValueError:
        return set()
    return {each for each in found if isinstance(each, str)}


def _plain_type(name: str, kind: Any) -> Any:
    """The type that rows are made of, where Arrow has several types for the same values."""
    is_a = pa.types
    if is_a.is_dictionary(kind):
        kind = kind.value_type
    if is_a.is_null(kind):
        return _OF_NULLS.get(name.lower(), pa.string())
    if is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return pa.string()
    if is_a.is_large_binary(kind) or is_a.is_binary_view(kind) or is_a.is_fixed_size_binary(kind):
        return pa.binary()
    if is_a.is_integer(kind) and name.lower() in ("delay", "partition"):
        return pa.int32()
    if is_a.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if is_a.is_large_list(kind) or is_a.is_list_view(kind) or is_a.is_list(kind):
        return (
            _HEADERS if name.lower() == "headers" else pa.list_(_plain_type(name, kind.value_type))
        )
    if is_a.is_map(kind):
        return pa.map_(_plain_type(name, kind.key_type), _plain_type(name, kind.item_type))
    return kind


def _as_spark(kind: Any) -> str:
    """The type's name in rows.COLUMNS; the zone of a time does not count."""
    return TIME if pa.types.is_timestamp(kind) else _NAMES.get(kind, str(kind))


def _plain(column: Any, kind: Any, own: Iterable[str]) -> Any:
    if pa.types.is_dictionary(column.type):
        values = column.dictionary.cast(kind)
        column = pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    # Nanoseconds of a time are cut off: a broker has no use for them.
    column = column.cast(kind, safe=not pa.types.is_timestamp(kind))
    if not pa.types.is_map(kind) and kind != _HEADERS:
        return column
    rows = [
        None if row is None else [each for each in row if _name_of(each) not in own]
        for row in column.to_pylist()
    ]
    return pa.array(rows, kind)


def _name_of(pair: Any) -> Any:
    """The name of a property or of a header."""
    return pair["key"] if isinstance(pair, dict) else pair[0]
