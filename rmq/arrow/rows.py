"""Rows: record batches as messages, by the columns that a message may have.

    body (or value)    binary or string      required
    topic              string                instead of the option topic
    tags, keys         string                keys may be an array of strings
    properties         map<string,string>
    shardingKey        string                rows of one key go to one queue, in order
    delay              int                   delay level
    deliverAt          timestamp             not before

Properties that brokers and clients make are left out, so rows that were read can be written again.
(A row with the unique key of another message would be dropped as its repeat.)

    names = checked_names([("body", "binary"), ("tags", "string")], options)
    Rows(options, names, prefix, 0).put(batch, sender)

With schema=kafka the columns are those of kafka_rows.py.

A row's unique key is made of the prefix, the partition and the row's number: the same rows, sent
again, have the same keys, by which readers drop repeats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rmq.arrow.options import OptionError, Options
from rmq.errors import RmqError
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.names import CHECK_IMMUNITY, SHARDING_KEY

if TYPE_CHECKING:
    from rmq.arrow.sender import Sender

COLUMNS = {
    "body": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "delay": ("int", "smallint", "tinyint"),
    "deliverAt": ("timestamp",),
}


class BadRowError(RmqError):
    """A row cannot become a message; rows are counted from 0."""


class Outgoing(NamedTuple):
    """A message that is to be sent. `shard` chooses its queue; None: the next one in turn."""

    topic: str
    shard: int | None
    properties: bytes
    body: bytes
    single: bool  # it must not be in a batch
    partition: int | None = None  # it goes to this queue: queue id + 65536 * the broker's number


Table = Mapping[str, tuple[str, ...]]


def checked_names(
    types: Iterable[tuple[str, str]], options: Options, table: Table = COLUMNS
) -> list[str]:
    """The columns by their names in the table; OptionError says what is wrong and what to do."""
    known = {name.lower(): name for name in table}
    names = []
    for given, kind in types:
        name = known.get(given.lower())
        if name is None:
            raise OptionError(
                f"column {given} has no meaning in a message; there are"
                f" {', '.join(table)}: drop it or put it into properties"
            )
        if kind not in table[name]:
            allowed = " or ".join(table[name])
            raise OptionError(f"column {given} is {kind},"
                              f" it must be {allowed}: cast it")  # fmt: skip
        names.append(name)
    if len({"body" if name == "value" else name for name in names}) < len(names):
        raise OptionError("a column is there twice (value is body by another name)")
    if not {"body", "value"} & set(names):
        name = next(iter(table))
        raise OptionError(f"there is no column {name}: name one, select(... .alias('{name}'))")
    if options.topic is None and "topic" not in names:
        raise OptionError("no topic: give option topic or a column topic")
    if options.transactional and {"delay", "deliverAt"} & set(names):
        raise OptionError("a delayed message cannot be transactional: drop one of the two")
    return names


class Rows:
    """Record batches as messages."""

    def __init__(self, options: Options, names: list[str], prefix: str, partition: int) -> None:
        self._names = ["body" if name == "value" else name for name in names]
        self._topic = options.topic[0] if options.topic else None
        digest = hashlib.md5(prefix.encode(), usedforsecurity=False).hexdigest()[:16]
        self._key = f"{digest}{partition & 0xFFFFFFFF:08x}".upper()
        self._row = 0
        self._most = options.batch_send_bytes
        extra = ""
        if options.transactional:
            immune = options.transaction_timeout // 1000
            extra = (f"TRAN_MSG\1true\2PGROUP\1{options.producer_group}\2"
                     f"{CHECK_IMMUNITY}\1{immune}\2")  # fmt: skip
        self._extra = extra

    def encoded(self, batch: Any) -> Iterator[tuple[int, bytes]]:
        """Yields (rows taken so far, body of a batch send) while rows are plain; C encodes them."""
        from cext.arrow.encoder import encode_rows

        if self._extra or self._topic is None or not {"tags", "keys"} >= {*self._names} - {"body"}:
            return
        columns = dict(zip(self._names, batch.columns, strict=True))
        if any(not _is_small(each) for each in columns.values()):
            return
        buffers = tuple(
            None if columns.get(name) is None
            else (*columns[name].buffers(), columns[name].offset)
            for name in ("body", "tags", "keys")
        )  # fmt: skip
        at = 0
        while at < batch.num_rows:
            try:
                body, following = encode_rows(
                    buffers, at, batch.num_rows, self._most, self._key.encode(), self._row
                )
            except ValueError:
                return  # of() says which row is wrong, and why
            self._row += following - at
            at = following
            yield at, body

    def of(self, batch: Any) -> Iterator[Outgoing]:
        columns = dict(zip(self._names, (each.to_pylist() for each in batch.columns), strict=True))
        bodies = columns.pop("body")
        first = self._row
        for at, body in enumerate(bodies):
            row = {name: values[at] for name, values in columns.items()}
            try:
                message = self._message(row, _bytes(body))
            except BadRowError as error:
                raise BadRowError(f"row {first + at}: {error}") from None
            yield message

    def put(self, batch: Any, sender: Sender, half: bool = False) -> None:
        """Sends all rows of the batch."""
        taken = 0
        for following, encoded in self.encoded(batch):
            sender.add_encoded(self._topic or "", encoded)
            taken = following
        for each in self.of(batch.slice(taken)):
            sender.add(each.topic, each.shard, each.properties, each.body, single=each.single,
                       half=half, partition=each.partition)  # fmt: skip

    def _unique(self) -> str:
        self._row += 1
        return f"UNIQ_KEY\1{self._key}{self._row - 1:08X}\2"

    def _message(self, row: dict[str, Any], body: bytes) -> Outgoing:
        parts = [self._unique(), self._extra]
        single = False
        properties = dict(row.get("properties") or {})
        for name, value in properties.items():
            if name not in OWN_PROPERTIES:
                parts.append(_pair(name, value))
        keys = row.get("keys")
        sharding_key = row.get("shardingKey") or properties.get(SHARDING_KEY)
        for name, value in (
            ("TAGS", row.get("tags")),
            ("KEYS", " ".join(filter(None, keys)) if isinstance(keys, list) else keys),
            (SHARDING_KEY, row.get("shardingKey")),
        ):
            if value:
                parts.append(_pair(name, value))
        if row.get("delay"):
            parts.append(_pair("DELAY", str(row["delay"])))
            single = True
        if row.get("deliverAt") is not None:
            parts.append(_pair("TIMER_DELIVER_MS", str(int(row["deliverAt"].timestamp() * 1000))))
            single = True
        shard = shard_of(sharding_key) if sharding_key else None
        topic = row.get("topic") or self._topic
        if not topic:
            raise BadRowError("a row without topic, and no option topic")
        return Outgoing(topic, shard, "".join(parts).encode(), body, single)


def shard_of(key: str) -> int:
    import mmh3

    return int(mmh3.hash(key, signed=False))


def _is_small(array: Any) -> bool:
    """Whether the array's offsets have 32 bits, as those that Spark gives by default."""
    import pyarrow as pa

    return bool(pa.types.is_string(array.type) or pa.types.is_binary(array.type))


def _pair(name: str, value: str | None) -> str:
    if value is None or not name or any(mark in text for mark in "\1\2" for text in (name, value)):
        raise BadRowError(f"not a property: {name[:80]!r} = {str(value)[:80]!r}")
    return f"{name}\1{value}\2"


def _bytes(body: bytes | str | None) -> bytes:
    if body is None:
        raise BadRowError("a row without body: filter it out, body IS NOT NULL")
    if not body:
        raise BadRowError("a row with an empty body: brokers refuse it, filter it out")
    return body.encode() if isinstance(body, str) else body
