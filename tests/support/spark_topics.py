"""Spark topics: fills topics for tests of Spark, and reads them as DataFrames.

fill(broker, "orders", {0: [b"a", b"b"], 1: [b"c"]}, tags="paid")
rows = read(spark, broker, "orders").collect()
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.broker_process import BrokerProcess
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer
from rmq.arrow.access import Access
from rmq.arrow.options import write_options
from rmq.arrow.sender import Sender
from rmq.client.blocking.admin import delete_topic
from rmq.client.blocking.cluster import Cluster
from rmq.errors import UnreachableError
from rmq.format.fastjson import MessageQueue


def make(broker: BrokerProcess, topic: str, queues: int = 2) -> None:
    with Cluster(broker.namesrv) as cluster:
        patiently(lambda: make_topic(cluster, topic, queues))


def remove(broker: BrokerProcess, topic: str) -> None:
    with Cluster(broker.namesrv) as cluster:
        patiently(lambda: delete_topic(cluster, topic))


def patiently(call: Callable[[], object]) -> None:
    """Repeats a call if a busy machine does not answer in time. The call must be harmless if it is
    done twice."""

    def is_answered() -> bool:
        try:
            call()
        except UnreachableError:
            return False
        return True

    wait_until(is_answered, still=True)


def producer(broker: Any) -> Producer:
    return Producer(
        "SPARK_TESTS",
        namesrv_addr=broker.namesrv,
        send_msg_timeout=int(1000 * HANG_S),
        mq_client_api_timeout=int(1000 * HANG_S),
    )


def fill(
    broker: BrokerProcess, topic: str, bodies: Mapping[int, Sequence[bytes]], **message: Any
) -> None:
    """Makes the topic, with as many queues as are named, and sends the bodies to their queues."""
    make(broker, topic, max(bodies) + 1)
    with producer(broker) as sender:
        for queue_id, each in bodies.items():
            for body in each:
                sender.send(
                    Message(topic, body, **message), queue=MessageQueue(topic, "broker-a", queue_id)
                )


def send(broker: BrokerProcess, topic: str, bodies: Sequence[bytes], **message: Any) -> None:
    """Sends to the queues of an existing topic in turn."""
    with producer(broker) as sender:
        for body in bodies:
            sender.send(Message(topic, body, **message))


def read(spark: Any, broker: BrokerProcess, topic: str, **options: Any) -> Any:
    reader = spark.read.format("rmq").option("nameserver", broker.namesrv).option("topic", topic)
    return reader.options(**options).load()


def bodies(frame: Any) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())


def send_as_batch(broker: BrokerProcess, topic: str, bodies: Sequence[bytes]) -> None:
    """Sends all bodies to the topic's first queue in one batch, in which bodies may be empty."""
    options = write_options({"nameserver": broker.namesrv, "topic": topic})
    sender = Sender(options, Access.of(options))
    try:
        for at, body in enumerate(bodies):
            sender.add(topic, 0, b"UNIQ_KEY\1%032X\2" % at, body)
        sender.flush()
    finally:
        sender.close()
