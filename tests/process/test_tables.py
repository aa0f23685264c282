"""Goal: Arrow tables of topics and stores have every message once, whole and in order, with the
columns, ranges and filters of the Spark source, and pandas, polars and DuckDB take them.

Method: a broker filled by the client, a broker that is killed, a store with a flipped bit. Cannot
prove: speed, which bench/tables.py measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support.broker_pair import SMALL, Pair
from support.broker_process import BrokerProcess, broker_process
from support.spark_topics import fill, make, producer

import rmq
from rmq.arrow.options import OptionError
from rmq.arrow.queues import DataLossError
from rmq.arrow.read_plan import DamagedMessageError
from rmq.errors import ConfigError, RmqError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.own_properties import OWN_PROPERTIES

pa = pytest.importorskip("pyarrow")

COUNT = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("tables"), SMALL) as started:
        bodies = {queue: [b"%d:%d" % (queue, at) for at in range(COUNT)] for queue in range(3)}
        fill(started, "orders", bodies, tags="paid", keys="k1 k2", properties={"region": "eu"})
        fill(started, "others", {0: [b"x" * 5000] * 50}, tags="late")
        make(started, "empty")
        yield started


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
    monkeypatch.setattr("rmq.arrow.tables.PART_BYTES", 1 << 12)  # many small parts


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_topic_comes_whole_and_in_order(threads: int) -> None:
    table = rmq.read_table("orders", threads=threads)
    assert table.num_rows == 3 * COUNT
    wanted = [(queue, at, b"%d:%d" % (queue, at)) for queue in range(3) for at in range(COUNT)]
    names = ("queueId", "queueOffset", "body")
    assert list(zip(*(table[name].to_pylist() for name in names), strict=True)) == wanted
    row = table.slice(0, 1).to_pylist()[0]
    assert (row["topic"], row["brokerName"], row["tags"], row["keys"]) == (
        "orders", "broker-a", "paid", "k1 k2")  # fmt: skip
    assert dict(row["properties"])["region"] == "eu"
    assert datetime.now(timezone.utc) - row["storeTimestamp"] < timedelta(hours=1)


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_as_large_as_is_asked_for(threads: int) -> None:
    reader = rmq.read_batches("orders", columns=["body"], batch_rows=100, threads=threads)
    assert reader.schema == pa.schema([("body", pa.binary())])
    sizes = [each.num_rows for each in reader]
    assert sum(sizes) == 3 * COUNT and max(sizes) <= 100


def test_several_topics_and_a_pattern() -> None:
    both = rmq.read_table(["orders", "others"], columns=["topic"])
    assert both["topic"].value_counts().to_pylist() == [
        {"values": "orders", "counts": 3 * COUNT}, {"values": "others", "counts": 50}]  # fmt: skip
    assert rmq.read_table(subscribe_pattern="o.*s", columns=["topic"]).equals(both)


def test_nothing_is_a_table_of_no_rows() -> None:
    table = rmq.read_table("empty")
    assert table.num_rows == 0 and "body" in table.column_names


def test_offsets_and_tags_and_sql() -> None:
    def count(**given: object) -> int:
        return int(rmq.read_table(columns=["queueOffset"], **given).num_rows)

    one = {"orders": {"broker-a": [1]}}
    assert count(assign=one, starting_offsets={"orders": {1: 10}}) == COUNT - 10
    assert count(assign=one, ending_offsets={"orders": {"broker-a": {1: 7}}}) == 7
    assert count(topic="orders", tags=["paid", "other"]) == 3 * COUNT
    assert count(topic="orders", tags="other") == 0
    assert count(topic="orders", sql="region = 'eu' AND TAGS = 'paid'") == 3 * COUNT
    assert count(topic="orders", sql="region = 'us'") == 0


def test_times(broker: BrokerProcess) -> None:
    make(broker, "timed", 1)
    with producer(broker) as sender:
        for at in range(3):
            sender.send(
                rmq.Message("timed", b"%d" % at), queue=MessageQueue("timed", "broker-a", 0)
            )
    times = rmq.read_table("timed", columns=["storeTimestamp"])["storeTimestamp"].to_pylist()
    from_last = rmq.read_table("timed", starting_timestamp=times[-1], columns=["storeTimestamp"])
    assert from_last["storeTimestamp"].to_pylist() == [each for each in times if each >= times[-1]]
    assert rmq.read_table("timed", ending_timestamp=times[0]).num_rows == 0
    later = times[-1] + timedelta(hours=1)
    with pytest.raises(ConfigError, match=r"^starting_timestamp: queue 0 .* nothing stored at"):
        rmq.read_table("timed", starting_timestamp=later)
    empty = rmq.read_table(
        "timed", starting_timestamp=later, starting_offsets_by_timestamp_strategy="latest"
    )
    assert empty.num_rows == 0


def test_text_and_the_columns_of_kafka() -> None:
    table = rmq.read_table("orders", schema="kafka", text=True, include_headers=True)
    assert table.schema.field("value").type == pa.string()
    row = table.slice(0, 1).to_pylist()[0]
    assert (row["key"], row["value"], row["partition"], row["offset"]) == ("k1 k2", "0:0", 0, 0)
    assert {"key": "region", "value": b"eu"} in row["headers"]


def test_other_libraries_take_them_as_they_are() -> None:
    pandas, polars, duckdb = map(pytest.importorskip, ("pandas", "polars", "duckdb"))
    names = ["queueId", "queueOffset", "body"]
    table = rmq.read_table("orders", columns=names)
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 3 * COUNT
    assert frame.groupby("queueId")["queueOffset"].max().tolist() == [COUNT - 1] * 3
    found = polars.from_arrow(table)
    assert found.shape == (3 * COUNT, 3) and found["body"][0] == b"0:0"
    orders = rmq.read_batches("orders", columns=names)
    total = duckdb.sql("SELECT sum(queueOffset) FROM orders WHERE queueId = 2").fetchall()
    assert total == [(COUNT * (COUNT - 1) // 2,)] and orders is not None


def test_who_only_counts_has_numbers_alone(broker: BrokerProcess) -> None:
    """Offsets, times and sizes of bodies can be read alone, as numpy arrays. The column bodySize
    agrees with the bodies, and is there only if it is asked for."""
    names = ["queueId", "queueOffset", "storeTimestamp", "bodySize"]
    table = rmq.read_table("orders", columns=names)
    whole = rmq.read_table("orders")
    assert "bodySize" not in whole.column_names
    queues, offsets, times, sizes = (table[name].to_numpy() for name in names)
    assert sizes.tolist() == [len(body) for body in whole["body"].to_pylist()]
    assert [each.dtype.kind for each in (queues, offsets, times, sizes)] == ["i", "i", "M", "i"]
    stored = rmq.scan_store(broker.store, "orders", columns=names).read_all()
    order = [("queueId", "ascending"), ("queueOffset", "ascending")]
    assert stored.sort_by(order).equals(table.sort_by(order))


def places(column: Any) -> list[int]:
    """The address of each part's values; of texts and bytes, the address of their characters."""
    return [part.buffers()[-1].address for part in column.chunks]


def view_places(array: Any) -> set[int]:
    """The addresses of the buffers behind an array of views, which may lie in any order."""
    return {buffer.address for buffer in array.buffers()[2:] if buffer is not None}


def test_libraries_read_where_the_reader_has_written() -> None:
    """pandas, polars and numpy use the buffers of the table: nothing is copied on the way."""
    pandas, polars = map(pytest.importorskip, ("pandas", "polars"))
    fixed = ["queueId", "queueOffset", "storeTimestamp"]
    table = rmq.read_table("others", columns=[*fixed, "body"])
    assert table["body"].num_chunks > 1, "a part is no whole"

    frame = polars.from_arrow(table, rechunk=False)
    for name in fixed:
        parts = [part.to_arrow() for part in frame[name].get_chunks()]
        assert [part.buffers()[-1].address for part in parts] == places(table[name]), name
    bodies = [part.to_arrow(compat_level=polars.CompatLevel.newest())
              for part in frame["body"].get_chunks()]  # fmt: skip
    assert set().union(*map(view_places, bodies)) == set(places(table["body"]))

    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    for name in (*fixed, "body"):
        assert places(frame[name].array.__arrow_array__()) == places(table[name]), name
    assert frame["body"][0] == b"x" * 5000

    for name in ("queueId", "queueOffset"):
        numbers = [part.to_numpy(zero_copy_only=True) for part in table[name].chunks]
        found = [each.__array_interface__["data"][0] for each in numbers]
        assert found == places(table[name]), name


def test_duckdb_reads_a_table_where_it_lies() -> None:
    """DuckDB does not show where it reads: it gets a memory that the table does not fit in."""
    duckdb = pytest.importorskip("duckdb")
    table = rmq.read_table("others", columns=["queueOffset", "body"])
    many = pa.concat_tables([table] * 200)  # the same buffers, 200 times: 50 MB to who copies them
    limit_bytes = 16_000_000
    assert many.nbytes > 3 * limit_bytes
    here = duckdb.connect(config={"memory_limit": f"{limit_bytes}B", "threads": "1",
                                  "temp_directory": ""})  # fmt: skip
    asked = "SELECT count(*), sum(octet_length(body)), count(DISTINCT md5(body)) FROM "
    wanted = [(200 * 50, 200 * 50 * 5000, 1)]
    assert here.sql(asked + "many").fetchall() == wanted
    reader = many.to_reader()
    assert here.sql(asked + "reader").fetchall() == wanted and reader is not None
    with pytest.raises(duckdb.OutOfMemoryException):
        here.sql("CREATE TABLE copied AS SELECT * FROM many")
    here.close()


def test_a_store_without_its_broker_has_the_same(broker: BrokerProcess) -> None:
    names = ["topic", "queueId", "queueOffset", "msgId", "body", "properties", "storeTimestamp"]
    order = [("topic", "ascending"), ("queueId", "ascending"), ("queueOffset", "ascending")]
    asked = rmq.read_table(["orders", "others"], columns=names)
    for threads in (1, 3):
        read = rmq.scan_store(
            broker.store, ["orders", "others"], columns=names, threads=threads
        ).read_all()
        assert read.drop(["properties"]).sort_by(order) == asked.drop(["properties"]).sort_by(order)
        in_log = read.filter(pa.compute.equal(read["topic"], "others"))
        assert in_log["queueOffset"].to_pylist() == list(range(50))
    late = rmq.scan_store(broker.store, tags="late", columns=["topic"]).read_all()
    assert late["topic"].unique().to_pylist() == ["others"]


def test_what_cannot_be_read_is_said(broker: BrokerProcess, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="topic absent does not exist at 127"):
        rmq.read_table("absent")
    with pytest.raises(ConfigError, match="there is no column bodies; there are topic"):
        rmq.read_table("orders", columns=["bodies"])
    for threads in (0, -1, "many"):
        with pytest.raises(OptionError, match=f"threads={threads!r}: give a number from 1 on"):
            rmq.read_table("orders", threads=threads)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="and assign: give only one of them"):
        rmq.read_table("orders", assign={"orders": [1]})
    gone = "^starting_offsets: offset 900 of queue 0 .*; fail_on_data_loss=false takes the nearest"
    with pytest.raises(DataLossError, match=gone):
        rmq.read_table("orders", starting_offsets={"orders": {0: 900}})
    with pytest.raises(ConfigError, match="there is no commitlog in it, so it is no store"):
        rmq.scan_store(tmp_path)
    with pytest.raises(ConfigError, match="topic absent is not in the store"):
        rmq.scan_store(broker.store, "absent")
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        rmq.read_table("orders", namesrv_addr="127.0.0.1:1", plan_timeout_ms=0)


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    try:
        fill(pair.broker, "kept", {0: [b"%d" % at for at in range(300)]})
        reader = rmq.read_batches(
            "kept", namesrv_addr=pair.namesrv, columns=["body"], batch_rows=10, threads=1
        )
        found = next(iter(reader)).to_pylist()
        pair.kill()
        pair.start()
        for batch in reader:
            found += batch.to_pylist()
        assert [each["body"] for each in found] == [b"%d" % at for at in range(300)]
        reader = rmq.read_batches("kept", namesrv_addr=pair.namesrv, poll_timeout_ms=300)
        pair.kill()
        with pytest.raises(UnreachableError, match="given up after poll_timeout_ms=300"):
            reader.read_all()
    finally:
        pair.kill()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_message_is_named_or_shown(tmp_path: Path, threads: int) -> None:
    with broker_process(tmp_path, SMALL) as started:
        fill(started, "t", {0: [b"%d" % at * 1000 for at in range(20)]})
    (log,) = [each for each in (started.store / "commitlog").iterdir() if len(each.name) == 20]
    data = log.read_bytes()
    at = data.index(b"7" * 1000)  # a shorter text may be in an id
    with log.open("r+b") as file:
        file.seek(at + 100)
        file.write(b"8")
    with pytest.raises(DamagedMessageError, match="mode=permissive or mode=dropmalformed reads on"):
        rmq.scan_store(started.store, "t", threads=threads).read_all()
    dropped = rmq.scan_store(started.store, "t", mode="dropmalformed", threads=threads).read_all()
    assert dropped["queueOffset"].to_pylist() == [each for each in range(20) if each != 7]
    shown = rmq.scan_store(started.store, "t", mode="permissive", threads=threads).read_all()
    assert shown.num_rows == 20 and shown["_corrupt"].null_count == 19


COPIED = ["body", "tags", "keys", "properties"]


def same(one: Any, other: Any) -> bool:
    """Whether both tables have the same messages, but for properties that each send makes anew."""

    def plain(table: Any) -> list[Any]:
        rows = [{**row, "properties": dict(row["properties"])} for row in table.to_pylist()]
        for row in rows:
            for name in OWN_PROPERTIES:
                row["properties"].pop(name, None)
        return sorted(rows, key=str)

    return plain(one) == plain(other)


def test_what_is_read_can_be_written_again(broker: BrokerProcess) -> None:
    make(broker, "copy", 4)
    table = rmq.read_table("orders")
    assert rmq.write_table(table, "copy") == 3 * COUNT
    copy = rmq.read_table("copy")
    assert same(copy.select(COPIED), table.select(COPIED))
    assert len(set(copy["uniqueKey"].to_pylist())) == 3 * COUNT
    assert rmq.write_table(rmq.read_batches("orders", columns=["body"]), "copy") == 3 * COUNT


def test_what_is_read_by_kafkas_names_can_be_written_again(broker: BrokerProcess) -> None:
    make(broker, "kafka-copy", 4)
    given: dict[str, Any] = {"schema": "kafka", "include_headers": True}
    table = rmq.read_table("orders", **given)
    assert rmq.write_table(table, "kafka-copy", schema="kafka") == 3 * COUNT
    copy = rmq.read_table("kafka-copy", **given)
    names = ["key", "value", "partition", "offset"]
    order = [(name, "ascending") for name in ("partition", "offset")]
    assert copy.select(names).sort_by(order) == table.select(names).sort_by(order)


def test_frames_of_other_libraries_are_written(broker: BrokerProcess) -> None:
    pandas, polars = map(pytest.importorskip, ("pandas", "polars"))
    make(broker, "frames", 2)
    frame = {"body": ["a", "b"], "tags": ["x", None], "keys": [["k1", "k2"], []]}
    assert rmq.write_table(pandas.DataFrame(frame), "frames") == 2
    assert rmq.write_table(polars.DataFrame(frame), "frames") == 2
    found = rmq.read_table("frames", text=True)
    assert sorted(found["body"].to_pylist()) == ["a", "a", "b", "b"]
    assert found["keys"].to_pylist().count("k1 k2") == 2


def test_frames_as_they_are_in_use(broker: BrokerProcess) -> None:
    """A pandas frame that was filtered, and so has an index of its own, can be written, and so can
    a polars column of categories, which is a dictionary."""
    pandas, polars = map(pytest.importorskip, ("pandas", "polars"))
    make(broker, "used", 1)
    frame = pandas.DataFrame({"body": ["a", "b", "c"], "delay": [None, None, None]})
    assert rmq.write_table(frame[frame.body != "a"], "used") == 2
    frame = polars.DataFrame({"body": ["x", "y"], "tags": ["t", "t"]})
    frame = frame.with_columns(polars.col("tags").cast(polars.Categorical))
    assert rmq.write_table(frame, "used") == 2
    found = rmq.read_table("used", text=True)
    assert found["body"].to_pylist() == ["b", "c", "x", "y"]
    assert found["tags"].to_pylist() == [None, None, "t", "t"]


def test_rows_of_one_sharding_key_stay_together_in_a_copy(broker: BrokerProcess) -> None:
    make(broker, "keyed", 4)
    make(broker, "keyed-copy", 3)
    rows = [{"body": b"%d" % at, "shardingKey": f"k{at % 5}"} for at in range(50)]
    rmq.write_table(pa.Table.from_pylist(rows), "keyed")
    rmq.write_table(rmq.read_table("keyed"), "keyed-copy")
    copy = rmq.read_table("keyed-copy", text=True).to_pylist()
    assert len({(int(row["body"]) % 5, row["queueId"]) for row in copy}) == 5
    for key in range(5):
        mine = [int(row["body"]) for row in copy if int(row["body"]) % 5 == key]
        assert mine == sorted(mine)


def test_bodies_that_are_no_text_are_marked(broker: BrokerProcess) -> None:
    fill(broker, "no-text", {0: [b"\xff\xfea", "grün".encode()]})
    table = rmq.read_table("no-text", text=True)
    assert table["body"].to_pylist() == ["\ufffd\ufffda", "grün"]
    table.validate(full=True)


def test_queues_of_a_store_are_partitions_of_their_own(broker: BrokerProcess) -> None:
    given: dict[str, Any] = {"schema": "kafka", "columns": ["partition", "offset"]}
    order = [("partition", "ascending"), ("offset", "ascending")]
    stored = rmq.scan_store(broker.store, "orders", **given).read_all()
    assert stored.sort_by(order) == rmq.read_table("orders", **given).sort_by(order)


def test_topics_sharding_keys_and_prefixes_of_rows(broker: BrokerProcess) -> None:
    make(broker, "sharded", 4)
    rows = [{"body": b"%d" % at, "topic": "sharded", "shardingKey": f"k{at % 3}"}
            for at in range(60)]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    for _ in range(2):
        assert rmq.write_table(table, id_prefix="mine") == 60
    found = rmq.read_table("sharded", text=True)
    assert found.num_rows == 120 and len(set(found["uniqueKey"].to_pylist())) == 60
    queues = {(int(row["body"]) % 3, row["queueId"]) for row in found.to_pylist()}
    assert len(queues) == 3, "rows of one key are in one queue"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"text": ["a"]}, "column text has no meaning in a message; there are body"),
        ({"tags": ["a"]}, "there is no column body"),
        ({"body": [1.5]}, "column body is double, it must be binary or string: cast it"),
        ({"body": [None]}, "a row without body: filter it out"),
        ({"body": ["a"], "properties": [{"a": "b"}]}, "column properties is struct"),
        ({"body": ["a"], "value": ["a"]}, "a column is there twice"),
    ],
)
def test_what_cannot_be_written_is_said(columns: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(RmqError, match=said):
        rmq.write_table(pa.table(columns), "empty")
    assert rmq.read_table("empty").num_rows == 0


def test_what_is_no_table_is_said() -> None:
    with pytest.raises(ConfigError, match=r"list gives no Arrow data: pyarrow\.Table"):
        rmq.write_table([{"body": "a"}], "empty")
    with pytest.raises(ConfigError, match="no argument transactional; there is"):
        rmq.write_table(pa.table({"body": ["a"]}), "empty", transactional=True)
    with pytest.raises(ConfigError, match="no topic: give option topic or a column topic"):
        rmq.write_table(pa.table({"body": ["a"]}))
