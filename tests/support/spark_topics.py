"""Topics filled for the tests of Spark, and their DataFrames.

fill(broker, "orders", {0: [b"a", b"b"], 1: [b"c"]}, tags="paid")
rows = read(spark, broker, "orders").collect()
"""

from collections.abc import Mapping, Sequence
from typing import Any

from support.broker_process import BrokerProcess

from rmq.client.admin import create_topic
from rmq.client.cluster import Cluster
from rmq.client.producer import Producer


def make(broker: BrokerProcess, topic: str, queues: int = 2) -> None:
    with Cluster(broker.namesrv) as cluster:
        create_topic(cluster, topic, queues)


def fill(
    broker: BrokerProcess, topic: str, bodies: Mapping[int, Sequence[bytes]], **message: Any
) -> None:
    """Sends the bodies to their queues, making the topic with as many queues as are named."""
    with Cluster(broker.namesrv) as cluster:
        create_topic(cluster, topic, max(bodies) + 1)
        producer = Producer(cluster)
        for queue_id, each in bodies.items():
            for body in each:
                producer.send(topic, body, queue_id=queue_id, **message)


def send(broker: BrokerProcess, topic: str, bodies: Sequence[bytes], **message: Any) -> None:
    """To a topic that is there, queue by turn."""
    with Cluster(broker.namesrv) as cluster:
        producer = Producer(cluster)
        for body in bodies:
            producer.send(topic, body, **message)


def read(spark: Any, broker: BrokerProcess, topic: str, **options: Any) -> Any:
    reader = spark.read.format("rmq").option("nameserver", broker.namesrv).option("topic", topic)
    return reader.options(**options).load()


def bodies(frame: Any) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())
