"""Rows that say themselves where they go, when, and with what."""

import datetime
import time

import pytest
from support.broker_process import BrokerProcess
from support.reading import read_all
from support.spark_topics import make, read
from support.waiting import HANG_S


def write(spark, broker: BrokerProcess, query: str, **options: object) -> None:
    writer = spark.sql(query).write.format("rmq").mode("append")
    writer.options(nameserver=broker.namesrv, **options).save()


def test_a_row_names_its_topic_its_keys_and_its_properties(
    spark, broker: BrokerProcess, topic
) -> None:
    """The option topic is for the rows that name none."""
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
    deadline = time.monotonic() + HANG_S
    while len(found := read_all(broker.namesrv, topic)) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    stored = {each.body: each.store_timestamp for each in found}
    assert set(stored) == {b"level", b"time", b"now"}
    assert stored[b"time"] >= int(due.timestamp() * 1000)
    assert stored[b"level"] >= began + 900  # the rows are of tasks that begin at different times


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
