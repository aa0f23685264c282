"""A batch and a stream go on at the slave when the master is killed, and at the master when it is
back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.replica_set import Sent, Servers
from support.waiting import wait_until

from rmq.arrow.options import read_options
from rmq.arrow.queue_ranges import QueueRange
from rmq.arrow.queues import Queues
from rmq.arrow.range_reader import read_ranges
from rmq.broker.replication.ha_client import BLOCKED_RETRY_S
from rmq.spark.columns import default_schema, plan_of
from rmq.spark.input_partitions import QueueRanges
from rmq.spark.stream import RmqStreamReader


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    try:
        yield made
    finally:
        made.end()


def options_of(servers: Servers, *, streaming: bool = False, **more: str):
    # A batch has as many rows as a pull brings, so that some rows are left when the master ends.
    given = {"nameserver": servers.namesrv, "topic": "t", "columns": "body", "batchRows": "32",
             "fetchBytes": "32768", **more}  # fmt: skip
    if streaming:
        given["startingOffsets"] = "earliest"
    return read_options(given, streaming=streaming)


def test_a_batch_reads_on_where_there_is_a_broker(servers: Servers) -> None:
    sent = Sent(servers)
    sent.more(2_000)
    given = options_of(servers)
    view = Queues(given)
    pieces = [QueueRange(key, each.first, each.last, 0) for key, each in view.find().items()]
    plan = plan_of(given, default_schema(given))
    got: list[bytes] = []
    batches = read_ranges(plan, pieces, view.addresses())
    got += next(batches).column(0).to_pylist()
    assert len(got) < 1_000
    servers.master.kill()
    got += next(batches).column(0).to_pylist()
    for batch in batches:
        got += batch.column(0).to_pylist()
    assert got == sent.bodies
    # A new plan, made without the master.
    assert view.find() == {each.key: (each.start, each.end) for each in pieces}
    assert set(view.addresses().values()) == {servers.slave.address}
    view.close()


def test_a_batch_goes_where_the_broker_sends_it(servers: Servers) -> None:
    servers.send_readers_away()
    sent = Sent(servers)
    sent.more(1_000)
    given = options_of(servers, group="g")
    view = Queues(given)
    pieces = [QueueRange(key, each.first, each.last, 0) for key, each in view.find().items()]
    batches = read_ranges(plan_of(given, default_schema(given)), pieces, view.addresses())
    got = [body for batch in batches for body in batch.column(0).to_pylist()]
    assert got == sent.bodies
    assert servers.slave.counted("msgGetTotalTodayNow") > 500
    view.close()


def test_a_slave_that_has_less_than_the_plan_is_not_taken_for_the_end(servers: Servers) -> None:
    """The slave lacks the end of the range, which is read as soon as a broker has it."""
    sent = Sent(servers)
    sent.more(50)
    given = options_of(servers)
    view = Queues(given)
    (key,) = view.find()
    plan = plan_of(given, default_schema(given))
    pieces = [QueueRange(key, 0, 60, 0)]  # as if the master had ten messages more
    batches = read_ranges(plan, pieces, {"shop": servers.slave.address})
    got = list(next(batches).column(0).to_pylist())
    sent.more(10)
    for batch in batches:
        got += batch.column(0).to_pylist()
    assert got == sent.bodies
    view.close()


def test_a_stream_goes_on_and_goes_back(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq.arrow.queues.GONE_S", 0.2)
    sent = Sent(servers)
    given = options_of(servers, streaming=True)
    stream = RmqStreamReader(given, default_schema(given))
    at = stream.initialOffset()

    def batch() -> list[bytes]:
        nonlocal at
        end = stream.latestOffset(at, ReadAllAvailable())
        found: list[bytes] = []
        for part in stream.partitions(at, end):
            assert isinstance(part, QueueRanges)
            for rows in stream.read(part):
                found += rows.column(0).to_pylist()
        at = end
        return found

    got = []
    sent.more(20)
    got += batch()
    sent.more(20)
    servers.master.kill()
    got += batch()
    assert got == sent.bodies
    wait_until(lambda: servers.addresses() == {1: servers.slave.address})
    assert batch() == []
    servers.master.start()
    servers.slave_clock.advance(BLOCKED_RETRY_S)  # the pause after a connection that was short
    wait_until(servers.are_whole)

    def went_back() -> bool:
        sent.more(5)
        got.extend(batch())
        return servers.master.counted("msgGetTotalTodayNow") > 0

    wait_until(went_back)
    assert got == sent.bodies
    stream.stop()
