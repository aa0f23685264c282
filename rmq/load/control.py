"""Control: calls before a measured run: which queues, where, from which offset.

Works against any RocketMQ name server and broker. A benchmark topic that does not exist is created
on every master, then waited for at the name server.

    targets = find_queues("127.0.0.1:9876", ["bench"], create_queues=8)
    targets[0]  ->  Target(address="127.0.0.1:10911", queue=Queue("bench", 0, "broker-a"))
"""

import time
from collections.abc import Iterable, Sequence

import msgspec

from rmq.client.blocking.admin import topic_fields
from rmq.client.blocking.cluster import Cluster, Route
from rmq.client.blocking.connection import Connection
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.load.frames import Queue
from rmq.progress import Progress, no_progress

ROUTE_SECONDS_MAX = 45.0  # brokers register every 30 s when they do not at once
TOPICS_AT_ONCE = 64
CREATING, WAITING = "creating topics", "waiting for routes"


class Target(msgspec.Struct, frozen=True):
    """A queue and the address of the broker that owns it."""

    address: str
    queue: Queue


def find_queues(
    namesrv: str, topics: Iterable[str], create_queues: int, readable: bool = False,
    progress: Progress = no_progress,
) -> list[Target]:  # fmt: skip
    """All queues of the topics that may be written (or read), missing topics created first."""
    topics = list(topics)
    with Cluster(namesrv) as cluster:
        known = {topic: _route(cluster, topic) for topic in topics}
        missing = [topic for topic in topics if known[topic] is None]
        makers = _create(cluster, missing, create_queues, progress) if missing else []
        targets: list[Target] = []
        for at, topic in enumerate(topics):
            progress(WAITING, at, len(topics))
            route = known[topic] or _await_route(cluster, topic, makers)
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


def _create(cluster: Cluster, topics: Sequence[str], queues: int, progress: Progress) -> list[str]:
    """On every master; the brokers' names. RemoteError: one refuses."""
    masters = cluster.masters()
    for start in range(0, len(topics), TOPICS_AT_ONCE):
        progress(CREATING, start, len(topics))
        names = topics[start : start + TOPICS_AT_ONCE]
        rows = [topic_fields(name, queues, queues, PERM_READ | PERM_WRITE, False) for name in names]
        for broker in masters:
            replies = cluster.ask_all(broker.name, RequestCode.UPDATE_AND_CREATE_TOPIC, rows)
            for name, reply in zip(names, replies, strict=True):
                if reply.code != ResponseCode.SUCCESS:
                    remark = reply.remark or "no reason given"
                    raise RemoteError(reply.code, f"{broker.name}, topic {name}: {remark}")
    return [broker.name for broker in masters]


def _await_route(cluster: Cluster, topic: str, brokers: list[str]) -> Route:
    """With queues of all these brokers."""
    until = time.monotonic() + ROUTE_SECONDS_MAX
    while time.monotonic() < until:
        route = _route(cluster, topic)
        if route is not None:
            found = {queue.broker_name for queue in route.writable()}
            if found.issuperset(brokers):
                return route
        time.sleep(0.1)
    raise RemoteError(
        ResponseCode.TOPIC_NOT_EXIST,
        f"{cluster.name_servers[0]} does not show {topic} {ROUTE_SECONDS_MAX:.0f} s after "
        f"its creation on {', '.join(brokers)}",
    )
