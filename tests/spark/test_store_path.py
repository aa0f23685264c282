"""path=STORE_DIR: the files of a store are read without a broker, damaged ones too."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.spark_topics import bodies, fill, producer
from support.store_copies import copy_store
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_message_id

COUNT = 3000


def send_one(sender: Producer, at: int) -> None:
    """Sends a message, again if needed: small log files are full sooner than a busy machine makes
    new ones."""

    def is_sent() -> bool:
        try:
            message = Message("mined", b"%06d" % at * 100, tags=f"t{at % 3}")
            sender.send(message, queue=MessageQueue("mined", "broker-a", at % 2))
        except RemoteError as error:
            assert error.code == 2, error
            return False
        return True

    wait_until(is_sent)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A live broker whose log has several files."""
    options = ("--set", f"mappedFileSizeCommitLog={1 << 20}", "--set", "maxMessageSize=500000")
    with broker_process(tmp_path_factory.mktemp("written"), options) as broker:
        fill(broker, "mined", {0: [], 1: []})
        with producer(broker) as sender:
            for at in range(COUNT):
                send_one(sender, at)
            sender.send(Message("other", b"elsewhere"))
        yield broker


def load(spark, path: Path, **options: object):
    return spark.read.format("rmq").option("path", str(path)).options(**options).load()


def test_a_live_store_gives_every_message_once_in_parallel(spark, written: BrokerProcess) -> None:
    frame = load(spark, written.store, topic="mined", minPartitions=7)
    rows = frame.select("queueId", "queueOffset", "body", "brokerName").collect()
    found = sorted((row.queueId, row.queueOffset, bytes(row.body)) for row in rows)
    assert found == sorted((at % 2, at // 2, b"%06d" % at * 100) for at in range(COUNT))
    assert {row.brokerName for row in rows} == {"broker-a"}
    assert frame.rdd.getNumPartitions() >= 7


def test_without_a_topic_all_but_the_brokers_own_are_read(spark, written: BrokerProcess) -> None:
    topics = load(spark, written.store, columns="topic").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in topics} == {"mined": COUNT, "other": 1}


def test_a_topic_that_is_not_in_the_store_is_an_error_that_names_those_there(
    spark, written: BrokerProcess
) -> None:
    for options in ({"topic": "mind"}, {"topic": "mined,mind"}, {"assign": '{"mind":[0]}'}):
        with pytest.raises(Exception, match=r"topic mind is not in the store .* mined, other"):
            load(spark, written.store, **options).count()
    assert load(spark, written.store, subscribePattern="mind.*").count() == 0


def test_a_topic_is_found_without_its_queue_files_and_configuration(
    spark, written: BrokerProcess, tmp_path: Path
) -> None:
    copy_store(written.store / "commitlog", tmp_path / "bare" / "commitlog")
    assert load(spark, tmp_path / "bare", topic="other").count() == 1
    with pytest.raises(Exception, match=r"topic mind is not in the store .* mined, other"):
        load(spark, tmp_path / "bare", topic="mind").count()
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    with pytest.raises(Exception, match="there are no topics in it"):
        load(spark, tmp_path / "empty", topic="mind").count()


def test_queues_offsets_and_tags_are_chosen_as_with_a_broker(spark, written: BrokerProcess) -> None:
    assert load(spark, written.store, assign='{"mined":[1]}').count() == COUNT // 2
    options = {"topic": "mined", "startingOffsets": '{"mined":{"0":1400}}'}
    assert load(spark, written.store, **options).count() == 100 + COUNT // 2
    assert load(spark, written.store, topic="mined", tags="t1").count() == COUNT // 3
    row = load(spark, written.store, topic="mined").where("queueOffset = 700").first()
    stamp = int(row.storeTimestamp.timestamp() * 1000)
    late = load(spark, written.store, topic="mined", startingTimestamp=stamp).count()
    early = load(spark, written.store, topic="mined", endingTimestamp=stamp).count()
    assert (late + early, early > 0, late > 0) == (COUNT, True, True)


def test_a_backup_of_a_live_store_is_read_as_it_is(
    spark, written: BrokerProcess, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    words = ["store", "backup", "--store", str(written.store), "--to", str(backup)]
    for _ in range(2):  # the second read finds it up to date
        subprocess.run([sys.executable, "-m", "rmq", *words], check=True)
        assert load(spark, backup, topic="mined").count() == COUNT
    assert bodies(load(spark, backup, topic="other")) == [b"elsewhere"]
    with pytest.raises(Exception, match=r"topic mind is not in the store .* mined, other"):
        load(spark, backup, topic="mind").count()


def test_damage_is_told_marked_or_left_out(spark, written: BrokerProcess, tmp_path: Path) -> None:
    """The copy of the store has a flipped bit in a body, and a record with an overwritten head."""
    copy = tmp_path / "copy"
    copy_store(written.store, copy, ignore=shutil.ignore_patterns("bus", "lock"))
    rows = load(spark, written.store, topic="mined").where("queueOffset in (10, 20)").collect()
    at = {(row.queueId, row.queueOffset): decode_message_id(row.msgId)[1] for row in rows}
    for offset, skip, length in ((at[0, 10], 100, 1), (at[1, 20], 0, 60)):
        file = sorted((copy / "commitlog").iterdir())[offset // (1 << 20)]
        with file.open("r+b") as log:
            log.seek(offset % (1 << 20) + skip)
            log.write(b"\xff" * length)
    with pytest.raises(Exception, match="mode=permissive or mode=dropmalformed reads on"):
        load(spark, copy, topic="mined").count()
    assert load(spark, copy, topic="mined", mode="dropmalformed").count() == COUNT - 2
    frame = load(spark, copy, topic="mined", mode="permissive")
    damaged = frame.where("_corrupt is not null").collect()
    assert sorted((row.topic, row.queueOffset, row._corrupt) for row in damaged) == [
        ("", -1, "bytes of the commit log that are no record"),
        ("mined", 10, "the body does not match its checksum"),
    ]
    assert frame.where("_corrupt is null").count() == COUNT - 2


def test_a_directory_that_is_no_store_is_named(spark, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no commitlog in it"):
        load(spark, tmp_path).count()


def test_bodies_of_a_store_are_those_that_were_sent(spark, written: BrokerProcess) -> None:
    assert bodies(load(spark, written.store, topic="other")) == [b"elsewhere"]
