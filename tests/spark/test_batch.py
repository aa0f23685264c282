"""A batch read on real Spark: which rows come, with which offsets, from which partitions."""

import datetime
import time

import pytest
from support.broker_process import BrokerProcess
from support.spark_topics import bodies, fill, make, read, send, send_as_batch
from support.waiting import next_ms


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{at}".encode() for at in range(count)]


def test_every_message_is_a_row_with_all_its_columns(spark, broker: BrokerProcess, topic) -> None:
    before = datetime.datetime.now() - datetime.timedelta(seconds=2)
    fill(broker, topic, {0: [b"one"], 1: [b"two", b"three"]}, tags="paid", keys="k1 k2",
         properties={"region": "north", "größe": "µ"})  # fmt: skip
    rows = {row.body: row for row in read(spark, broker, topic).collect()}
    assert {bytes(body): (row.queueId, row.queueOffset) for body, row in rows.items()} == {
        b"one": (0, 0), b"two": (1, 0), b"three": (1, 1),
    }  # fmt: skip
    row = rows[b"three"]
    assert (row.topic, row.brokerName, row.tags, row.keys) == (topic, "broker-a", "paid", "k1 k2")
    assert row.properties["region"] == "north"
    assert row.properties["größe"] == "µ"
    assert row.uniqueKey == row.properties["UNIQ_KEY"]
    assert len(row.msgId) == 32
    assert row.bornHost.startswith("127.0.0.1:")
    assert row.storeHost == broker.address
    assert before < row.storeTimestamp < datetime.datetime.now() + datetime.timedelta(hours=26)
    assert (row.reconsumeTimes, row.flag, row.sysFlag) == (0, 0, 0)


def test_a_frame_read_twice_gives_the_same_rows_whatever_comes_in_between(
    spark, broker: BrokerProcess, topic
) -> None:
    fill(broker, topic, {0: numbered(5)})
    frame = read(spark, broker, topic)
    assert frame.count() == 5
    send(broker, topic, [b"later"])
    assert frame.count() == 5
    assert read(spark, broker, topic).count() == 6


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"T":{"broker-a":{"0":3}}}'}, 7 + 4),
        ({"startingOffsets": '{"T":{"0":3,"1":-1}}'}, 7),
        ({"startingOffsets": "earliest", "endingOffsets": '{"T":{"0":2,"1":-1}}'}, 2 + 4),
        ({"assign": '{"T":{"broker-a":[1]}}'}, 4),
        ({"assign": '{"T":[0]}'}, 10),
        ({"subscribePattern": "T"}, 14),
        ({"startingTimestamp": "1"}, 14),
        ({"endingTimestamp": "1"}, 0),
        ({"group": "never-seen", "startingOffsets": "group"}, 14),
    ],
)
def test_offsets_and_queues_are_chosen_by_options(
    spark, broker: BrokerProcess, options: dict[str, str], expected: int
) -> None:
    topic = "chosen"
    if not hasattr(broker, "chosen_filled"):
        fill(broker, topic, {0: numbered(10), 1: numbered(4)})
        broker.chosen_filled = True  # type: ignore[attr-defined]
    options = {key: value.replace("T", topic) for key, value in options.items()}
    reader = spark.read.format("rmq").option("nameserver", broker.namesrv).options(**options)
    if not {"assign", "subscribePattern"} & set(options):
        reader = reader.option("subscribe", topic)
    assert reader.load().count() == expected


def test_a_time_between_two_sends_parts_them(spark, broker: BrokerProcess, topic) -> None:
    fill(broker, topic, {0: numbered(3, "old")})
    middle = next_ms()
    send(broker, topic, numbered(2, "new"))
    assert bodies(read(spark, broker, topic, startingTimestamp=middle)) == [b"new0", b"new1"]
    assert read(spark, broker, topic, endingTimestamp=middle).count() == 3
    late = int(time.time() * 1000) + 60_000
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy=latest"):
        read(spark, broker, topic, startingTimestamp=late).count()
    options = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert read(spark, broker, topic, **options).count() == 0


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({}, 2),
        ({"minPartitions": 6}, 6),
        ({"maxRecordsPerPartition": 10}, 10),
        ({"maxPartitions": 1}, 1),
        ({"maxBytesPerPartition": "2k"}, None),
    ],
)
def test_partitions_follow_queues_and_options_and_lose_nothing(
    spark, broker: BrokerProcess, options: dict[str, object], partitions: int | None
) -> None:
    topic = "partitions"
    if not hasattr(broker, "partitions_filled"):
        make(broker, topic, 4)
        fill(broker, topic, {0: numbered(50, "a"), 1: numbered(50, "b"), 3: []})
        broker.partitions_filled = True  # type: ignore[attr-defined]
    frame = read(spark, broker, topic, **options)
    assert bodies(frame) == sorted(numbered(50, "a") + numbered(50, "b"))
    found = frame.rdd.getNumPartitions()
    assert found == partitions if partitions is not None else found > 4


def test_tags_are_compared_by_text_and_not_by_hash(spark, broker: BrokerProcess, topic) -> None:
    """In Java "Aa" and "BB" have the same hash."""
    fill(broker, topic, {0: [b"first"]}, tags="Aa")
    send(broker, topic, [b"second"], tags="BB")
    send(broker, topic, [b"third"], tags="c")
    assert bodies(read(spark, broker, topic, tags="Aa")) == [b"first"]
    assert bodies(read(spark, broker, topic, subExpression="BB || c")) == [b"second", b"third"]
    assert read(spark, broker, topic, tags="none").count() == 0


def test_sql_filters_are_applied_by_the_broker(spark, broker: BrokerProcess, topic) -> None:
    for at in range(6):
        fill(broker, topic, {0: [b"%d" % at]}, properties={"size": str(at), "color": "red"})
    frame = read(spark, broker, topic, sql="size >= 4 AND color = 'red' OR size = 0")
    assert bodies(frame) == [b"0", b"4", b"5"]
    with pytest.raises(Exception, match="code 23"):
        read(spark, broker, topic, sql="size >").count()


def test_columns_are_pruned_by_option_and_by_schema(spark, broker: BrokerProcess, topic) -> None:
    fill(broker, topic, {0: [b"text"]})
    assert read(spark, broker, topic, columns="body,queueoffset").columns == ["body", "queueOffset"]
    assert "body" not in read(spark, broker, topic, includeBody="false").columns
    reader = spark.read.format("rmq").option("nameserver", broker.namesrv).option("topic", topic)
    frame = reader.schema("queueOffset bigint, body string").load()
    assert [tuple(row) for row in frame.collect()] == [(0, "text")]


def test_the_schema_of_kafka_moves_a_job_by_its_format(spark, broker: BrokerProcess, topic) -> None:
    fill(broker, topic, {1: [b"v"]}, keys="k", properties={"h": "x"})
    frame = read(spark, broker, topic, schema="kafka", includeHeaders="true")
    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    (row,) = frame.selectExpr("cast(key as string)", "cast(value as string)", "topic", "partition",
                              "offset", "headers").collect()  # fmt: skip
    assert tuple(row)[:5] == ("k", "v", topic, 1, 0)
    assert ("h", b"x") in [(each.key, bytes(each.value)) for each in row.headers]


def test_bodies_of_0_bytes_to_4_mib_are_written_and_read_from_the_broker_and_its_files(
    spark, broker: BrokerProcess, topic
) -> None:
    make(broker, topic, 1)
    frame = spark.sql("select repeat('z', s.n) body from values (4194304), (100000), (1) as s(n)")
    writer = frame.write.format("rmq").mode("append").option("nameserver", broker.namesrv)
    writer.option("topic", topic).save()
    send_as_batch(broker, topic, [b"", b"small", b""])
    sent = sorted([b"", b"", b"small", b"z", b"z" * 100_000, b"z" * (4 << 20)])
    files = spark.read.format("rmq").options(path=str(broker.store), topic=topic)
    for found in (read(spark, broker, topic), files.load()):
        assert bodies(found) == sent
    for reader in (spark.read.format("rmq").options(nameserver=broker.namesrv, topic=topic), files):
        marked = reader.option("mode", "permissive").load()
        assert marked.where("body is null or _corrupt is not null").count() == 0
    kafka = read(spark, broker, topic, schema="kafka")
    assert sorted(row[0] for row in kafka.selectExpr("length(value)").collect()) == [
        0, 0, 1, 5, 100_000, 4 << 20,
    ]  # fmt: skip


def test_filters_narrow_the_plan_and_spark_still_applies_them(
    spark, broker: BrokerProcess, topic
) -> None:
    fill(broker, topic, {0: numbered(20), 1: numbered(20)})
    frame = read(spark, broker, topic, pushdown="true")
    chosen = frame.where("queueId = 1 and queueOffset >= 5 and queueOffset < 8")
    assert chosen.rdd.getNumPartitions() == 1
    assert [row.queueOffset for row in chosen.collect()] == [5, 6, 7]
    assert frame.where("tags = 'none'").count() == 0
    assert frame.where("storeTimestamp > timestamp'2001-01-01'").count() == 40


def test_sql_reads_a_topic_as_a_view(spark, broker: BrokerProcess, topic) -> None:
    fill(broker, topic, {0: numbered(3)})
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW messages USING rmq"
        f" OPTIONS (nameserver '{broker.namesrv}', topic '{topic}')"
    )
    assert spark.sql("SELECT max(queueOffset) FROM messages").collect()[0][0] == 2


def test_a_table_that_could_not_be_read_is_not_created(spark, broker: BrokerProcess) -> None:
    """Spark 4.2 gives a reader in Python none of the options with which the table was created."""
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE t USING rmq OPTIONS (nameserver '{broker.namesrv}', topic 't')")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "x"}, "option nameserver is missing"),
        ({"nameserver": "N"}, "no topic: give topic"),
        ({"nameserver": "N", "topic": "x", "subscribePattern": "y"}, "give only one of them"),
        ({"nameserver": "N", "topic": "absent-topic"}, "topic absent-topic does not exist"),
        ({"nameserver": "N", "topic": "x", "minPartition": "2"}, "did you mean minPartitions"),
        ({"nameserver": "N", "topic": "x", "minPartitions": "0"}, "option minPartitions='0'"),
        ({"nameserver": "N", "topic": "x", "startingOffsets": "latest"}, "read nothing"),
        ({"nameserver": "N", "topic": "x", "columns": "bdy"}, "there is no column bdy"),
        ({"kafka.bootstrap.servers": "h:1", "topic": "x"}, "is Kafka's: give nameserver"),
        ({"nameserver": "h:1", "topic": "x", "planTimeoutMs": "9"}, "no name server answers"),
        ({"nameserver": "N", "topic": "x", "startingOffsets": "soon"}, "give earliest, latest"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(
    spark, broker: BrokerProcess, options: dict[str, str], said: str
) -> None:
    options = {key: broker.namesrv if value == "N" else value for key, value in options.items()}
    with pytest.raises(Exception) as caught:
        spark.read.format("rmq").options(**options).load().count()
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_only_errors_that_say_everything_come_without_a_traceback(
    spark, broker: BrokerProcess, topic
) -> None:
    """An error of a task has no traceback if the source refuses a row, and has one if a user's
    function fails."""
    fill(broker, topic, {0: numbered(3)})
    rows = read(spark, broker, topic).selectExpr("cast(null as string) as body")
    writer = rows.write.format("rmq").mode("append")
    with pytest.raises(Exception) as refused:
        writer.options(nameserver=broker.namesrv, topic=topic).save()
    assert "BadRowError: row 0: a row without body" in str(refused.value)
    assert "Traceback (most recent call last)" not in str(refused.value)
    with pytest.raises(Exception) as failed:
        read(spark, broker, topic).rdd.map(lambda row: row.queueOffset // 0).collect()
    assert "Traceback (most recent call last)" in str(failed.value)
    assert "ZeroDivisionError" in str(failed.value)


def test_offsets_that_are_gone_fail_or_are_passed_over(spark, broker: BrokerProcess, topic) -> None:
    fill(broker, topic, {0: numbered(3)})
    future = f'{{"{topic}":{{"0":99}}}}'
    with pytest.raises(Exception, match="it has 0 to 3"):
        read(spark, broker, topic, startingOffsets=future).count()
    frame = read(spark, broker, topic, startingOffsets=future, failOnDataLoss="false")
    assert frame.count() == 0
