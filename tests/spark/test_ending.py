"""The end of a transactional batch: what a driver that dies in the middle leaves, and what the next
driver does with it.

There is no session: the writer is called as Spark calls it, so that a "death" is at a chosen row.
"""

import threading

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from support.broker_pair import Pair
from support.broker_process import BrokerProcess
from support.calm_clock import calm_seconds
from support.reading import read_all
from support.spark_topics import make

from rmq.arrow.options import write_options
from rmq.errors import UnreachableError
from rmq.spark import transactions
from rmq.spark.sink import StreamSink
from rmq.spark.transactions import Halves

TASKS, ROWS = 3, 150  # rows of a task, which are more than two windows


class DriverDiedError(Exception):
    pass


def sink_of(broker: BrokerProcess, topic: str, columns: tuple[str, ...] = ("body",)) -> StreamSink:
    options = {"nameserver": broker.namesrv, "topic": topic, "transactional": "true"}
    schema = StructType([StructField(name, StringType()) for name in columns])
    return StreamSink(write_options(options), schema, False)


def send_batch(sink: StreamSink, batch: int, topics: tuple[str, ...] = ()) -> list[Halves]:
    """Runs the tasks of a batch; there are as many half messages as rows."""
    messages = []
    for task in range(TASKS):
        columns = {"body": [f"{batch}-{task}-{row}" for row in range(ROWS)]}
        if topics:
            columns["topic"] = [topics[row % len(topics)] for row in range(ROWS)]
        rows = pa.RecordBatch.from_pydict(columns)
        messages.append(sink._write(iter([rows]), f"query/{batch}", task))
    assert [each.rows for each in messages] == [ROWS] * TASKS
    return messages


def expected(batch: int) -> list[bytes]:
    return sorted(b"%d-%d-%d" % (batch, task, row) for task in range(TASKS) for row in range(ROWS))


def found(broker: BrokerProcess, *topics: str) -> list[bytes]:
    return sorted(each.body for topic in topics for each in read_all(broker.namesrv, topic))


def die_after(monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    """Lets the driver send so many ends of transactions; then it dies."""
    left = [requests]
    submit = transactions.Connection.submit

    def counted(self: transactions.Connection, code: int, *rest: object) -> int:
        if code == 37:
            if left[0] == 0:
                raise DriverDiedError
            left[0] -= 1
        return submit(self, code, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(transactions.Connection, "submit", counted)


@pytest.mark.parametrize("died_after", [0, 1, 40, 64, 65, 150, 200, TASKS * ROWS - 1, TASKS * ROWS])
def test_a_batch_whose_driver_died_while_it_committed_is_seen_once(
    broker: BrokerProcess, topic: str, died_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(broker, topic, 2)
    sink = sink_of(broker, topic)
    first = send_batch(sink, 7)
    with monkeypatch.context() as patch:
        die_after(patch, died_after)
        if died_after < TASKS * ROWS:
            with pytest.raises(DriverDiedError):
                sink.commit(list(first), 7)
        else:  # the driver died before the checkpoint was written
            sink.commit(list(first), 7)
    again = sink_of(broker, topic)
    again.commit(list(send_batch(again, 7)), 7)
    again.commit(list(send_batch(again, 8)), 8)
    assert found(broker, topic) == sorted(expected(7) + expected(8))


def test_rows_of_several_topics_are_found_in_each(
    broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = (f"{topic}-a", f"{topic}-b")
    make(broker, topics[0], 1)  # the other topic is made by its first row
    sink = sink_of(broker, topics[0], ("body", "topic"))
    first = send_batch(sink, 1, topics)
    with monkeypatch.context() as patch:
        die_after(patch, 100)
        with pytest.raises(DriverDiedError):
            sink.commit(list(first), 1)
    sink.commit(list(send_batch(sink, 1, topics)), 1)
    assert found(broker, *topics) == expected(1)
    assert len(read_all(broker.namesrv, topics[1])) == TASKS * ROWS // 2


def test_a_batch_that_is_rolled_back_is_never_seen(broker: BrokerProcess, topic: str) -> None:
    make(broker, topic, 2)
    sink = sink_of(broker, topic)
    sink.abort([*send_batch(sink, 1), None], 1)
    sink.commit(list(send_batch(sink, 2)), 2)
    assert found(broker, topic) == expected(2)


def test_a_broker_killed_while_a_batch_commits_costs_no_row_and_repeats_none(pair: Pair) -> None:
    make(pair.broker, "killed", 2)
    sink = sink_of(pair.broker, "killed")
    halves = send_batch(sink, 1)
    ends, lock = [0], threading.Lock()
    submit, restart = transactions.Connection.submit, threading.Timer(0.5, pair.start)

    def kill_within(self: transactions.Connection, code: int, *rest: object) -> int:
        with lock:
            ends[0] += code == 37
            if ends[0] == 100 and code == 37:
                pair.kill()
                restart.start()
        return submit(self, code, *rest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transactions.Connection, "submit", kill_within)
        try:
            sink.commit(list(halves), 1)
        finally:
            if restart.is_alive():  # it must have started before the test's end can kill it
                restart.join()
    assert ends[0] > TASKS * ROWS  # some were sent again
    assert found(pair.broker, "killed") == expected(1)


def test_a_rollback_does_not_wait_for_a_broker_as_long_as_a_commit(pair: Pair) -> None:
    make(pair.broker, "gone", 1)
    options = {"nameserver": pair.namesrv, "topic": "gone", "transactional": "true",
               "sendTimeoutMs": "300"}  # fmt: skip
    schema = StructType([StructField("body", StringType())])
    sink = StreamSink(write_options(options), schema, False)
    halves = send_batch(sink, 1)
    pair.kill()
    began = calm_seconds()
    with pytest.raises(UnreachableError):
        sink.abort(list(halves), 1)
    assert calm_seconds() - began < 60  # a commit waits twice as long
