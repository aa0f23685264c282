"""KafkaRows: rows with the columns of Spark's Kafka sink as messages (schema=kafka).

    value        binary or string      the body, required
    key          binary or string      the keys; rows of one key go to one queue, in order
    topic        string                the topic, unless the option topic is given
    partition    int                   the queue, by its number in the column of that name
    headers      array<struct<key:string,value:binary>>     properties

Rows that Kafka accepts and a message cannot hold are refused, and the error has the row's number: a
key or a header that is not UTF-8, an empty key, a header without a name or a value, a header that
is there twice, a value that is null (Kafka's tombstone). Headers that brokers or clients have made
are left out, so rows that were read can be written again.
"""

from __future__ import annotations

from typing import Any

from rmq.arrow import rows
from rmq.arrow.columns import BYTES, HEADERS, INT, TEXT
from rmq.arrow.options import Options
from rmq.arrow.rows import BadRowError, Outgoing, Rows, Table, shard_of
from rmq.format.own_properties import OWN_PROPERTIES

COLUMNS = {
    "value": (BYTES, TEXT),
    "key": (BYTES, TEXT),
    "topic": (TEXT,),
    "partition": (INT, "smallint", "tinyint"),
    "headers": (HEADERS,),
}


OWN = OWN_PROPERTIES | {"KEYS"}  # the keys are the column key


def columns_of(options: Options) -> Table:
    """The columns that rows may have, with their types."""
    return COLUMNS if options.schema == "kafka" else rows.COLUMNS


def rows_of(options: Options, names: list[str], prefix: str, partition: int) -> Rows:
    kind = KafkaRows if options.schema == "kafka" else Rows
    return kind(options, names, prefix, partition)


class KafkaRows(Rows):
    def _message(self, row: dict[str, Any], body: bytes) -> Outgoing:
        key = _text("key", row.get("key"))
        if key == "":
            raise BadRowError("an empty key, which no message has: null is none")
        made = super()._message(
            {
                "topic": self._topic or row.get("topic"),
                "keys": key,
                "properties": _properties(row.get("headers") or ()),
            },
            body,
        )
        partition = row.get("partition")
        if partition is not None and partition < 0:
            raise BadRowError(f"partition {partition}: 0 or more")
        shard = made.shard if key is None else shard_of(key)
        return made._replace(shard=shard, partition=partition)


def _properties(headers: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in headers:
        if each is None or not each["key"]:
            raise BadRowError("a header without a name")
        name, value = each["key"], _text(f"header {each['key']}", each["value"])
        if name in OWN:
            continue
        if value is None:
            raise BadRowError(f"header {name} has no value, which no property can say")
        if name in found:
            raise BadRowError(f"header {name} is there twice, and a message has each property once")
        found[name] = value
    return found


def _text(what: str, value: bytes | str | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadRowError(f"{what} is no UTF-8 text: {value[:40]!r}") from None
