"""Reference: docs/spark.md, the columns and options of the source, written from their tables.

python -m rmq.spark.reference > docs/spark.md
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from rmq.arrow import columns, kafka_rows, rows
from rmq.arrow.columns import Column
from rmq.arrow.options import OF_A_TABLE, TABLE

READ_ABOUT = {
    "topic": "the topic",
    "brokerName": "the broker that has the queue: `broker-a`, or `broker-a-1` for shard 1 of it",
    "queueId": "the queue, from 0 on; one for each broker",
    "queueOffset": "the place in the queue; unique with topic, brokerName and queueId",
    "msgId": "the broker's id: its address and the place in its log, 32 hex digits (56 with IPv6)",
    "uniqueKey": "the sender's id, the property UNIQ_KEY",
    "tags": "the tag",
    "keys": "the keys, separated by blanks",
    "body": "the body as it was sent: unpacked. A schema of one's own may ask for a string (UTF-8)",
    "properties": "all properties, the sender's and RocketMQ's own (TAGS, KEYS, UNIQ_KEY, ..)",
    "bornTimestamp": "when it was sent, by the sender's clock; milliseconds",
    "storeTimestamp": "when it was stored, by the broker's clock; milliseconds",
    "bornHost": "the sender, `127.0.0.1:50312`",
    "storeHost": "the broker that stored it",
    "reconsumeTimes": "how often a consumer sent it back",
    "flag": "the number that the sender may give a message",
    "sysFlag": "RocketMQ's bits, of the message as it is stored: packed, transaction, IPv6, ..",
    "bodyCrc": "CRC-32 of the stored body without its top bit; it has been checked",
    "physicalOffset": "the place in the broker's log",
    "preparedTransactionOffset": "committed or set aside: where its half message is; else 0",
    "bodySize": "bytes of the body as it is stored, packed or not; only when `columns` or a schema "
    "names it: for those who only count",
    "_corrupt": "why the row has no message; only with mode=permissive, null in a good row",
}
KAFKA_ABOUT = {
    "key": "the keys; binary, or a string by a schema of one's own",
    "value": "the body",
    "topic": "the topic",
    "partition": "queueId + 65536 for each broker of the topic whose name comes before",
    "offset": "queueOffset",
    "timestamp": "storeTimestamp",
    "timestampType": "always 1, the time of storing",
    "headers": "the properties, values as bytes; only with includeHeaders=true",
    "_corrupt": "as above",
}
KAFKA_WRITE_ABOUT = {
    "value": "the body; empty or null (Kafka's tombstone) is refused",
    "key": "the keys; rows of one key go to one queue, in their order",
    "topic": "where to, without the option topic",
    "partition": "to this queue, by the number that is read",
    "headers": "properties of the message; values are UTF-8 text, each name once",
}
WRITE_ABOUT = {
    "body": "the body; empty or null is refused",
    "value": "the same by Kafka's name",
    "topic": "where to, instead of the option topic",
    "tags": "the tag",
    "keys": "the keys: an array, or separated by blanks",
    "properties": "properties of the message",
    "shardingKey": "rows of one key go to one queue, in their order",
    "delay": "a delay level (1: 1 s, .. 18: 2 h)",
    "deliverAt": "not before this time",
}
# Columns that are null in good rows too.
NULLABLE = {"uniqueKey", "tags", "keys", "key", "_corrupt"}
ALWAYS = {"topic", "brokerName", "queueId", "queueOffset", "partition", "offset"}
STATEMENT = re.compile(r"CREATE [A-Z. ]+ USING rmq(?: OPTIONS \(\.\.\))?")
INTRODUCTION = """# The Spark source and sink

Written by `python -m rmq.spark.reference` from the tables of `rmq/spark`. How to begin is in the
[guide](spark-guide.md).

## Columns read

Spark's schema says that every column may be null, as Spark wants it of sources in Python. "never"
means that no row is without it; "damaged" that only a row that stands for a damaged message is
(`mode=permissive`). Fewer columns are faster: name them in the option `columns`, or give a schema
with some of them, in any order.
"""
KAFKA = """
With `schema=kafka` the columns are those of Spark's Kafka source, so that a job moves by changing
its format and its addresses:
"""
WRITTEN = """
## Columns written

A frame that is written has `body` and any of the others; every other column is refused. The mode is
`append`.
"""
KAFKA_WRITTEN = """
With `schema=kafka` the columns are those of Spark's Kafka sink; `value` alone has to be there:
"""
PROMISES = """
## What is promised

- **A batch read is a snapshot.** Its first action asks the brokers for the ends of the queues;
  each later action on the same DataFrame, each task that is tried again and each speculative one
  reads the same offsets. `load()` again to see newer messages. Which queues there are is what the
  name server knows then: those of a broker that is away are not among them, unless `assign` names
  them.
- **Brokers may restart**, and name servers. A plan waits for `planTimeoutMs`, a task that reads or
  writes and a running stream for `pollTimeoutMs`, then they fail. Tasks that read go on behind the
  last row that they gave to Spark. A queue that its broker makes anew, as it was damaged, is waited
  for as long.
- **A stream reads each message once**, with a sink that takes a batch once, as Spark's files do:
  the offsets are in the checkpoint. `commitOffsets` commits them at the
  brokers too, for lag tools only.
- **The sink sends at least once.** A row that is sent again has the same `uniqueKey`, which is
  made of the query, the batch, the partition and the row (a batch write: of this write, or of
  `idPrefix`). `rmq.spark.repeats.drop_repeats(frame)` takes repeats out. What a broker answers with
  10, 11 or 12 counts as sent: it has it, and its disk or a slave was late, so a power cut or a
  failover may take it. The task's log has how many sends those were.
- **`transactional=true` shows a batch when its driver commits it, and then once**, also if the
  driver dies meanwhile: the next run finds what is committed by its unique keys. That takes tasks
  that give the same rows in the same order when they run again (plans without a shuffle do; after
  a shuffle sort within the partitions), brokers with `messageIndexEnable` (the default), and
  messages that have not expired. A batch write needs `idPrefix` for it. While a batch is being
  committed its rows appear one after the other.
- **Rows that were read may be written again** with their `properties` or `headers`. Of those, what
  brokers and clients make (UNIQ_KEY, DELAY, TIMER_DELIVER_MS, ..) is left out: each row is a new
  message, which comes at once.
- **Damaged messages** fail the read (`mode=failfast`); `permissive` gives a row with `_corrupt`,
  `dropmalformed` leaves them out. Messages that are gone fail it too, unless
  `failOnDataLoss=false`: also what was gone before the first message of a queue that is new to a
  stream (a topic that grew, a broker that came, or was away when the stream began), and what a
  group had not read yet (`startingOffsets=group`).

## In SQL

{of_a_table}.

## Options

Sizes may have k, m or g, times ms, s, m or h. Names are those of Spark's Kafka source where it
has the option; upper and lower case are the same, and the old RocketMQ connector's `nameServer`
and `subExpression` are understood.
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return lines + [f"| {' | '.join(row).replace('||', ', ')} |" for row in rows]


def read_rows(known: dict[str, Column], about: dict[str, str]) -> list[Sequence[str]]:
    found: list[Sequence[str]] = []
    for name, column in known.items():
        null = "never" if name in ALWAYS else "without it" if name in NULLABLE else "damaged"
        types = " or ".join(column.types)
        found.append((f"`{name}`", types, null, about[name]))
    return found


def page() -> str:
    lines = [*INTRODUCTION.splitlines(), ""]
    lines += table(("column", "type", "null", "what"), read_rows(columns.RMQ, READ_ABOUT))
    lines += [*KAFKA.splitlines(), ""]
    lines += table(("column", "type", "null", "what"), read_rows(columns.KAFKA, KAFKA_ABOUT))
    lines += [*WRITTEN.splitlines(), ""]
    lines += table(("column", "type", "what"), [
        (f"`{name}`", " or ".join(types), WRITE_ABOUT[name]) for name, types in rows.COLUMNS.items()
    ])  # fmt: skip
    lines += [*KAFKA_WRITTEN.splitlines(), ""]
    lines += table(("column", "type", "what"), [
        (f"`{name}`", " or ".join(types), KAFKA_WRITE_ABOUT[name])
        for name, types in kafka_rows.COLUMNS.items()
    ])  # fmt: skip
    sql = "A topic is a view in SQL; a table is refused. " + STATEMENT.sub(r"`\g<0>`", OF_A_TABLE)
    sql = textwrap.fill(sql, 100)
    lines += [*PROMISES.replace("{of_a_table}", sql).splitlines(), ""]
    lines += table(("option", "default", "counts for", "what"), [
        (f"`{each.name}`", _shown(each.default), ", ".join(each.where), each.about)
        for each in TABLE
    ])  # fmt: skip
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    print(page(), end="")
