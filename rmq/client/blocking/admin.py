"""Admin functions: an operator's questions about topics, groups and brokers; one function for each.

Every function takes a ClusterView first and returns plain values; names are those on the wire. The
view's transport sends the requests: over blocking sockets for the command line, over the client's
engine for Admin (rmq/client/administration.py). A topic or group lives on every master of its
cluster, so changes go to all masters and answers are merged. Where `missing` is given, brokers that
do not answer are put there, and the others' answers are returned (partial.py). Example:

    create_topic(cluster, "orders", queues=8)
    for row in topic_queues(cluster, "orders"): row.queue, row.min_offset, row.max_offset
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmq.client.blocking.cluster import BrokerEntry, ClusterView
from rmq.client.blocking.partial import Missing, lost, of_brokers, of_masters
from rmq.client.connection.replicas import Purpose
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmq.errors import RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command
from rmq.names import AUTO_CREATE_TOPIC

CLIENT_TIMEOUT_S = 15.0  # a broker waits for its client for ten seconds


@dataclass(frozen=True)
class QueueRange:
    """One queue's readable offsets: min_offset up to, not including, max_offset."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_stored_ms: int  # 0: nothing was stored


@dataclass(frozen=True)
class QueueProgress:
    """How far a group has come in one queue."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_consumed_ms: int

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


def create_topic(
    cluster: ClusterView,
    topic: str,
    queues: int,
    *,
    perm: int = PERM_READ | PERM_WRITE,
    order: bool = False,
    cluster_name: str | None = None,
    attributes: Mapping[str, str] | None = None,
    brokers: list[BrokerEntry] | None = None,
) -> list[BrokerEntry]:
    """Creates the topic, or changes it, on every master (of one cluster), or on these brokers.
    Returns the brokers. attributes: for example {"message.type": "DELAY"}."""
    fields = topic_fields(topic, queues, queues, perm, order)
    if attributes:
        fields["attributes"] = ",".join(f"+{key}={text}" for key, text in attributes.items())
    masters = cluster.masters(cluster_name) if brokers is None else brokers
    for broker in masters:
        _call(cluster, broker, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    return masters


def topic_fields(
    topic: str, read_queues: int, write_queues: int, perm: int, order: bool,
    filter_type: str = "SINGLE_TAG", sys_flag: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """The fields of request 17, all of which RocketMQ's brokers require."""
    return {
        "topic": topic, "defaultTopic": AUTO_CREATE_TOPIC, "readQueueNums": read_queues,
        "writeQueueNums": write_queues, "perm": perm, "topicFilterType": filter_type,
        "topicSysFlag": sys_flag, "order": order,
    }  # fmt: skip


def delete_topic(cluster: ClusterView, topic: str, cluster_name: str | None = None) -> None:
    """Deletes the topic on every master (of one cluster), and then at every name server. With
    cluster_name the name servers keep the topic of other clusters."""
    for broker in cluster.masters(cluster_name):
        _call(cluster, broker, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    fields = {"topic": topic, **({"clusterName": cluster_name} if cluster_name else {})}
    for address in cluster.name_servers:
        cluster.call(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, fields)


def topic_queues(
    cluster: ClusterView, topic: str, missing: Missing | None = None
) -> list[QueueRange]:
    """The range of every queue of the topic that can be read, by broker and queue id."""
    names = sorted({queue.broker_name for queue in cluster.route(topic).readable()})
    places = [(name, cluster.address_of(name, Purpose.STATE)) for name in names]
    parts = of_brokers(cluster, places, lambda name: queue_ranges(cluster, topic, name), missing)
    return [each for part in parts for each in part]


def queue_ranges(
    cluster: ClusterView, topic: str, broker_name: str, *, is_whole: bool = False
) -> list[QueueRange]:
    """The ranges of the topic's queues at one broker, by queue id. is_whole: brokers of rmq also
    return queues that the topic no longer has and that still hold messages."""
    fields = {"topic": topic, **({"rmqDetail": True} if is_whole else {})}
    reply = cluster.call_any(broker_name, RequestCode.GET_TOPIC_STATS_INFO, fields)
    found = [
        QueueRange(
            queue,
            int(row.get("minOffset", 0)),
            int(row.get("maxOffset", 0)),
            int(row.get("lastUpdateTimestamp", 0)),
        )
        for queue, row in queue_table(reply.body).items()
    ]
    return sorted(found, key=lambda each: each.queue.queue_id)


def system_topics(
    cluster: ClusterView, brokers: list[BrokerEntry] | None = None, missing: Missing | None = None
) -> set[str]:
    """The system topics of these brokers, or of all masters; topics that are named like clusters
    and brokers are among them."""

    def topics(broker: BrokerEntry) -> list[str]:
        reply = _call(cluster, broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return list(map(str, fastjson.loads_object(reply.body).get("topicList") or []))

    if brokers is None:
        parts = of_masters(cluster, topics, missing)
    else:
        parts = [topics(each) for each in brokers]
    return {topic for part in parts for topic in part}


# ---- groups


def create_group(
    cluster: ClusterView, group: str, settings: Mapping[str, Any],
    brokers: list[BrokerEntry] | None = None,
) -> None:  # fmt: skip
    """Creates the consumer group on every master, or on these, or changes it; settings by
    RocketMQ's names."""
    body = fastjson.dumps({
        "groupName": group, "consumeEnable": True, "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True, "consumeMessageOrderly": False, "retryQueueNums": 1,
        "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True, "groupSysFlag": 0, "consumeTimeoutMinute": 15,
        **settings,
    })  # fmt: skip
    for broker in cluster.masters() if brokers is None else brokers:
        _call(cluster, broker, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def delete_group(cluster: ClusterView, group: str, *, clean_offsets: bool) -> None:
    """Deletes the group on every master; with clean_offsets also its committed offsets."""
    fields = {"groupName": group, "cleanOffset": clean_offsets}
    for broker in cluster.masters():
        _call(cluster, broker, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)


def set_consume_mode(
    cluster: ClusterView, topic: str, group: str, mode: str, *, pop_share_queue_num: int
) -> None:
    """Sets whether push consumers with client_rebalance=False pull or pop the topic (mode PULL or
    POP)."""
    body = fastjson.dumps({
        "topic": topic, "consumerGroup": group, "mode": mode,
        "popShareQueueNum": pop_share_queue_num,
    })  # fmt: skip
    for broker in cluster.masters():
        _call(cluster, broker, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)


def groups(cluster: ClusterView, missing: Missing | None = None) -> dict[str, dict[str, Any]]:
    """The configurations of all consumer groups on all masters, by name."""
    found: dict[str, dict[str, Any]] = {}
    for each in of_masters(cluster, lambda broker: group_configs(cluster, broker), missing):
        found |= each
    return found


def group_configs(cluster: ClusterView, broker: BrokerEntry) -> dict[str, dict[str, Any]]:
    """The same of one broker."""
    reply = _call(cluster, broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = fastjson.loads_object(reply.body).get("subscriptionGroupTable") or {}
    return {str(name): row for name, row in table.items()}


def require_groups(cluster: ClusterView, *names: str) -> dict[str, dict[str, Any]]:
    """All groups. RemoteError: no broker has one of these."""
    known = groups(cluster)
    for name in names:
        if name not in known:
            raise no_group(name)
    return known


def no_group(name: str) -> RemoteError:
    """For a group that no broker has."""
    return RemoteError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no consumer group {name}")


def group_progress(
    cluster: ClusterView, group: str, topic: str | None = None, missing: Missing | None = None
) -> tuple[list[QueueProgress], float]:
    """The group's progress in each queue, and how many messages it consumes per second, over all
    masters; in one topic, or in all."""
    fields = {"consumerGroup": group, **({"topic": topic} if topic is not None else {})}
    found: list[QueueProgress] = []
    rate = 0.0

    def stats(broker: BrokerEntry) -> bytes:
        try:
            return bytes(_call(cluster, broker, RequestCode.GET_CONSUME_STATS, fields).body)
        except RemoteError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return b"{}"  # this broker has no topic of the group
            raise

    for body in of_masters(cluster, stats, missing):
        rate += float(fastjson.loads_object(body).get("consumeTps") or 0)
        for queue, row in queue_table(body).items():
            found.append(
                QueueProgress(
                    queue,
                    int(row.get("brokerOffset", 0)),
                    int(row.get("consumerOffset", 0)),
                    int(row.get("lastTimestamp", 0)),
                )
            )
    return sorted(found, key=lambda each: each.queue), rate


def group_members(
    cluster: ClusterView, group: str, missing: Missing | None = None
) -> dict[str, Any] | None:
    """The group's connections and subscriptions, by RocketMQ's names; None if no member is
    online."""
    merged: dict[str, Any] | None = None
    fields = {"consumerGroup": group}

    def connections(broker: BrokerEntry) -> bytes | None:
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        try:
            return bytes(_call(cluster, broker, code, fields).body)
        except RemoteError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise

    for body in of_masters(cluster, connections, missing):
        if body is None:
            continue
        data = fastjson.loads_object(body)
        if merged is None:
            merged = data
        else:
            known = {row.get("clientId") for row in merged.get("connectionSet") or []}
            merged["connectionSet"] = (merged.get("connectionSet") or []) + [
                row for row in data.get("connectionSet") or [] if row.get("clientId") not in known
            ]
    return merged


def online_members(
    cluster: ClusterView, group: str, missing: Missing | None = None
) -> list[dict[str, Any]]:
    """The group's members, with the names on the wire: clientId, clientAddr, language, version."""
    return (group_members(cluster, group, missing) or {}).get("connectionSet") or []


def groups_of_topic(
    cluster: ClusterView, topic: str, missing: Missing | None = None
) -> list[str]:  # fmt: skip
    """Consumer groups that subscribe to the topic or have offsets in it, by name."""
    found: set[str] = set()
    code, fields = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
    for reply in of_masters(cluster, lambda broker: _ask(cluster, broker, code, fields), missing):
        if reply.code == ResponseCode.SUCCESS:
            found.update(map(str, fastjson.loads_object(reply.body).get("groupList") or []))
    return sorted(found)


def producers(
    cluster: ClusterView, missing: Missing | None = None
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """The clients of every producer group on all masters, by group; each client once. Values have
    RocketMQ's names."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    code = RequestCode.GET_ALL_PRODUCER_INFO
    for reply in of_masters(cluster, lambda broker: _call(cluster, broker, code), missing):
        for group, clients in (fastjson.loads_object(reply.body).get("data") or {}).items():
            for client in clients or []:
                found.setdefault(str(group), {})[str(client.get("clientId"))] = client
    return {group: list(clients.values()) for group, clients in sorted(found.items())}


def running_info(
    cluster: ClusterView, group: str, client_id: str, missing: Missing | None = None
) -> dict[str, Any]:
    """A member's information about itself: properties, subscriptions, queues, rates. It may be
    connected to any broker; those that are missing already are not asked. RemoteError: none of them
    has it, or it does not answer. UnreachableError: it may be at one that does not answer."""
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": False}
    away: Missing = {} if missing is None else missing
    refusal: RemoteError | None = None
    for broker in cluster.masters():
        if broker.name in away:
            continue
        assert broker.master is not None
        try:
            reply = cluster.call(
                broker.master, RequestCode.GET_CONSUMER_RUNNING_INFO, fields,
                timeout_s=CLIENT_TIMEOUT_S,
            )  # fmt: skip
            return fastjson.loads_object(reply.body)
        except RemoteError as error:
            refusal = error  # the member may be connected to another broker
        except UnreachableError as error:
            away[broker.name] = str(error)
    # With `missing` the member was found at a broker that answers, and its refusal says more.
    if away and (missing is None or refusal is None):
        raise lost(away)
    assert refusal is not None
    raise refusal


# ---- offsets


def min_offset(cluster: ClusterView, queue: MessageQueue) -> int:
    """The offset of the queue's first message."""
    return _offset(cluster, RequestCode.GET_MIN_OFFSET, queue)


def max_offset(cluster: ClusterView, queue: MessageQueue) -> int:
    """The offset that the queue's next message will get."""
    return _offset(cluster, RequestCode.GET_MAX_OFFSET, queue)


def offset_at(cluster: ClusterView, queue: MessageQueue, timestamp_ms: int, *, upper: bool) -> int:
    """The offset of the first message stored at or after a time; upper: of the last one stored at
    or before it."""
    boundary = "UPPER" if upper else "LOWER"
    more = {"timestamp": timestamp_ms, "boundaryType": boundary}
    return _offset(cluster, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, more)


def committed_offset(cluster: ClusterView, group: str, queue: MessageQueue) -> int | None:
    """The offset that the group has committed for this queue; None if it never committed."""
    more = {"consumerGroup": group, "setZeroIfNotFound": False}
    try:
        return _offset(cluster, RequestCode.QUERY_CONSUMER_OFFSET, queue, more)
    except RemoteError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise


def commit_offset(cluster: ClusterView, group: str, queue: MessageQueue, offset: int) -> None:
    """Sets the group's committed offset. Its members must be offline, or they would set it back."""
    fields = {
        "consumerGroup": group, "topic": queue.topic, "queueId": queue.queue_id,
        "commitOffset": offset,
    }  # fmt: skip
    address = cluster.address_of(queue.broker_name)
    cluster.call(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def reset_offset(
    cluster: ClusterView, group: str, topic: str, timestamp_ms: int, *, force: bool
) -> dict[MessageQueue, int]:
    """Moves the group to a time (-1: the end) in all queues of the topic, and returns where it goes
    on."""
    found: dict[MessageQueue, int] = {}
    fields = {"group": group, "topic": topic, "timestamp": timestamp_ms, "isForce": force}
    for name in sorted({each.broker_name for each in cluster.route(topic).readable()}):
        address = cluster.address_of(name)
        reply = cluster.call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        table = fastjson.loads_object(reply.body).get("offsetTable") or {}
        found |= {queue: int(offset) for queue, offset in table.items()
                  if isinstance(queue, MessageQueue)}  # fmt: skip
    return found


def move_offset(cluster: ClusterView, group: str, queue: MessageQueue, offset: int) -> None:
    """Sets the group's committed offset as commit_offset() does. If the broker can reset a single
    queue, members that are online go there, too. RemoteError: the broker cannot, and members are
    online."""
    address = cluster.address_of(queue.broker_name)
    if broker_settings(cluster, address).get("useServerSideResetOffset") == "true":
        fields = {
            "group": group, "topic": queue.topic, "timestamp": -1, "isForce": True,
            "queueId": queue.queue_id, "offset": offset,
        }  # fmt: skip
        cluster.call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        return
    # Such a broker would read only the timestamp, and move the group to the end of every queue.
    if group_members(cluster, group):
        raise RemoteError(
            ResponseCode.SYSTEM_ERROR,
            f"{queue.broker_name} resets no single queue (useServerSideResetOffset), and members "
            f"of group {group} are online, which would go on where they are: stop them first",
        )
    commit_offset(cluster, group, queue, offset)


def _offset(
    cluster: ClusterView, code: int, queue: MessageQueue, more: Mapping[str, Any] | None = None
) -> int:
    fields = {"topic": queue.topic, "queueId": queue.queue_id, **(more or {})}
    reply = cluster.call_any(queue.broker_name, code, fields)
    return int(reply.int_field("offset"))


# ---- brokers


def runtime_info(cluster: ClusterView, broker: BrokerEntry, detail: str = "") -> dict[str, str]:
    """The broker's figures about itself, by RocketMQ's names. detail: "true" or "brief" asks a
    broker of rmq for its sample, too."""
    fields = {"rmqDetail": detail} if detail else None
    reply = _call(cluster, broker, RequestCode.GET_BROKER_RUNTIME_INFO, fields)
    table = fastjson.loads_object(reply.body).get("table") or {}
    return {str(name): str(value) for name, value in table.items()}


def broker_settings(cluster: ClusterView, address: str) -> dict[str, str]:
    """The broker's configuration, in the form of its property file."""
    reply = cluster.call(address, RequestCode.GET_BROKER_CONFIG)
    pairs = (line.partition("=") for line in reply.body.decode("utf-8", "replace").splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _ask(
    cluster: ClusterView, broker: BrokerEntry, code: int, fields: Mapping[str, Any]
) -> Command:
    """The answer, whatever its code."""
    assert broker.master is not None
    return cluster.ask(broker.master, code, fields)


def _call(
    cluster: ClusterView,
    broker: BrokerEntry,
    code: int,
    fields: Mapping[str, Any] | None = None,
    body: bytes = b"",
) -> Command:
    assert broker.master is not None
    return cluster.call(broker.master, code, fields, body)


def queue_table(body: bytes) -> dict[MessageQueue, dict[str, Any]]:
    """The offsetTable of answers to 202 and 208."""
    table = fastjson.loads_object(body).get("offsetTable") or {}
    return {
        queue: row
        for queue, row in table.items()
        if isinstance(queue, MessageQueue) and isinstance(row, dict)
    }
