"""Failures during a read: brokers that die and come back, messages that are gone or damaged."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.broker_pair import SMALL, Pair
from support.broker_process import BrokerProcess, broker_process
from support.calm_clock import calm_seconds
from support.spark_topics import fill, make, producer, read, remove, send, send_as_batch
from support.waiting import HANG_S, wait_until, wait_until_is

from rmq import Message
from rmq.arrow.options import OptionError, read_options
from rmq.arrow.queue_ranges import QueueRange
from rmq.arrow.queues import DataLossError, Queues
from rmq.arrow.range_reader import read_ranges
from rmq.arrow.read_plan import DamagedMessageError
from rmq.client.blocking.admin import runtime_info, topic_queues
from rmq.client.blocking.cluster import Cluster
from rmq.errors import UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_message_id
from rmq.spark import columns
from rmq.spark.columns import default_schema
from rmq.spark.input_partitions import QueueRanges
from rmq.spark.source import RmqReader
from rmq.spark.stream import RmqStreamReader

AWAY_S = 0.5  # for so long a broker is away that comes back


def load(broker: BrokerProcess, topic: str, count: int, size: int = 1024) -> None:
    """Sends many messages fast."""
    make(broker, topic, 1)
    subprocess.run(
        [sys.executable, "-m", "rmq", "bench", "batch", "-n", broker.namesrv, "-t", topic,
         "--queues", "1", "-s", str(size), "-d", "300", "--warmup", "0", "--count", str(count)],
        check=True, capture_output=True,
    )  # fmt: skip


def plan_of(namesrv: str, topic: str, **options: str):
    given = read_options({"nameserver": namesrv, "topic": topic, "columns": "queueOffset,body",
                          **options}, streaming=False)  # fmt: skip
    view = Queues(given)
    ends = view.find()
    pieces = [QueueRange(key, each.first, each.last, 0) for key, each in ends.items()]
    return columns.plan_of(given, default_schema(given)), pieces, view.addresses()


def offsets(batches: Iterator, into: list[int]) -> Sequence[int]:
    for batch in batches:
        into += batch.column(0).to_pylist()
    return into


def test_a_broker_killed_within_a_range_costs_no_message_and_repeats_none(pair: Pair) -> None:
    load(pair.broker, "killed", 60_000)
    plan, pieces, addresses = plan_of(pair.namesrv, "killed", batchBytes="256k")
    total = sum(piece.end for piece in pieces)
    assert total >= 50_000
    batches = read_ranges(plan, pieces, addresses)
    seen: list[int] = next(batches).column(0).to_pylist()
    pair.kill()
    pair.start()
    assert offsets(batches, seen) == list(range(total))


def test_a_broker_that_stays_away_is_given_up_after_the_time_that_was_given(pair: Pair) -> None:
    load(pair.broker, "away", 2000)
    plan, pieces, addresses = plan_of(pair.namesrv, "away", pollTimeoutMs="700")
    pair.kill()
    began = calm_seconds()
    with pytest.raises(Exception, match="given up after pollTimeoutMs=700"):
        list(read_ranges(plan, pieces, addresses))
    assert calm_seconds() - began < 60


def test_a_topic_that_vanishes_is_a_loss_that_may_be_allowed(pair: Pair) -> None:
    fill(pair.broker, "vanishing", {0: [b"x"] * 5})
    plan, pieces, addresses = plan_of(pair.namesrv, "vanishing")
    tolerant, _, _ = plan_of(pair.namesrv, "vanishing", failOnDataLoss="false")
    remove(pair.broker, "vanishing")
    with pytest.raises(DataLossError, match="messages 0 to 4 are gone"):
        list(read_ranges(plan, pieces, addresses))
    assert list(read_ranges(tolerant, pieces, addresses)) == []


def test_a_queue_that_is_taken_away_is_a_loss_that_may_be_allowed(pair: Pair) -> None:
    fill(pair.broker, "shrunk", {0: [b"x"] * 3, 1: [b"y"] * 5})
    plan, pieces, addresses = plan_of(pair.namesrv, "shrunk")
    tolerant, _, _ = plan_of(pair.namesrv, "shrunk", failOnDataLoss="false")
    make(pair.broker, "shrunk", 1)
    with pytest.raises(DataLossError, match=r"queue 1 of topic shrunk .* 0 to 4 are gone"):
        list(read_ranges(plan, pieces, addresses))
    assert offsets(read_ranges(tolerant, pieces, addresses), []) == [0, 1, 2]
    before = {"shrunk": {"broker-a": {"0": 3, "1": 5}}}
    for fail, said in (("true", "queue 1 of topic shrunk .* is no longer there"), ("false", None)):
        given = {"nameserver": pair.namesrv, "topic": "shrunk", "failOnDataLoss": fail}
        options = read_options(given, streaming=True)
        reader = RmqStreamReader(options, default_schema(options))
        if said is not None:
            with pytest.raises(DataLossError, match=said):
                reader.latestOffset(before, ReadAllAvailable())
        else:
            assert reader.latestOffset(before, ReadAllAvailable()) == before
        reader.stop()


def test_messages_that_have_expired_fail_a_read_or_are_passed_over(tmp_path: Path) -> None:
    """The log's first file is deleted, as when its time is over."""
    small = ("--set", f"mappedFileSizeCommitLog={1 << 20}", "--set", "maxMessageSize=500000")
    with broker_process(tmp_path, small) as broker:
        make(broker, "old", 1)
        send_as_batch(broker, "old", [b"%04d" % at * 250 for at in range(3000)])
    sorted((tmp_path / "store" / "commitlog").iterdir())[0].unlink()
    with broker_process(tmp_path, small) as broker:
        plan, (piece,), addresses = plan_of(broker.namesrv, "old")
        first, last = piece.start, piece.end
        assert (0 < first < last, last) == (True, 3000)
        whole = [piece._replace(start=0)]
        gone = f"messages 0 to {first - 1} are gone .the queue has {first} to {last}"
        with pytest.raises(DataLossError, match=gone):
            list(read_ranges(plan, whole, addresses))
        tolerant, _, _ = plan_of(broker.namesrv, "old", failOnDataLoss="false")
        assert offsets(read_ranges(tolerant, whole, addresses), []) == list(range(first, last))
        past = {"topic": "old", "startingOffsets": '{"old":{"0":0}}'}
        with pytest.raises(DataLossError, match=f"it has {first} to {last}; failOnDataLoss=false"):
            planned(broker.namesrv, **past)
        ranges = planned(broker.namesrv, **past, failOnDataLoss="false")
        assert ranges == [(first, last)]


def test_a_message_damaged_on_disk_is_told_marked_or_left_out(pair: Pair) -> None:
    fill(pair.broker, "hurt", {0: [b"%d" % at * 50 for at in range(6)]})
    options = {"columns": "queueOffset,msgId"}
    plan, pieces, addresses = plan_of(pair.namesrv, "hurt", **options)
    (batch,) = read_ranges(plan, pieces, addresses)
    at = decode_message_id(batch.column(1).to_pylist()[3])[1]
    pair.broker.stop()
    log = sorted((pair.broker.store / "commitlog").iterdir())[0]
    with log.open("r+b") as file:
        file.seek(at + 100)
        file.write(b"\xff")
    pair.start()
    with pytest.raises(DamagedMessageError, match="offset 3"):
        list(read_ranges(plan, pieces, addresses))
    plan, _, _ = plan_of(pair.namesrv, "hurt", mode="dropmalformed")
    assert offsets(read_ranges(plan, pieces, addresses), []) == [0, 1, 2, 4, 5]
    plan, _, _ = plan_of(pair.namesrv, "hurt", mode="permissive", columns="queueOffset,_corrupt")
    (batch,) = read_ranges(plan, pieces, addresses)
    rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    assert [offset for offset, _ in rows] == [0, 1, 2, 3, 4, 5]
    assert [offset for offset, reason in rows if reason is not None] == [3]


def test_a_worker_needs_no_more_memory_for_a_long_queue(pair: Pair) -> None:
    """The worker that reads 200 MB grows by less than 40 MB after the first ones."""
    load(pair.broker, "long", 200_000)
    script = (
        "import sys\n"
        "sys.path[:0] = [sys.argv[1], sys.argv[1] + '/tests']\n"
        "from spark.test_faults import plan_of, read_ranges\n"
        "plan, pieces, addresses = plan_of(sys.argv[2], 'long')\n"
        # Not by getrusage: its maximum begins with that of the process from which this one was
        # forked.
        "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) >> 10\n"
        "rows, early = 0, 0\n"
        "for at, batch in enumerate(read_ranges(plan, pieces, addresses)):\n"
        "    rows += batch.num_rows\n"
        "    early = peak() if at == 10 else early\n"
        "print(rows, early, peak())\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script, str(root), pair.namesrv],
                          capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(root)})  # fmt: skip
    rows, early, peak = map(int, done.stdout.split())
    assert rows >= 150_000
    assert peak < early + 40
    assert peak < 256


def planned(namesrv: str, **options: str) -> list[tuple[int, int]]:
    """The ranges that a batch read would read now."""
    given = read_options({"nameserver": namesrv, **options}, streaming=False)
    reader = RmqReader(given, default_schema(given))
    return sorted((piece.start, piece.end)
                  for part in reader.partitions() if isinstance(part, QueueRanges)
                  for piece in part.ranges)  # fmt: skip


@pytest.mark.parametrize("chosen", ["topic", "subscribePattern", "assign"])
def test_a_batch_is_planned_while_its_broker_and_name_server_restart(
    pair: Pair, chosen: str
) -> None:
    fill(pair.broker, "whole", {0: [b"x"] * 3, 1: [b"y"] * 5})
    value = {"topic": "whole", "subscribePattern": "who.*", "assign": '{"whole":{"broker-a":[1]}}'}
    pair.kill()
    back, began = threading.Timer(AWAY_S, pair.start), time.monotonic()
    back.start()
    ranges = planned(pair.namesrv, planTimeoutMs="10m", **{chosen: value[chosen]})
    back.join()
    assert time.monotonic() - began > AWAY_S
    assert ranges == ([(0, 5)] if chosen == "assign" else [(0, 3), (0, 5)])


@contextmanager
def bare_name_server(port: int) -> Iterator[None]:
    """A name server that answers and knows no broker."""
    process = subprocess.Popen([sys.executable, "-m", "rmq", "namesrv", "--port", str(port)],
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert process.stdout is not None and "ready" in process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=HANG_S)


def test_a_topic_is_unknown_only_to_a_name_server_that_knows_a_broker(pair: Pair) -> None:
    fill(pair.broker, "known", {0: [b"x"]})
    began = calm_seconds()
    with pytest.raises(OptionError, match="topic unknown does not exist"):
        planned(pair.namesrv, topic="unknown", planTimeoutMs="600000")
    assert calm_seconds() - began < 60
    pair.kill()
    port = int(pair.namesrv.rpartition(":")[2])
    with bare_name_server(port):
        began, calm = time.monotonic(), calm_seconds()
        with pytest.raises(UnreachableError, match="no broker is registered"):
            planned(pair.namesrv, topic="known", planTimeoutMs="700")
        assert time.monotonic() - began >= 0.7
        assert calm_seconds() - calm < 14  # the default is 15 s
        with pytest.raises(UnreachableError, match="no broker is registered"):
            planned(pair.namesrv, subscribePattern="k.*", planTimeoutMs="0")
    began = calm_seconds()
    with pytest.raises(UnreachableError, match="no name server answers"):
        planned(pair.namesrv, topic="known", planTimeoutMs="0")
    assert calm_seconds() - began < 14


def test_a_stream_waits_for_a_broker_that_restarts(pair: Pair) -> None:
    fill(pair.broker, "planned", {0: [b"before"]})
    options = read_options({"nameserver": pair.namesrv, "topic": "planned", "columns": "body",
                            "startingOffsets": "earliest"}, streaming=True)  # fmt: skip
    reader = RmqStreamReader(options, default_schema(options))
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadAllAvailable())
    assert first == {"planned": {"broker-a": {"0": 1}}}
    pair.kill()
    back, began = threading.Timer(AWAY_S, pair.start), time.monotonic()
    back.start()
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    assert time.monotonic() - began > AWAY_S
    back.join()
    send(pair.broker, "planned", [b"after"])
    second = reader.latestOffset(first, ReadAllAvailable())
    assert second == {"planned": {"broker-a": {"0": 2}}}
    batches = [batch for each in reader.partitions(first, second) for batch in reader.read(each)]
    assert [batch.column(0).to_pylist() for batch in batches] == [[b"after"]]
    remove(pair.broker, "planned")
    with pytest.raises(DataLossError, match="is no longer there"):
        reader.latestOffset(second, ReadAllAvailable())
    reader.stop()


def test_few_messages_wait_for_more_no_longer_than_was_said(broker: BrokerProcess) -> None:
    fill(broker, "few", {0: [b"1"]})
    options = read_options({"nameserver": broker.namesrv, "topic": "few", "maxTriggerDelay": "1s",
                            "startingOffsets": "earliest", "minOffsetsPerTrigger": "5"},
                           streaming=True)  # fmt: skip
    reader = RmqStreamReader(options, default_schema(options))
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    began = time.monotonic()
    first = reader.latestOffset(start, limit)
    assert first == {"few": {"broker-a": {"0": 1}}}  # the first batch of a run does not wait
    send(broker, "few", [b"2"])
    second = wait_until_is(lambda: reader.latestOffset(first, limit), lambda found: found != first)
    assert time.monotonic() - began > 0.9
    assert second == {"few": {"broker-a": {"0": 2}}}
    reader.stop()


def test_a_broker_that_joins_while_a_stream_runs_is_read_from_its_first_message(
    pair: Pair, tmp_path: Path
) -> None:
    fill(pair.broker, "grown", {0: [b"old"]})
    options = read_options({"nameserver": pair.namesrv, "topic": "grown", "columns": "body",
                            "startingOffsets": "latest"}, streaming=True)  # fmt: skip
    reader = RmqStreamReader(options, default_schema(options))
    first = reader.initialOffset()
    command = [sys.executable, "-m", "rmq", "broker", "--store", str(tmp_path / "other"), "--port",
               "0", "-n", pair.namesrv, *SMALL, "--set", "brokerName=broker-b"]  # fmt: skip
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and "ready" in other.stdout.readline()
        with Cluster(pair.namesrv) as cluster:
            wait_until(
                lambda: [each.name for each in cluster.brokers()] == ["broker-a", "broker-b"], 60
            )
        make(pair.broker, "grown", 1)
        with producer(pair.broker) as sender:
            for body in (b"new", b"newer"):
                sender.send(Message("grown", body), queue=MessageQueue("grown", "broker-b", 0))
        second = reader.latestOffset(first, ReadAllAvailable())
        assert second == {"grown": {"broker-a": {"0": 1}, "broker-b": {"0": 2}}}
        found = [batch for each in reader.partitions(first, second) for batch in reader.read(each)]
        assert [batch.column(0).to_pylist() for batch in found] == [[b"new", b"newer"]]
    finally:
        other.terminate()
        other.communicate(timeout=HANG_S)
        reader.stop()


@pytest.mark.slow
def test_a_stream_goes_on_when_its_broker_comes_back(spark, pair: Pair, tmp_path: Path) -> None:
    fill(pair.broker, "restarted", {0: [b"before"]})
    reader = spark.readStream.format("rmq").option("nameserver", pair.namesrv)
    frame = reader.options(topic="restarted", startingOffsets="earliest", columns="body").load()
    seen: list[bytes] = []
    query = (
        frame.writeStream.foreachBatch(
            lambda batch, _: seen.extend(bytes(row.body) for row in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path / "point"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        pair.kill()
        time.sleep(1)
        pair.start()
        send(pair.broker, "restarted", [b"after"])
        wait_until(lambda: len(seen) >= 2 or not query.isActive)
        assert query.exception() is None
    finally:
        query.stop()
    assert seen == [b"before", b"after"]


@pytest.mark.slow
def test_a_broker_killed_under_a_spark_job_leaves_its_result_exact(spark, pair: Pair) -> None:
    load(pair.broker, "job", 400_000, 256)
    with Cluster(pair.namesrv) as cluster:
        total = sum(row.max_offset for row in topic_queues(cluster, "job"))
    frame = read(spark, pair.broker, "job", minPartitions=4, columns="queueOffset")
    counted = frame.selectExpr("count(*)", "count(distinct queueOffset)", "max(queueOffset)")

    done = threading.Event()

    def handed_out() -> int:
        with Cluster(pair.namesrv) as cluster:
            return int(runtime_info(cluster, *cluster.brokers())["msgGetTotalTodayNow"])

    def restart() -> None:
        wait_until(lambda: handed_out() > 0, 120)
        assert not done.is_set(), "the job was over before the kill"
        pair.kill()
        pair.start()

    with ThreadPoolExecutor(1) as beside:
        killing = beside.submit(restart)
        found = tuple(counted.first())
        done.set()
        killing.result()
    assert found == (total, total, total - 1)
