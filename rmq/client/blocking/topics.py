"""Topics at each broker: their states, and changes of only the values that are named.

A topic lives on every master of its cluster, each with its own number of queues and permissions.

    for state in states(cluster, "orders"): state.broker.name, state.read_queues, state.perm
    change(cluster, state, read_queues=8)
    make(other, replace(state, broker=theirs, topic="copies"))
    for each in queues(cluster, "orders"): each.range.queue, each.perm

If a topic gets fewer queues, the queues behind keep their messages, which can be read again when
the topic has as many queues as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rmq.client.blocking.admin import QueueRange, queue_ranges, topic_fields
from rmq.client.blocking.cluster import BrokerEntry, ClusterView, QueueData
from rmq.client.blocking.partial import Missing, of_brokers
from rmq.client.connection.replicas import Purpose
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson


@dataclass(frozen=True)
class TopicState:
    """A topic at one broker."""

    broker: BrokerEntry
    topic: str
    read_queues: int
    write_queues: int
    perm: int
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    is_static: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueState:
    """A queue that can be read or written, or that holds messages; `perm`: which of the two."""

    range: QueueRange
    perm: int

    @property
    def messages(self) -> int:
        return self.range.max_offset - self.range.min_offset


def states(
    cluster: ClusterView, topic: str, cluster_name: str | None = None
) -> Iterator[tuple[BrokerEntry, TopicState | None]]:
    """Every master (of one cluster) with the topic's state there; None: it does not exist there."""
    for broker in cluster.masters(cluster_name):
        members = _members(cluster, broker, topic)
        yield broker, state_of(broker, topic, members) if members is not None else None


def _members(cluster: ClusterView, broker: BrokerEntry, topic: str) -> dict[str, Any] | None:
    assert broker.master is not None
    try:
        asked = {"topic": topic, "lo": True}
        reply = cluster.call(broker.master, RequestCode.GET_TOPIC_CONFIG, asked)
        return fastjson.loads_object(reply.body)
    except RemoteError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    return configs(cluster, broker).get(topic)  # RocketMQ 4 knows only this request


def configs(cluster: ClusterView, broker: BrokerEntry) -> dict[str, dict[str, Any]]:
    """The configurations of all topics of a broker, by name, with RocketMQ's members."""
    assert broker.master is not None
    reply = cluster.call(broker.master, RequestCode.GET_ALL_TOPIC_CONFIG)
    table = fastjson.loads_object(reply.body).get("topicConfigTable") or {}
    return {str(name): members for name, members in table.items() if isinstance(members, dict)}


def state_of(broker: BrokerEntry, topic: str, members: Mapping[str, Any]) -> TopicState:
    """The state that RocketMQ's members of a topic describe."""
    return TopicState(
        broker, topic, int(members.get("readQueueNums", 0)), int(members.get("writeQueueNums", 0)),
        int(members.get("perm", 0)), bool(members.get("order")),
        str(members.get("topicFilterType") or "SINGLE_TAG"), int(members.get("topicSysFlag", 0)),
        is_static=bool(members.get("mappingDetail")),
        attributes={str(name): str(value)
                    for name, value in (members.get("attributes") or {}).items()},
    )  # fmt: skip


def change(cluster: ClusterView, state: TopicState, **named: Any) -> TopicState:
    """Changes these fields of the topic's state at its broker, and returns the new state."""
    after = replace(state, **named)
    _put(cluster, after, {})
    return after


def make(cluster: ClusterView, wanted: TopicState) -> None:
    """Makes a topic with this state and its attributes. (change() leaves attributes as they
    are.)"""
    _put(cluster, wanted, wanted.attributes)


def _put(cluster: ClusterView, wanted: TopicState, attributes: Mapping[str, str]) -> None:
    assert wanted.broker.master is not None
    fields = topic_fields(
        wanted.topic, wanted.read_queues, wanted.write_queues, wanted.perm, wanted.order,
        wanted.filter_type, wanted.sys_flag,
    )  # fmt: skip
    if attributes:
        fields["attributes"] = ",".join(f"+{key}={text}" for key, text in attributes.items())
    cluster.call(wanted.broker.master, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def queues(
    cluster: ClusterView, topic: str, missing: Missing | None = None
) -> list[QueueState]:  # fmt: skip
    """All queues of the topic, by broker and queue id; of rmq's brokers also queues that are not
    read and still hold messages. missing: see partial.py."""
    found = []
    route = cluster.route(topic)
    # A broker whose address is not known is left out.
    entries = {each.broker_name: each for each in route.entries
               if route.brokers.get(each.broker_name)}  # fmt: skip
    places = [(name, cluster.address_of(name, Purpose.STATE)) for name in sorted(entries)]

    def ranges(name: str) -> tuple[QueueData, list[QueueRange]]:
        return entries[name], queue_ranges(cluster, topic, name, is_whole=True)

    for entry, part in of_brokers(cluster, places, ranges, missing):
        for each in part:
            reads = entry.perm & PERM_READ and each.queue.queue_id < entry.read_queues
            writes = entry.perm & PERM_WRITE and each.queue.queue_id < entry.write_queues
            perm = (PERM_READ if reads else 0) | (PERM_WRITE if writes else 0)
            found.append(QueueState(each, perm))
    return found
