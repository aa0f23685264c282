"""Control: calls before a measured run: which queues, where, from which offset.

Works against any RocketMQ name server and broker. A benchmark topic that does not exist is created
on every master, then waited for at the name server.

    targets = find_queues("127.0.0.1:9876", ["bench"], create_queues=8)
    targets[0]  ->  Target(address="127.0.0.1:10911", queue=Queue("bench", 0, "broker-a"))
"""

import time
from collections.abc import Iterable

import msgspec

from rmq.client.blocking.admin import create_topic
from rmq.client.blocking.cluster import Cluster, Route
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.load.frames import Queue

ROUTE_SECONDS_MAX = 45.0  # brokers register every 30 s when they do not at once


class Target(msgspec.Struct, frozen=True):
    """A queue and the address of the broker that owns it."""

    address: str
    queue: Queue


def find_queues(
    namesrv: str, topics: Iterable[str], create_queues: int, readable: bool = False
) -> list[Target]:
    """All queues of the topics that may be written (or read), missing topics created first."""
    topics = list(topics)
    with Cluster(namesrv) as cluster:
        known = {topic: _route(cluster, topic) for topic in topics}
        missing = [topic for topic in topics if known[topic] is None]
        for topic in missing:
            create_topic(cluster, topic, create_queues)
        targets: list[Target] = []
        for topic in topics:
            route = known[topic] or _await_route(cluster, topic)
            for queue in route.readable() if readable else route.writable():
                address = route.brokers[queue.broker_name].master
                assert address is not None  # readable and writable list masters only
                targets.append(Target(address, Queue(topic, queue.queue_id, queue.broker_name)))
    if not targets:
        raise RemoteError(ResponseCode.NO_PERMISSION, f"no queue of {topics[0]} may be used")
    return targets


def queue_range(broker: Connection, queue: Queue) -> tuple[int, int]:
    """First readable and next free offset of a queue."""
    fields = {"topic": queue.topic, "queueId": queue.queue_id}
    least = broker.call(RequestCode.GET_MIN_OFFSET, fields).int_field("offset")
    return least, broker.call(RequestCode.GET_MAX_OFFSET, fields).int_field("offset")


def subscribe(broker: Connection, group: str, topics: Iterable[str]) -> None:
    """A heartbeat that makes the group and its subscriptions known to the broker.

    The broker forgets them when the connection closes: keep it open while pulling.
    """
    subscriptions = [
        {
            "classFilterMode": False,
            "topic": topic,
            "subString": "*",
            "tagsSet": [],
            "codeSet": [],
            "subVersion": 0,
            "expressionType": "TAG",
        }
        for topic in topics
    ]
    body = {
        "clientID": f"127.0.0.1@bench-{group}",
        "producerDataSet": [],
        "consumerDataSet": [
            {
                "groupName": group,
                "consumeType": "CONSUME_ACTIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": subscriptions,
            }
        ],
    }
    broker.call(RequestCode.HEART_BEAT, {}, fastjson.dumps(body))


def _route(cluster: Cluster, topic: str) -> Route | None:
    try:
        return cluster.route(topic)
    except RemoteError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise


def _await_route(cluster: Cluster, topic: str) -> Route:
    until = time.monotonic() + ROUTE_SECONDS_MAX
    while time.monotonic() < until:
        route = _route(cluster, topic)
        if route is not None and route.writable():
            return route
        time.sleep(0.1)
    raise RemoteError(
        ResponseCode.TOPIC_NOT_EXIST,
        f"{cluster.name_servers[0]} does not show {topic} {ROUTE_SECONDS_MAX:.0f} s after "
        "its creation",
    )
