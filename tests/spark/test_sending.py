"""Rows on their way to brokers that are killed, come back or stay away; and the largest rows.

The writer is called as Spark calls it, without a session.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from support.broker_pair import Pair
from support.broker_process import BrokerProcess
from support.reading import read_all
from support.spark_topics import make

from rmq.arrow.options import write_options
from rmq.errors import UnreachableError
from rmq.spark.sink import BatchSink

MIB = 1 << 20
AWAY_S = 0.5  # for so long a broker is away that comes back


def sink_of(namesrv: str, topic: str, *more: str, **options: str) -> BatchSink:
    given = {"nameserver": namesrv, "topic": topic, **options}
    columns = [StructField("body", BinaryType()), *(StructField(each, StringType())
                                                    for each in more)]  # fmt: skip
    return BatchSink(write_options(given), StructType(columns), False)


def written(sink: BatchSink, batches: Iterator[pa.RecordBatch]) -> int:
    return sink._write(batches, "write", 0).rows


def batch_of(numbers: range, size: int = 0, key: bool = False) -> pa.RecordBatch:
    """Rows whose bodies begin with their number. With shardingKey each row is sent in the slow
    way."""
    columns = {"body": [b"%08d" % at + bytes(size) for at in numbers]}
    if key:
        columns["shardingKey"] = [str(at % 5) for at in numbers]
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("sharded", [False, True])
def test_brokers_that_are_killed_while_rows_are_written_cost_none(
    pair: Pair, sharded: bool
) -> None:
    """The name server is killed together with the broker. No retry is allowed, except for a broker
    that is away."""
    make(pair.broker, "written", 3)
    more = ("shardingKey",) if sharded else ()
    sink = sink_of(pair.namesrv, "written", *more, batchSendBytes="4k", sendRetries="0")
    kills, rounds = 3, 40

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(rounds):
            if at % (rounds // kills) == 5:
                pair.kill()
                back = threading.Timer(AWAY_S, pair.start)
                back.start()
                yield batch_of(range(at * 200, at * 200 + 100), 200, sharded)
                back.join()
                at_last = range(at * 200 + 100, at * 200 + 200)
                yield batch_of(at_last, 200, sharded)
            else:
                yield batch_of(range(at * 200, at * 200 + 200), 200, sharded)

    assert written(sink, batches()) == rounds * 200
    found = read_all(pair.namesrv, "written")
    assert {int(each.body[:8]) for each in found} == set(range(rounds * 200))
    once = {each.properties["UNIQ_KEY"]: each.body for each in found}
    assert len(once) == rounds * 200
    repeats = Counter(each.body for each in found)
    assert max(repeats.values()) <= 1 + kills


def test_a_sink_gives_a_broker_up_after_the_time_that_was_given(pair: Pair) -> None:
    make(pair.broker, "away", 1)
    sink = sink_of(pair.namesrv, "away", pollTimeoutMs="700")
    assert written(sink, iter([batch_of(range(10))])) == 10

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch_of(range(10))
        pair.kill()
        yield batch_of(range(10, 20))

    began = time.monotonic()
    with pytest.raises(UnreachableError, match="given up after pollTimeoutMs=700"):
        written(sink, batches())
    assert time.monotonic() - began > 0.7
    with pytest.raises(UnreachableError, match=r"no name server answers.*pollTimeoutMs=700"):
        written(sink, iter([batch_of(range(10))]))


def test_a_broker_that_is_away_at_the_first_row_is_waited_for(pair: Pair) -> None:
    make(pair.broker, "early", 2)
    pair.kill()
    back = threading.Timer(AWAY_S, pair.start)
    back.start()
    assert written(sink_of(pair.namesrv, "early"), iter([batch_of(range(100))])) == 100
    back.join()
    assert len(read_all(pair.namesrv, "early")) == 100


@pytest.mark.parametrize("sharded", [False, True])
def test_bodies_of_up_to_4_mib_are_written_in_their_order(
    broker: BrokerProcess, topic: str, sharded: bool
) -> None:
    """The largest body is sent by itself, because a batch with it would be too large."""
    make(broker, topic, 1)
    bodies = [b"first", b"y" * 100_000, b"z" * (4 * MIB), b"a", b"w" * (300 << 10), b"last"]
    columns = {"body": bodies, **({"shardingKey": ["k"] * len(bodies)} if sharded else {})}
    sink = sink_of(broker.namesrv, topic, *columns.keys() - {"body"})
    assert written(sink, iter([pa.RecordBatch.from_pydict(columns)])) == len(bodies)
    stored = sorted(read_all(broker.namesrv, topic), key=lambda each: each.queue_offset)
    assert [each.body for each in stored] == bodies
    assert len({each.properties["UNIQ_KEY"] for each in stored}) == len(bodies)
