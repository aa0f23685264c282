"""readStream on real Spark: every message comes once, in batches of the size that was asked for."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import BrokerProcess
from support.spark_topics import bodies, fill, make, read, send
from support.waiting import wait_until, wait_until_is

from rmq.client.blocking.admin import group_progress
from rmq.client.blocking.cluster import Cluster


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{at}".encode() for at in range(count)]


def stream(spark, broker: BrokerProcess, topic: str | None, **options: object):
    reader = spark.readStream.format("rmq").option("nameserver", broker.namesrv)
    defaults = {"startingOffsets": "earliest", "columns": "queueId,body"}
    if topic is not None:
        defaults["topic"] = topic
    return reader.options(**{**defaults, **options}).load()


def to_files(frame: Any, folder: Path, **trigger: object) -> Any:
    """A query that writes JSON files, with its checkpoint beside them."""
    text = frame.selectExpr("cast(body as string) as body")
    writer = text.writeStream.format("json").option("checkpointLocation", str(folder / "point"))
    return writer.trigger(**trigger).start(str(folder / "out"))


def written(spark, folder: Path) -> list[bytes]:
    rows = spark.read.schema("body string").json(str(folder / "out")).collect()
    return sorted(row.body.encode() for row in rows)


def run_now(frame: Any, folder: Path) -> list[dict[str, Any]]:
    """Reads everything there is, in as many batches as the limits make; returns their progress."""
    query = to_files(frame, folder, availableNow=True)
    assert query.awaitTermination(240)
    assert query.exception() is None
    return [json.loads(each.json) for each in query.recentProgress if each.numInputRows]


def test_available_now_reads_all_in_batches_of_the_size_asked_for(
    spark, broker: BrokerProcess, topic, tmp_path: Path
) -> None:
    sent = numbered(70, "a") + numbered(30, "b")
    fill(broker, topic, {0: numbered(70, "a"), 1: numbered(30, "b")})
    progress = run_now(stream(spark, broker, topic, maxOffsetsPerTrigger=50), tmp_path)
    assert [each["numInputRows"] for each in progress] == [50, 50]
    end = progress[-1]["sources"][0]["endOffset"]
    assert end == {topic: {"broker-a": {"0": 70, "1": 30}}}
    assert written(spark, tmp_path) == sorted(sent)
    # The query goes on where the checkpoint ended, whatever startingOffsets says.
    send(broker, topic, [b"more"])
    assert len(run_now(stream(spark, broker, topic), tmp_path)) == 1
    assert written(spark, tmp_path) == sorted([*sent, b"more"])


def test_bytes_limit_a_batch_too(spark, broker: BrokerProcess, topic, tmp_path: Path) -> None:
    fill(broker, topic, {0: [b"%04d" % at * 250 for at in range(60)]})
    progress = run_now(stream(spark, broker, topic, maxBytesPerTrigger="24k"), tmp_path)
    assert all(each["numInputRows"] <= 24 for each in progress)
    assert sum(each["numInputRows"] for each in progress) == 60


def test_new_queues_and_topics_are_found_while_the_query_runs(
    spark, broker: BrokerProcess, topic, tmp_path: Path
) -> None:
    name = topic[:40]
    fill(broker, f"{name}-1", {0: [b"first"]})
    frame = stream(spark, broker, None, subscribePattern=f"{name}-.*")
    query = to_files(frame, tmp_path, processingTime="200 milliseconds")
    try:
        query.processAllAvailable()
        make(broker, f"{name}-1", 3)
        fill(broker, f"{name}-1", {2: [b"new queue"]})
        fill(broker, f"{name}-2", {0: [b"new topic"]})
        wait_until(lambda: len(written(spark, tmp_path)) >= 3)
    finally:
        query.stop()
    assert written(spark, tmp_path) == [b"first", b"new queue", b"new topic"]


def test_a_batch_waits_for_the_least_that_was_asked_for(
    spark, broker: BrokerProcess, topic, tmp_path: Path
) -> None:
    fill(broker, topic, {0: [b"first"]})
    frame = stream(spark, broker, topic, minOffsetsPerTrigger=5, maxTriggerDelay="1h")
    query = to_files(frame, tmp_path, processingTime="100 milliseconds")
    try:
        query.processAllAvailable()
        send(broker, topic, numbered(3))
        time.sleep(1)
        send(broker, topic, numbered(2, "x"))
        # A batch is written before Spark reports it; a query that is stopped in between does not
        # report it.
        wait_until(lambda: sum(rows_of(query)) >= 6)
    finally:
        query.stop()
    assert len(written(spark, tmp_path)) == 6
    assert rows_of(query) == [1, 5]


def rows_of(query: Any) -> list[int]:
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]


def test_the_brokers_are_told_what_is_processed(
    spark, broker: BrokerProcess, topic, tmp_path: Path
) -> None:
    fill(broker, topic, {0: numbered(8), 1: numbered(4)})
    frame = stream(spark, broker, topic, group="sparkling", commitOffsets="true")
    run_now(frame, tmp_path)
    with Cluster(broker.namesrv) as cluster:

        def told() -> dict[int, tuple[int, int]]:
            rows, _ = group_progress(cluster, "sparkling")
            return {row.queue.queue_id: (row.consumer_offset, row.lag) for row in rows
                    if row.queue.topic == topic}  # fmt: skip

        wait_until_is(told, lambda found: found == {0: (8, 0), 1: (4, 0)})
    again = {"group": "sparkling", "startingOffsets": "group"}
    assert read(spark, broker, topic, **again).count() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"commitOffsets": "true"}, "option commitOffsets=true needs option group"),
        ({"endingOffsets": "latest"}, "option endingOffsets does not count for stream"),
        ({"columns": "bdy"}, "there is no column bdy"),
    ],
)
def test_wrong_options_of_a_stream_are_the_last_thing_that_is_said(
    spark, broker: BrokerProcess, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    """Spark's runner fails with an error of its own if there is no reader, so there must be one
    that reports the wrong option."""
    with pytest.raises(Exception) as caught:
        run_now(stream(spark, broker, "any", **options), tmp_path)
    assert said in str(caught.value)
    assert "UnboundLocalError" not in str(caught.value)


def test_rows_written_to_a_topic_are_messages(spark, broker: BrokerProcess, topic) -> None:
    make(broker, topic, 2)
    frame = spark.sql(
        "select cast(concat('b', id) as binary) body, 'paid' tags, concat('k', id) keys,"
        " map('color', 'red') properties, concat('s', id % 3) shardingKey from range(40)"
    )
    writer = frame.write.format("rmq").mode("append").option("nameserver", broker.namesrv)
    writer.option("topic", topic).save()
    rows = read(spark, broker, topic).collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(b"b%d" % at for at in range(40))
    assert {(row.tags, row.properties["color"]) for row in rows} == {("paid", "red")}
    by_key: dict[str, set[int]] = {}
    for row in rows:
        by_key.setdefault(row.properties["__SHARDINGKEY"], set()).add(row.queueId)
    assert {key: len(queues) for key, queues in by_key.items()} == {"s0": 1, "s1": 1, "s2": 1}
    assert len({row.uniqueKey for row in rows}) == 40


def test_a_batch_that_is_written_again_has_the_same_unique_keys(
    spark, broker: BrokerProcess, topic, tmp_path: Path
) -> None:
    from rmq.spark.repeats import drop_repeats

    fill(broker, topic, {0: numbered(20)})
    target = f"{topic[:60]}-out"
    make(broker, target, 2)
    frame = stream(spark, broker, topic).select("body")
    for run in ("one", "two"):
        writer = frame.writeStream.format("rmq").option("nameserver", broker.namesrv)
        writer = writer.option("topic", target).option("idPrefix", "job")
        query = writer.option("checkpointLocation", str(tmp_path / run)).trigger(
            availableNow=True
        ).start()  # fmt: skip
        assert query.awaitTermination(240)
        assert query.exception() is None
    twice = read(spark, broker, target)
    assert twice.count() == 40
    assert bodies(drop_repeats(twice)) == sorted(numbered(20))


def test_a_transactional_batch_is_seen_when_it_commits_and_never_when_it_fails(
    spark, broker: BrokerProcess, topic
) -> None:
    make(broker, topic, 1)
    frame = spark.range(30).selectExpr("cast(id as string) body")
    options = {"nameserver": broker.namesrv, "topic": topic, "transactional": "true"}
    frame.write.format("rmq").mode("append").options(**options).save()
    assert bodies(read(spark, broker, topic)) == sorted(str(at).encode() for at in range(30))
    failing = spark.range(30).selectExpr(
        "if(id = 29, raise_error('on purpose'), cast(id as string)) body"
    )
    with pytest.raises(Exception, match="on purpose"):
        failing.write.format("rmq").mode("append").options(**options).save()
    assert read(spark, broker, topic).count() == 30


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select 1 body", "column body is int, it must be binary or string"),
        ("select 'x' bdy", "column bdy has no meaning in a message"),
        ("select 'x' tags", "there is no column body"),
        ("select cast(null as string) body", "a row without body"),
        ("select if(id = 5, '', 'x') body from range(9)", "a row with an empty body"),
    ],
)
def test_frames_that_are_no_messages_are_refused(
    spark, broker: BrokerProcess, query: str, said: str
) -> None:
    writer = spark.sql(query).write.format("rmq").mode("append")
    with pytest.raises(Exception) as caught:
        writer.option("nameserver", broker.namesrv).option("topic", "refused").save()
    assert said in str(caught.value)
