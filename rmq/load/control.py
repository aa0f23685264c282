"""Control: calls before a measured run: which queues there are, where, and from which offset.

It works with any RocketMQ name server and broker. A benchmark topic that does not exist is created
on every master; then the calls wait until the name server knows it.

    targets = find_queues("127.0.0.1:9876", ["bench"], create_queues=8)
    targets[0]  ->  Target(address="127.0.0.1:10911", queue=Queue("bench", 0, "broker-a"))
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from rmq.client.blocking.admin import topic_fields
from rmq.client.blocking.cluster import Cluster, Route
from rmq.client.blocking.connection import Connection
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.load.frames import Queue
from rmq.progress import Progress, no_progress

T = TypeVar("T")

ROUTE_SECONDS_MAX = 45.0  # a broker that does not register at once does so every 30 s
TOPICS_AT_ONCE = 64
POLL_S = 0.1
LOOKING, CREATING, WAITING = "looking up routes", "creating topics", "waiting for routes"


class Target(msgspec.Struct, frozen=True):
    """A queue and the address of the broker that owns it."""

    address: str
    queue: Queue


def find_queues(
    namesrv: str, topics: Iterable[str], create_queues: int, readable: bool = False,
    progress: Progress = no_progress, *, are_new: bool = False,
) -> list[Target]:  # fmt: skip
    """All queues of the topics that may be written (or read); missing topics are created first.
    are_new: none of the topics exists, so that is not asked."""
    topics = list(topics)
    with Cluster(namesrv) as cluster:
        routes = {} if are_new else _known_routes(cluster, topics, progress)
        missing = [topic for topic in topics if topic not in routes]
        if missing:
            makers = _create(cluster, missing, create_queues, progress)
            routes |= _created_routes(cluster, missing, makers, progress)
    targets: list[Target] = []
    for topic in topics:
        route = routes[topic]
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


def _create(
    cluster: Cluster, topics: Sequence[str], queues: int, progress: Progress
) -> frozenset[str]:
    """Creates the topics on every master, and only there; returns the brokers' names. RemoteError:
    one refuses."""
    masters = cluster.masters()
    for start, names in pieces(topics):
        progress(CREATING, start, len(topics))
        rows = [topic_fields(name, queues, queues, PERM_READ | PERM_WRITE, False) for name in names]
        for broker in masters:
            assert broker.master is not None  # masters() lists only such
            master = cluster.connect(broker.master)
            replies = master.ask_all(RequestCode.UPDATE_AND_CREATE_TOPIC, rows)
            for name, reply in zip(names, replies, strict=True):
                if reply.code != ResponseCode.SUCCESS:
                    remark = reply.remark or "no reason given"
                    raise RemoteError(reply.code, f"{broker.name}, topic {name}: {remark}")
    return frozenset(broker.name for broker in masters)


def _known_routes(cluster: Cluster, topics: Sequence[str], progress: Progress) -> dict[str, Route]:
    """The routes of those topics that the name server knows."""
    found: dict[str, Route] = {}
    for start, names in pieces(topics):
        progress(LOOKING, start, len(topics))
        for name, route in zip(names, cluster.routes(names), strict=True):
            if route is not None:
                found[name] = route
    return found


def _created_routes(
    cluster: Cluster, topics: Sequence[str], makers: frozenset[str], progress: Progress
) -> dict[str, Route]:
    """The topics' routes. Waits until each of them has all brokers that made the topic."""
    found: dict[str, Route] = {}
    for start, names in pieces(topics):
        progress(WAITING, start, len(topics))
        until = time.monotonic() + ROUTE_SECONDS_MAX
        lacking = dict.fromkeys(names, makers)  # topic -> brokers that its route lacks
        while True:
            waiting = list(lacking)
            for name, route in zip(waiting, cluster.routes(waiting), strict=True):
                # Entries count, not queues: a broker that takes no sends (brokerPermission) is in
                # the route without queues.
                entries = route.entries if route is not None else ()
                lacking[name] = makers - {entry.broker_name for entry in entries}
                if route is not None and not lacking[name]:
                    found[name] = route
                    del lacking[name]
            if not lacking:
                break
            if time.monotonic() >= until:
                raise _not_shown(cluster, *next(iter(lacking.items())))
            time.sleep(POLL_S)
    return found


def _not_shown(cluster: Cluster, topic: str, brokers: frozenset[str]) -> RemoteError:
    return RemoteError(
        ResponseCode.TOPIC_NOT_EXIST,
        f"{cluster.name_servers[0]} does not show {topic} of {', '.join(sorted(brokers))} "
        f"{ROUTE_SECONDS_MAX:.0f} s after its creation there",
    )


def pieces(names: Sequence[T]) -> Iterator[tuple[int, Sequence[T]]]:
    """Pieces of TOPICS_AT_ONCE names, each with the index of its first name."""
    for start in range(0, len(names), TOPICS_AT_ONCE):
        yield start, names[start : start + TOPICS_AT_ONCE]
