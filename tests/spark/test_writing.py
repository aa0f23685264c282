"""Rows that say themselves to which topic they go, when, and with which properties."""

import datetime
import time
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess
from support.reading import read_all
from support.spark_topics import fill, make, read
from support.waiting import wait_until_is


def write(spark, broker: BrokerProcess, query: str, **options: object) -> None:
    writer = spark.sql(query).write.format("rmq").mode("append")
    writer.options(nameserver=broker.namesrv, **options).save()


def test_a_row_names_its_topic_its_keys_and_its_properties(
    spark, broker: BrokerProcess, topic
) -> None:
    """The option topic is only for rows that name no topic."""
    first, second = f"{topic[:50]}-1", f"{topic[:50]}-2"
    for each in (first, second):
        make(broker, each, 1)
    write(
        spark, broker,
        f"select 'a' body, '{second}' topic, array('k1', 'k2') keys, map('p', 'q', 'r', 's')"
        " properties union all select 'b', null, null, null",
        topic=first,
    )  # fmt: skip
    (other,) = read_all(broker.namesrv, second)
    assert (other.body, other.properties["KEYS"]) == (b"a", "k1 k2")
    assert {"p": "q", "r": "s"}.items() <= other.properties.items()
    (mine,) = read(spark, broker, first).collect()
    assert (bytes(mine.body), mine.keys, mine.tags) == (b"b", None, None)


def test_properties_that_were_read_make_no_repeats_of_new_messages(
    spark, broker: BrokerProcess, topic, tmp_path: Path
) -> None:
    """With the unique key of the message that was read, a row would be taken for one that is
    committed already."""
    source, target = f"{topic[:50]}-1", f"{topic[:50]}-2"
    fill(broker, source, {0: [b"%d" % at for at in range(20)]}, tags="paid")
    make(broker, target, 2)
    given = {"nameserver": broker.namesrv, "topic": source, "startingOffsets": "earliest"}
    reader = spark.readStream.format("rmq").options(**given, columns="body,properties")
    for run in ("one", "two"):
        writer = reader.load().writeStream.format("rmq").trigger(availableNow=True)
        writer.options(nameserver=broker.namesrv, topic=target, transactional="true")
        query = writer.option("checkpointLocation", str(tmp_path / run)).start()
        assert query.awaitTermination(240)
        assert query.exception() is None
    rows = read(spark, broker, target).collect()
    assert sorted(bytes(row.body) for row in rows) == sorted([b"%d" % at for at in range(20)] * 2)
    assert {row.tags for row in rows} == {"paid"}
    keys = {row.uniqueKey for row in rows}
    assert len(keys) == 40
    assert not keys & {row.uniqueKey for row in read(spark, broker, source).collect()}


def test_properties_of_a_message_that_was_timed_are_left_out(
    spark, broker: BrokerProcess, topic
) -> None:
    """The copy is delivered at once; the sender's own properties, its tag and its sharding key
    stay."""
    make(broker, topic, 4)
    write(
        spark, broker,
        "select concat('b', id) body, map('TIMER_DELIVER_MS', '9', 'TIMER_OUT_MS', '9', 'DELAY',"
        " '3', 'REAL_TOPIC', 'x', 'p', 'q', 'TAGS', 'paid', '__SHARDINGKEY', 's') properties"
        " from range(4)",
        topic=topic,
    )  # fmt: skip
    found = read_all(broker.namesrv, topic)
    assert sorted(each.body for each in found) == [b"b0", b"b1", b"b2", b"b3"]
    assert len({each.queue_id for each in found}) == 1
    kept = {"p": "q", "TAGS": "paid", "__SHARDINGKEY": "s"}
    for each in found:
        assert kept.items() <= each.properties.items()
        assert not {"TIMER_DELIVER_MS", "TIMER_OUT_MS", "DELAY"} & each.properties.keys()


def test_delayed_rows_are_seen_when_it_is_time_for_them(
    spark, broker: BrokerProcess, topic
) -> None:
    make(broker, topic, 1)
    began = int(time.time() * 1000)
    due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
    write(
        spark, broker,
        "select 'level' body, 1 delay, cast(null as timestamp) deliverAt"
        f" union all select 'time', null, timestamp'{due.isoformat()}'"
        " union all select 'now', null, null",
        topic=topic,
    )  # fmt: skip
    found = wait_until_is(lambda: read_all(broker.namesrv, topic), lambda found: len(found) == 3)
    stored = {each.body: each.store_timestamp for each in found}
    assert set(stored) == {b"level", b"time", b"now"}
    assert stored[b"time"] >= int(due.timestamp() * 1000)
    assert stored[b"level"] >= began + 900  # the tasks with the rows begin at different times


def test_what_a_sink_cannot_do_is_refused_with_the_remedy(
    spark, broker: BrokerProcess, topic
) -> None:
    frame = spark.sql("select 'x' body")
    given = {"nameserver": broker.namesrv, "topic": topic}
    for mode, more, said in (
        ("overwrite", {}, 'a topic cannot be overwritten: write with mode("append")'),
        ("append", {"topic": "a,b"}, "for several use a column topic"),
        ("append", {"startingOffsets": "earliest"}, "startingOffsets does not count for write"),
        ("append", {"nameserver": "127.0.0.1:1", "pollTimeoutMs": "9"}, "no name server answers"),
    ):
        with pytest.raises(Exception) as caught:
            frame.write.format("rmq").mode(mode).options(**{**given, **more}).save()
        assert said in str(caught.value)


def test_kafkas_columns_are_written_as_they_are_read(spark, broker: BrokerProcess, topic) -> None:
    """A job that wrote to Kafka only changes the format; it reads back what it wrote."""
    make(broker, topic, 4)
    write(
        spark, broker,
        f"""select cast('k' as binary) key, concat('v', id) value, '{topic}' topic,
        cast(null as int) partition, array(named_struct('key', 'h', 'value', cast('x' as binary)))
        headers from range(0, 20, 1, 3)
        union all select null, 'pinned', '{topic}', 3, null""",
        schema="kafka",
    )  # fmt: skip
    rows = (
        spark.read.format("rmq").option("nameserver", broker.namesrv).option("topic", topic)
        .option("schema", "kafka").option("includeHeaders", True).load().collect()
    )  # fmt: skip
    assert len(rows) == 21
    keyed = [each for each in rows if each.key is not None]
    assert len({each.partition for each in keyed}) == 1, "rows of one key go to one queue"
    assert {bytes(each.value) for each in keyed} == {b"v%d" % at for at in range(20)}
    assert {bytes(each.key) for each in keyed} == {b"k"}
    assert all(("h", b"x") in [(each.key, bytes(each.value)) for each in row.headers]
               for row in keyed)  # fmt: skip
    (pinned,) = (each for each in rows if each.key is None)
    assert (pinned.partition, bytes(pinned.value)) == (3, b"pinned")


UNFIT = (
    ("select 'v' value, unhex('ff') key", "row 0: key is no UTF-8 text"),
    ("select 'v' value, array(named_struct('key','h','value',cast(null as binary))) headers",
     "row 0: header h has no value"),
    ("select 'v' value, array(named_struct('key','h','value',cast('1' as binary)),"
     "named_struct('key','h','value',cast('2' as binary))) headers", "header h is there twice"),
    ("select 'v' value, '' key", "row 0: an empty key"),
    ("select 'v' value, 65536 partition", "has no partition 65536 that can be written"),
    ("select 'v' value, 4 partition", "has no partition 4 that can be written"),
    ("select 'v' value, -1 partition", "partition -1: 0 or more"),
    ("select cast(null as binary) value", "row 0: a row without body"),
    ("select 'v' body", "column body has no meaning in a message; there are value, key"),
)  # fmt: skip


def test_what_kafka_takes_and_a_message_cannot_hold_is_refused(
    spark, broker: BrokerProcess, topic
) -> None:
    make(broker, topic, 4)
    for query, said in UNFIT:
        with pytest.raises(Exception) as caught:
            write(spark, broker, query, topic=topic, schema="kafka")
        assert said in str(caught.value), query
