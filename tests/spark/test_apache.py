"""Apache RocketMQ 5.5.0 read by Spark: its broker, and the store that it leaves behind.

The broker is sent plain messages with tags, keys and properties, batches, packed and large bodies,
delayed messages, and transactions that are committed, rolled back and left open. Spark must give
what a client reads from the broker, both from the broker and from the files.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.reading import read_all
from support.source_tree import ROOT
from support.topics import make_topic
from support.waiting import wait_until

from rmq import LocalTransactionState, Message, Producer, TransactionProducer
from rmq.client.blocking.cluster import Cluster

sys.path.insert(0, str(ROOT))  # tools/ is not installed
pytestmark = pytest.mark.compat

SETTINGS = {"mappedFileSizeCommitLog": str(1 << 20), "maxMessageSize": str(512 << 10),
            "fileReservedTime": "720"}  # fmt: skip
TOPICS = {"mined-one": 1, "mined-four": 4, "mined-late": 1, "mined-whole": 2}


class Ends:
    """Local transactions that end as their message says; the others stay unknown."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState(arg)

    def check_local_transaction(self, message: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def fill(name_server: str) -> None:
    with Cluster(name_server) as cluster:
        for topic, queues in TOPICS.items():
            make_topic(cluster, topic, queues)
    with Producer("mining", namesrv_addr=name_server) as producer:
        for at in range(2000):
            message = Message("mined-four", b"%d" % at, tags=f"t{at % 3}", keys=f"k{at} all")
            message.put_property("größe", f"µ{at}")
            producer.send(message)
        for at in range(40):
            producer.send_batch([Message("mined-one", b"%d-%d" % (at, i)) for i in range(5)])
        chance = random.Random(1)
        for size in (1, 9, 4 << 10, 100 << 10, 400 << 10):  # bodies are packed from 4 KiB on
            producer.send(Message("mined-one", bytes(1 + i % 7 for i in range(size))))
            producer.send(Message("mined-one", chance.randbytes(size)))
        producer.send(Message("mined-late", b"late", delay_level=1))
    with TransactionProducer("mining-whole", Ends(), namesrv_addr=name_server) as producer:
        for at in range(30):
            state = list(LocalTransactionState)[at % 3]
            producer.send_in_transaction(Message("mined-whole", f"{at} {state.name}"), state)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    names = ("topic", "queueId", "queueOffset", "body", "tags", "keys", "msgId", "properties")
    return sorted((*map(row.__getitem__, names[:3]), bytes(row.body), row.tags, row.keys,
                   row.msgId, sorted(row.properties.items()))
                  for row in frame.select(*names).collect())  # fmt: skip


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from compat.targets import make_target

    target = make_target("apache", tmp_path_factory.mktemp("apache"), SETTINGS)
    target.start()
    try:
        fill(target.name_server)
        wait_until(lambda: read_all(target.name_server, "mined-late"))
        yield target
    finally:
        target.stop()


def test_spark_reads_a_store_that_apache_wrote_as_its_clients_do(spark, apache: Any) -> None:
    messages = [each for topic in TOPICS for each in read_all(apache.name_server, topic)]
    expected = sorted(
        (each.topic, each.queue_id, each.queue_offset, each.body) for each in messages
    )
    assert len(expected) == 2000 + 40 * 5 + 10 + 1 + 10
    reader = spark.read.format("rmq")
    names = ",".join(TOPICS)
    live = rows_of(reader.options(nameserver=apache.name_server, topic=names).load())
    assert [row[:4] for row in live] == expected
    apache.end("clean")
    store = Path(apache.store)
    assert len(list((store / "commitlog").iterdir())) >= 2
    files = spark.read.format("rmq").option("path", str(store))
    # No topic is named, so all except Apache's own are read.
    stored = rows_of(files.option("minPartitions", "5").load().where("topic like 'mined%'"))
    assert stored == live
    by_tag = spark.read.format("rmq").options(path=str(store), topic="mined-four", tags="t1")
    assert by_tag.load().count() == len(range(1, 2000, 3))
    topics = {row.topic for row in files.load().select("topic").distinct().collect()}
    assert topics == set(TOPICS)
