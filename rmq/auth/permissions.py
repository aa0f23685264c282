"""Permissions: for each request code the resources that a request touches, and the actions that it
needs there. A code without a row is refused for everybody: a new code is closed until somebody adds
its row.

    10 SEND_MESSAGE     the topic: Pub            a retry topic: its group: Sub
    11 PULL_MESSAGE     the topic and the group: Sub
    34 HEART_BEAT       each group of consumers and each of their topics: Sub
    17 create a topic   the topic: Create
    25 set the config   the cluster: Update

RocketMQ's brokers let every account do what their table leaves out (reading all offsets, deleting
files, changing the configuration). Here these codes have rows, too, and need the cluster: Get to
read something of it, Update to change it.

A retry topic counts as its group (resource.py), so that a user who may consume by one group can
neither read nor fill the retry topic of another.

A row reads the request. If it finds no resources in it, any account may send the request.
ProtocolError: something required is missing, or there is more than is served; then nobody may send
it. The number of resources is checked before their permissions: a frame has room for so many that
checking each would keep everybody waiting.

Example: wanted(Command(code=310, fields={"a": "g", "b": "t"}), "DefaultCluster") is
[Wanted(topic("t"), {PUB})].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from rmq import names
from rmq.auth.authorization import Wanted
from rmq.auth.policy import Action
from rmq.auth.resource import Resource, cluster, group, topic
from rmq.codes import RequestCode as Code
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.limits import HEARTBEAT_GROUPS_MAX, HEARTBEAT_SUBSCRIPTIONS_MAX, LOCKED_QUEUES_MAX

Row = Callable[[Command, str], Iterable[Wanted]]

PUB, SUB = frozenset((Action.PUB,)), frozenset((Action.SUB,))
CREATE, UPDATE = frozenset((Action.CREATE,)), frozenset((Action.UPDATE,))
DELETE, GET = frozenset((Action.DELETE,)), frozenset((Action.GET,))
ANY_USE = PUB | SUB | GET
# Resources of one request. A heartbeat may have the most, 4096 groups and 8192 topics; requests
# that make topics or groups may have 10,000. Locks are of queues of few topics.
WANTED_MAX = 20_000


def wanted(command: Command, own_cluster: str) -> list[Wanted]:
    """What the request wants; ProtocolError: its code has no row, or it cannot be read."""
    row = ROWS.get(command.code)
    if row is None:
        raise ProtocolError(f"request type {command.code} is open to nobody")
    try:
        found = list(islice(row(command, own_cluster), WANTED_MAX + 1))
    except (TypeError, AttributeError, KeyError) as error:
        raise ProtocolError(f"parse authorization context error: {error}") from None
    if len(found) > WANTED_MAX:
        raise ProtocolError(f"a request about more than {WANTED_MAX} topics and groups")
    return found


# ---- the parts of rows


def _of_servers(command: Command, _: str) -> Iterable[Wanted]:
    """Only for servers, which sign as a Super user and register their addresses. Other servers send
    signed requests to these addresses, so whoever registered his own address could misuse them."""
    raise ProtocolError(f"request type {command.code} is for servers, which sign as a Super user")


def _of_super(command: Command, _: str) -> Iterable[Wanted]:
    """Only for Super users: a request that shows what everybody does, which no entry can allow."""
    raise ProtocolError(f"request type {command.code} is open to Super users alone")


def _topic(actions: frozenset[Action], name: str = "topic", optional: bool = False) -> Row:
    """A topic. A send to a retry topic needs permission to consume by that topic's group, whatever
    group the request names."""

    def row(command: Command, _: str) -> Iterator[Wanted]:
        if not optional or command.text_field(name):
            value = _required(command, name)
            by_group = actions == PUB and names.is_retry(value)
            yield Wanted(topic(value), SUB if by_group else actions)

    return row


def _group(actions: frozenset[Action], name: str = "consumerGroup", optional: bool = False) -> Row:
    def row(command: Command, _: str) -> Iterator[Wanted]:
        if not optional or command.text_field(name):
            yield Wanted(group(_required(command, name)), actions)

    return row


def _each(
    make: Callable[[str], Resource], name: str, separator: str, actions: frozenset[Action]
) -> Row:
    """A field that lists names; it may be missing."""

    def row(command: Command, _: str) -> Iterator[Wanted]:
        for value in (command.text_field(name) or "").split(separator):
            if value.strip():
                yield Wanted(make(value.strip()), actions)

    return row


def _all(*rows: Row) -> Row:
    def row(command: Command, own_cluster: str) -> Iterator[Wanted]:
        for each in rows:
            yield from each(command, own_cluster)

    return row


def _cluster(actions: frozenset[Action], name: str | None = None) -> Row:
    """The cluster that the request names, or this one."""

    def row(command: Command, own_cluster: str) -> Iterator[Wanted]:
        named = command.text_field(name) if name else None
        yield Wanted(cluster(named or own_cluster), actions)

    return row


def _either(is_first: Callable[[Command], object], first: Row, otherwise: Row) -> Row:
    """One of two rows, by what the request's fields say."""

    def row(command: Command, own_cluster: str) -> Iterable[Wanted]:
        return (first if is_first(command) else otherwise)(command, own_cluster)

    return row


def _nothing(command: Command, own_cluster: str) -> Iterator[Wanted]:
    return iter(())


def _body(read: Callable[[Mapping[Any, Any]], Iterable[Wanted]]) -> Row:
    def row(command: Command, _: str) -> Iterable[Wanted]:
        return read(fastjson.request_object(command.body))

    return row


def _heartbeat(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    consumers = _list(body, "consumerDataSet")
    if len(consumers) > HEARTBEAT_GROUPS_MAX:
        raise ProtocolError(f"a heartbeat of more than {HEARTBEAT_GROUPS_MAX} groups")
    left = HEARTBEAT_SUBSCRIPTIONS_MAX
    for consumer in consumers:
        yield Wanted(group(_name(consumer, "groupName")), SUB)
        subscriptions = _list(consumer, "subscriptionDataSet")
        left -= len(subscriptions)
        if left < 0:
            raise ProtocolError(
                f"a heartbeat of more than {HEARTBEAT_SUBSCRIPTIONS_MAX} subscriptions"
            )
        for subscription in subscriptions:
            yield Wanted(topic(_name(subscription, "topic")), SUB)


def _locks(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    """Each topic once, however many of its queues there are."""
    yield Wanted(group(_name(body, "consumerGroup")), SUB)
    queues = _list(body, "mqSet")
    if len(queues) > LOCKED_QUEUES_MAX:
        raise ProtocolError(f"a lock request for more than {LOCKED_QUEUES_MAX} queues")
    for name in dict.fromkeys(_name(queue, "topic") for queue in queues):
        yield Wanted(topic(name), SUB)


def _assignment(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    yield Wanted(group(_name(body, "consumerGroup")), SUB)
    yield Wanted(topic(_name(body, "topic")), SUB)


def _acks(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    for each in _list(body, "acks"):
        yield Wanted(group(_name(each, "c")), SUB)
        yield Wanted(popped_topic(_name(each, "t"), _name(each, "c")), SUB)


def _acked(command: Command, _: str) -> Iterator[Wanted]:
    name, of_group = _required(command, "topic"), _required(command, "consumerGroup")
    yield Wanted(popped_topic(name, of_group), SUB)


def popped_topic(name: str, of_group: str) -> Resource:
    """The topic of a pop; messages popped again come from %RETRY%group_topic or
    %RETRY%group+topic."""
    popped = names.popped_topic(name, of_group.removeprefix(names.RETRY_PREFIX))
    return topic(name if popped is None else popped)


def _topics(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    for each in _list(body, "topicConfigList"):
        yield Wanted(topic(_name(each, "topicName")), CREATE)


def _groups(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    for each in _list(body, "groupConfigList"):
        yield Wanted(group(_name(each, "groupName")), CREATE)


def _one_group(body: Mapping[Any, Any]) -> Iterator[Wanted]:
    yield Wanted(group(_name(body, "groupName")), CREATE)


def _list(members: Mapping[Any, Any], name: str) -> list[Any]:
    found = members.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ProtocolError(f"parse authorization context error: {name} is no list of objects")
    return found


def _name(members: Mapping[Any, Any], name: str) -> str:
    found = members.get(name)
    if not isinstance(found, str) or not found:
        raise _missing(name)
    return found


def _required(command: Command, name: str) -> str:
    found = command.text_field(name)
    if not found:
        raise _missing(name)
    return found


def _missing(name: str) -> ProtocolError:
    return ProtocolError(f"parse authorization context error: {name} is missing")


_CLUSTER_GET, _CLUSTER_UPDATE = _cluster(GET), _cluster(UPDATE)
_CONSUME = _all(_topic(SUB), _group(SUB))
_POP = _all(_group(SUB), _topic(SUB))
_ACK = _all(_group(SUB), _acked)

# ---- the rows

ROWS: dict[int, Row] = {
    # messages
    Code.SEND_MESSAGE: _topic(PUB),
    Code.SEND_MESSAGE_V2: _topic(PUB, "b"),
    Code.SEND_BATCH_MESSAGE: _topic(PUB, "b"),
    Code.SEND_REPLY_MESSAGE: _topic(PUB),
    Code.SEND_REPLY_MESSAGE_V2: _topic(PUB, "b"),
    Code.RECALL_MESSAGE: _topic(PUB),
    # If it names no topic, control looks at the message (as with 37 of clients before 5.0).
    Code.CONSUMER_SEND_MSG_BACK: _all(
        _topic(SUB, "originTopic", optional=True), _group(SUB, "group")
    ),
    Code.END_TRANSACTION: _topic(PUB, optional=True),  # clients before 5.0 do not name it
    Code.PULL_MESSAGE: _CONSUME,
    Code.LITE_PULL_MESSAGE: _CONSUME,
    Code.POP_MESSAGE: _POP,
    Code.ACK_MESSAGE: _ACK,
    Code.PEEK_MESSAGE: _POP,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _ACK,
    Code.NOTIFICATION: _POP,
    Code.BATCH_ACK_MESSAGE: _body(_acks),
    Code.POLLING_INFO: _all(_group(GET), _topic(GET)),
    Code.QUERY_MESSAGE: _topic(SUB | GET),
    # clients
    Code.HEART_BEAT: _body(_heartbeat),
    Code.UNREGISTER_CLIENT: _group(SUB, optional=True),
    Code.CHECK_CLIENT_CONFIG: _nothing,  # of a filter's syntax
    Code.GET_CONSUMER_LIST_BY_GROUP: _group(SUB | GET),
    Code.LOCK_BATCH_MQ: _body(_locks),
    Code.UNLOCK_BATCH_MQ: _body(_locks),
    Code.QUERY_ASSIGNMENT: _body(_assignment),
    # offsets
    Code.QUERY_CONSUMER_OFFSET: _all(_topic(SUB | GET), _group(SUB | GET)),
    Code.UPDATE_CONSUMER_OFFSET: _all(_topic(SUB | UPDATE), _group(SUB | UPDATE)),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _topic(SUB | GET),
    Code.GET_MAX_OFFSET: _topic(SUB | GET),
    Code.GET_MIN_OFFSET: _topic(SUB | GET),
    Code.GET_EARLIEST_MSG_STORETIME: _topic(SUB | GET),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _all(_group(UPDATE, "group"), _topic(UPDATE)),
    Code.CLONE_GROUP_OFFSET: _all(
        _group(GET, "srcGroup", optional=True),
        _group(UPDATE, "destGroup"),
        _topic(UPDATE, optional=True),  # without one, each copied topic needs Update (offsets.py)
    ),
    Code.QUERY_CORRECTION_OFFSET: _all(
        _each(group, "filterGroups", ",", GET), _group(GET, "compareGroup"), _topic(GET)
    ),
    # topics and groups
    Code.UPDATE_AND_CREATE_TOPIC: _topic(CREATE),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _body(_topics),
    Code.DELETE_TOPIC_IN_BROKER: _topic(DELETE),
    Code.GET_TOPIC_CONFIG: _topic(GET),
    Code.GET_TOPIC_STATS_INFO: _topic(GET),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _topic(GET),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _topic(GET),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _body(_one_group),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _body(_groups),
    Code.DELETE_SUBSCRIPTIONGROUP: _group(DELETE, "groupName"),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _group(GET, "group"),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _all(_group(UPDATE, "group"), _topic(UPDATE)),
    Code.QUERY_TOPICS_BY_CONSUMER: _group(GET, "group"),
    Code.GET_CONSUMER_CONNECTION_LIST: _group(GET),
    Code.GET_CONSUMER_RUNNING_INFO: _group(GET),
    Code.GET_CONSUME_STATS: _all(
        _group(GET), _topic(GET, optional=True), _each(topic, "topicList", ";", GET)
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _all(_group(GET, "group"), _topic(GET)),
    Code.QUERY_CONSUME_TIME_SPAN: _all(_group(GET, "group"), _topic(GET)),
    Code.QUERY_CONSUME_QUEUE: _all(_group(GET, optional=True), _topic(GET)),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _all(_group(GET, "group"), _topic(GET)),
    Code.CONSUME_MESSAGE_DIRECTLY: _all(_group(SUB), _topic(SUB, optional=True)),
    Code.RESUME_CHECK_HALF_MESSAGE: _topic(UPDATE),
    # A message by its place in the log; if no topic is named, it may be of any topic.
    Code.VIEW_MESSAGE_BY_ID: _either(
        lambda command: command.text_field("topic"), _topic(GET), _CLUSTER_GET
    ),
    # routes: for users that may use the topic in any way; that of the template topic for everybody
    Code.GET_ROUTEINFO_BY_TOPIC: _either(
        lambda command: command.text_field("topic") == names.AUTO_CREATE_TOPIC,
        _nothing,
        _topic(ANY_USE),
    ),
    # name servers
    Code.GET_KV_CONFIG: _CLUSTER_GET,
    Code.GET_KVLIST_BY_NAMESPACE: _CLUSTER_GET,
    Code.PUT_KV_CONFIG: _CLUSTER_UPDATE,
    Code.DELETE_KV_CONFIG: _CLUSTER_UPDATE,
    Code.REGISTER_BROKER: _of_servers,
    Code.UNREGISTER_BROKER: _cluster(UPDATE, "clusterName"),
    Code.QUERY_DATA_VERSION: _cluster(UPDATE, "clusterName"),  # it is a sign of life as well
    Code.BROKER_HEARTBEAT: _of_servers,
    Code.GET_BROKER_MEMBER_GROUP: _cluster(GET, "clusterName"),
    Code.DELETE_TOPIC_IN_NAMESRV: _cluster(UPDATE, "clusterName"),
    Code.REGISTER_TOPIC_IN_NAMESRV: _CLUSTER_UPDATE,
    Code.WIPE_WRITE_PERM_OF_BROKER: _CLUSTER_UPDATE,
    Code.ADD_WRITE_PERM_OF_BROKER: _CLUSTER_UPDATE,
    Code.UPDATE_NAMESRV_CONFIG: _CLUSTER_UPDATE,
    Code.GET_NAMESRV_CONFIG: _CLUSTER_GET,
    # controllers
    Code.CONTROLLER_ELECT_MASTER: _cluster(UPDATE, "clusterName"),
    Code.CONTROLLER_REGISTER_BROKER: _of_servers,
    Code.CLEAN_BROKER_DATA: _cluster(UPDATE, "clusterName"),
    Code.CONTROLLER_GET_NEXT_BROKER_ID: _cluster(GET, "clusterName"),
    Code.CONTROLLER_APPLY_BROKER_ID: _of_servers,
    # A master renews its lease with it, or resigns.
    Code.CONTROLLER_GET_REPLICA_INFO: _either(
        lambda command: "rmqBrokerId" in command.fields, _of_servers, _CLUSTER_GET
    ),
    # accounts; further rules about what users may see and change are in rmq/auth/accounts.py
    **{code: _CLUSTER_UPDATE for code in (
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
    )},
    **{code: _CLUSTER_GET for code in (
        Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
    )},
    Code.GET_AUDIT_LOG: _of_super,
    # requests that show something of the whole cluster, or of all topics or groups
    **{code: _CLUSTER_GET for code in (
        Code.QUERY_BROKER_OFFSET, Code.GET_ALL_TOPIC_CONFIG, Code.GET_TOPIC_CONFIG_LIST,
        Code.GET_TOPIC_NAME_LIST, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET, Code.GET_CLIENT_CONFIG,
        Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS, Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.WHO_CONSUME_THE_MESSAGE,
        Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_CONSUME_STATS, Code.GET_ALL_PRODUCER_INFO,
        Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, Code.GET_ALL_MESSAGE_REQUEST_MODE,
        Code.GET_BROKER_HA_STATUS, Code.CONTROLLER_GET_METADATA_INFO,
        Code.CONTROLLER_GET_SYNC_STATE_DATA, Code.GET_BROKER_EPOCH_CACHE,
        Code.GET_CONTROLLER_CONFIG, Code.GET_COLD_DATA_FLOW_CTR_INFO,
    )},
    # requests that change it
    **{code: _CLUSTER_UPDATE for code in (
        Code.UPDATE_BROKER_CONFIG, Code.TRIGGER_DELETE_FILES, Code.ADJUST_CONSUMER_THREAD_POOL,
        Code.REGISTER_FILTER_SERVER, Code.REGISTER_MESSAGE_FILTER_CLASS,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG,
        Code.SET_MESSAGE_REQUEST_MODE, Code.UPDATE_AND_CREATE_STATIC_TOPIC, Code.ADD_BROKER,
        Code.REMOVE_BROKER, Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.EXCHANGE_BROKER_HA_INFO,
        Code.RESET_MASTER_FLUSH_OFFSET, Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        Code.NOTIFY_BROKER_ROLE_CHANGED, Code.UPDATE_CONTROLLER_CONFIG,
        Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.SET_COMMITLOG_READ_MODE, Code.SWITCH_TIMER_ENGINE, Code.POP_ROLLBACK,
    )},
}  # fmt: skip

# Codes that no server of rmq serves: they are for clients, or for another kind of server; or they
# read and changed accounts of ACL 1.0 (50 to 54), which RocketMQ 5.5 does not serve either.
CLOSED = frozenset(
    (
        Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.SUSPEND_CONSUMER,
        Code.RESUME_CONSUMER, Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_BROKER, Code.RESET_CONSUMER_CLIENT_OFFSET,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
        Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_INFO, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG, Code.BROKER_CLOSE_CHANNEL_REQUEST,
        Code.CHECK_NOT_ACTIVE_BROKER_REQUEST, Code.GET_BROKER_LIVE_INFO_REQUEST,
        Code.GET_SYNC_STATE_DATA_REQUEST, Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST,
        Code.POP_LITE_MESSAGE, Code.LITE_SUBSCRIPTION_CTL,
        Code.ACK_LITE_MESSAGE, Code.NOTIFY_UNSUBSCRIBE_LITE, Code.GET_BROKER_LITE_INFO,
        Code.GET_PARENT_TOPIC_INFO, Code.GET_LITE_TOPIC_INFO, Code.GET_LITE_CLIENT_INFO,
        Code.GET_LITE_GROUP_INFO, Code.TRIGGER_LITE_DISPATCH,
    )
)  # fmt: skip
