"""Survey: asks brokers and name servers what there is, for plans. Nothing is changed.

    survey = Survey(cluster)
    state = survey.state()                            ClusterState
    left = survey.unconsumed("broker-b", state.system)

A broker that does not answer is in the state without its tables. What a broker of an older version
does not know (modes of consumers, before 5.0) is empty in the state, and None among what is
unconsumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rmq import java_properties, names
from rmq.client.blocking.admin import queue_table
from rmq.client.blocking.answers import converted
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.codes import PERM_READ, RequestCode, ResponseCode
from rmq.errors import ConfigError, ProtocolError, RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.scaling.cluster_state import BrokerState, ClusterState, Pair, TopicSettings
from rmq.scaling.unconsumed import DELAYED, HALVES, TIMED, Member, Unconsumed, count

ALIVE_S = 2.0  # a broker that gives no answer for so long is away
ANSWER_S = 5.0
GONE = (UnreachableError, ProtocolError)


class _Topic(msgspec.Struct):
    readQueueNums: int = 16
    writeQueueNums: int = 16
    perm: int = 6
    order: bool = False
    topicFilterType: str = "SINGLE_TAG"
    topicSysFlag: int = 0
    attributes: dict[str, str] | None = None


class _Topics(msgspec.Struct):
    topicConfigTable: dict[str, _Topic] = {}
    topicQueueMappingDetailMap: dict[str, Any] | None = None


class _Groups(msgspec.Struct):
    subscriptionGroupTable: dict[str, dict[str, Any]] = {}
    forbiddenTable: dict[str, dict[str, int]] | None = None


class _Mode(msgspec.Struct):
    mode: str = "PULL"
    popShareQueueNum: int = 0


class _Modes(msgspec.Struct):
    messageRequestModeMap: dict[str, dict[str, _Mode]] | None = None


class _Offsets(msgspec.Struct):
    offsetTable: dict[str, dict[int, int]] = {}


class _DelayOffsets(msgspec.Struct):
    offsetTable: dict[int, int] | None = None


class _Members(msgspec.Struct):
    messageModel: str | None = None
    subscriptionTable: dict[str, Any] | None = None


class _Sample(msgspec.Struct):
    half_messages: int = -1


class Survey:
    """Used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # ---- the state

    def state(self) -> ClusterState:
        brokers = {entry.name: self._broker(entry) for entry in self._cluster.brokers()}
        return ClusterState(brokers, self._orders(), self._system(brokers))

    def _broker(self, entry: BrokerEntry) -> BrokerState:
        permissions: dict[str, int] = {}
        controllers: tuple[str, ...] = ()
        pops_in_rocksdb = False
        for _, address in sorted(entry.addresses.items()):
            try:
                settings = self.settings(address)
            except (*GONE, RemoteError):
                continue
            permissions[address] = _permission(settings, address)
            if settings.get("enableControllerMode") == "true" and not controllers:
                named = settings.get("controllerAddr", "").split(";")
                controllers = tuple(each.strip() for each in named if each.strip())
            pops_in_rocksdb |= settings.get("popConsumerKVServiceEnable") == "true"
        if entry.master not in permissions:
            return BrokerState(
                entry.name, entry.cluster, entry.addresses, permissions, controllers=controllers
            )
        at = entry.master
        topics = converted(self._call(at, RequestCode.GET_ALL_TOPIC_CONFIG).body, _Topics, at)
        groups = converted(
            self._call(at, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body, _Groups, at
        )
        return BrokerState(
            entry.name, entry.cluster, entry.addresses, permissions,
            topics={name: _settings(row) for name, row in topics.topicConfigTable.items()},
            static_topics=frozenset(topics.topicQueueMappingDetailMap or ()),
            groups=groups.subscriptionGroupTable,
            forbidden=frozenset(
                (group, topic) for group, rows in (groups.forbiddenTable or {}).items()
                for topic, bits in rows.items() if bits & PERM_READ
            ),
            modes=self._modes(at),
            controllers=controllers,
            pops_in_rocksdb=pops_in_rocksdb,
        )  # fmt: skip

    def settings(self, address: str) -> dict[str, str]:
        body = self._call(address, RequestCode.GET_BROKER_CONFIG, timeout_s=ALIVE_S).body
        try:
            return dict(java_properties.parse(body.decode("utf-8"), address))
        except (UnicodeDecodeError, ConfigError) as error:
            raise ProtocolError(f"{address}: its settings cannot be read: {error}") from None

    def permission(self, address: str) -> int:
        """The brokerPermission of now."""
        return _permission(self.settings(address), address)

    def _modes(self, address: str) -> dict[Pair, tuple[str, int]]:
        reply = self._optional(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        table = converted(reply.body, _Modes, address).messageRequestModeMap if reply else None
        return {
            (topic, group): (row.mode, row.popShareQueueNum)
            for topic, rows in (table or {}).items()
            for group, row in rows.items()
        }

    def _orders(self) -> dict[str, str]:
        fields = {"namespace": names.ORDER_TOPIC_NAMESPACE}
        try:
            reply = self._cluster.name_server_call(RequestCode.GET_KVLIST_BY_NAMESPACE, fields)
        except RemoteError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        table = fastjson.loads_object(reply.body).get("table") or {}
        return {str(topic): str(conf) for topic, conf in table.items()}

    def _system(self, brokers: Mapping[str, BrokerState]) -> frozenset[str]:
        """Topics that are not users'. Names of brokers and clusters are topics, too."""
        found = {*brokers, *(each.cluster for each in brokers.values())}
        for broker in brokers.values():
            found.add(names.reply_topic(broker.cluster))
            if broker.answers and broker.master is not None:
                reply = self._call(broker.master, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
                listed = fastjson.loads_object(reply.body).get("topicList") or []
                found.update(map(str, listed))
        return frozenset(found)

    # ---- what is unconsumed

    def unconsumed(self, name: str, system: frozenset[str]) -> Unconsumed:
        """What is unconsumed at the broker's master now. UnreachableError: it does not answer.

        A message that moves meanwhile is counted at least once: offsets are asked for first, then
        what is on its way inside the broker, and the ends of queues last. A message that failed is
        sent back before its offset moves.
        """
        address = self._cluster.address_of(name)
        topics = converted(
            self._call(address, RequestCode.GET_ALL_TOPIC_CONFIG).body, _Topics, address
        ).topicConfigTable
        groups = converted(
            self._call(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body, _Groups, address
        ).subscriptionGroupTable
        mine = [each for each in topics if not (names.is_system(each) or each in system)]
        revive = [each for each in topics if each.startswith(names.REVIVE_PREFIX)]
        offsets = self._offsets(address)
        levels = self._delay_offsets(address)
        internal = self._internal(address)
        spans = self._spans(address, [*mine, *revive, names.HALF_TOPIC, names.SCHEDULE_TOPIC])
        internal[DELAYED] = _behind(spans.get(names.SCHEDULE_TOPIC, {}), levels)
        if internal[HALVES] is None and names.HALF_TOPIC in spans:
            # The offset of the half queue says up to where all transactions are ended.
            ended = offsets.get(names.HALF_TOPIC, {}).get(names.TRANSACTION_GROUP, {})
            internal[HALVES] = _behind(spans[names.HALF_TOPIC], ended)
        members = self._members(address, list(groups))
        left = count(
            {topic: spans[topic] for topic in mine if topic in spans}, offsets, members,
            groups.keys(), internal,
        )  # fmt: skip
        revived = sum(end for each in revive for _, end in spans.get(each, {}).values())
        return replace(left, ends=left.ends + revived)

    def _offsets(self, address: str) -> dict[str, dict[str, dict[int, int]]]:
        reply = self._call(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        found: dict[str, dict[str, dict[int, int]]] = {}
        for key, queues in converted(reply.body, _Offsets, address).offsetTable.items():
            topic, _, group = key.partition("@")
            found.setdefault(topic, {})[group] = queues
        return found

    def _spans(self, address: str, topics: Sequence[str]) -> dict[str, dict[int, tuple[int, int]]]:
        rows = [{"topic": topic} for topic in topics]
        replies = self._ask_all(address, RequestCode.GET_TOPIC_STATS_INFO, rows)
        return {
            topic: {
                queue.queue_id: (int(row.get("minOffset", 0)), int(row.get("maxOffset", 0)))
                for queue, row in queue_table(reply.body).items()
            }
            for topic, reply in zip(topics, replies, strict=True)
            if reply.code == ResponseCode.SUCCESS  # else deleted meanwhile
        }

    def _members(self, address: str, groups: Sequence[str]) -> dict[str, Member]:
        rows = [{"consumerGroup": group} for group in groups]
        replies = self._ask_all(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, rows)
        found = {}
        for group, reply in zip(groups, replies, strict=True):
            if reply.code == ResponseCode.SUCCESS:  # else nobody is online
                said = converted(reply.body, _Members, address)
                found[group] = Member(
                    frozenset(said.subscriptionTable or ()), said.messageModel == "BROADCASTING"
                )
        return found

    def _delay_offsets(self, address: str) -> dict[int, int]:
        """For each queue of delayed messages the offset of the first one that was not delivered.

        Runtime info has these offsets, too, but not for a level of which RocketMQ has delivered
        nothing yet.
        """
        reply = self._call(address, RequestCode.GET_ALL_DELAY_OFFSET)
        table = converted(reply.body, _DelayOffsets, address).offsetTable or {}
        return {level - 1: offset for level, offset in table.items()}

    def _internal(self, address: str) -> dict[str, int | None]:
        fields = {"rmqDetail": "brief"}  # brokers of RocketMQ do not look at it
        reply = self._call(address, RequestCode.GET_BROKER_RUNTIME_INFO, fields)
        table = fastjson.loads_object(reply.body).get("table") or {}
        timed: int | None = None
        if "timerCongestNum" in table:
            timed = _number(table["timerCongestNum"]) + _number(table.get("timerOffsetBehind"))
        halves: int | None = None
        if isinstance(text := table.get("rmqSample"), str):
            told = converted(text.encode(), _Sample, address).half_messages
            halves = told if told >= 0 else None
        return {DELAYED: None, TIMED: timed, HALVES: halves}

    # ---- requests

    def _ask_all(
        self, address: str, code: RequestCode, rows: Sequence[Mapping[str, Any]]
    ) -> list[Command]:
        with self._cluster.reaching(address):
            return self._cluster.connect(address).ask_all(code, rows)

    def _optional(self, address: str, code: RequestCode) -> Command | None:
        """The reply; None: the broker's version does not know the request."""
        reply = self._cluster.ask(address, code, timeout_s=ANSWER_S)
        return reply if reply.code == ResponseCode.SUCCESS else None

    def _call(
        self, address: str, code: RequestCode, fields: Mapping[str, Any] | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Command:  # fmt: skip
        try:
            return self._cluster.call(address, code, fields, timeout_s=timeout_s)
        except RemoteError as error:
            raise RemoteError(error.code, f"{address}: {error.remark}") from None


def _settings(row: _Topic) -> TopicSettings:
    return TopicSettings(
        row.readQueueNums, row.writeQueueNums, row.perm, row.order, row.topicFilterType,
        row.topicSysFlag, tuple(sorted((row.attributes or {}).items())),
    )  # fmt: skip


def _permission(settings: Mapping[str, str], address: str) -> int:
    text = settings.get("brokerPermission", "").strip()
    if not text.isdecimal() or len(text) > 3:
        raise ProtocolError(f"{address}: brokerPermission is {text[:50]!r}, not a permission")
    return int(text)


def _behind(spans: Mapping[int, tuple[int, int]], offsets: Mapping[int, int]) -> int:
    return sum(max(0, end - max(first, offsets.get(queue_id, 0)))
               for queue_id, (first, end) in spans.items())  # fmt: skip


def _number(text: object) -> int:
    digits = str(text).strip()
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0
