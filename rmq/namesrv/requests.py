"""Requests: what the name server does for each code: one table, one small function per code.

A handler takes the request and the connection it came on and returns the reply; handlers that write
to disk are coroutines. ProtocolError and ConfigError become SYSTEM_ERROR with their text, which
names the field or key; any other error is a bug of the name server and is logged.

    100 101 102 219     key-value configuration
    103 104 322 904     brokers: registration, heartbeats, ends
    105                 route of a topic: the one request every client repeats every 30 s
    106 901             brokers by cluster, processes of one broker name
    206 224 304 311-313 lists of topics
    205 327 216 217     changes by operators
    318 319             settings

Example: {"code":105,"extFields":{"topic":"T"}} is answered with TopicRouteData, or with code 17 and
"No topic route info in name server for the topic: T", on which producers try TBW102.
"""

import logging
from collections.abc import Awaitable

import msgspec

from rmq.base import clock
from rmq.codes import VERSION_QUOTED_KEYS, RequestCode, ResponseCode
from rmq.config import Settings
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.namesrv import kv_config, registration, route_json
from rmq.namesrv.kv_config import KvConfig
from rmq.namesrv.route_tables import RouteTables
from rmq.namesrv.topic_queues import QueueData
from rmq.serving.request_table import RequestTable, unexpected
from rmq.serving.runtime_config import Forbidden, RuntimeConfig

_log = logging.getLogger("rmq.namesrv.requests")

_table: RequestTable["Requests"] = RequestTable()
_handles = _table.handles


class Requests:
    """Answers requests from the tables. Owned by the event loop of the name server."""

    def __init__(
        self, settings: Settings, tables: RouteTables, kv: KvConfig, config: RuntimeConfig
    ) -> None:
        self.settings = settings
        self.tables = tables
        self.kv = kv
        self.config = config
        self.started = clock.monotonic()

    def start(self, request: Command, connection: object) -> "Command | Awaitable[Command]":
        """The reply, or a coroutine for it, whose errors the caller passes to failure()."""
        try:
            return _table.start(self, request, connection)
        except Exception as error:
            return failure(request, error)


def failure(request: Command, error: Exception) -> Command:
    """The reply to a request that could not be done."""
    if isinstance(error, Forbidden):
        return request.reply(ResponseCode.NO_PERMISSION, str(error))
    if isinstance(error, (ProtocolError, ConfigError)):
        return request.reply(ResponseCode.SYSTEM_ERROR, str(error))
    if isinstance(error, OSError):
        _log.error("request %d: cannot be kept on disk: %s", request.code, error)
        return request.reply(ResponseCode.SYSTEM_ERROR, f"cannot be kept on disk: {error.strerror}")
    return unexpected(_log, request, error)


# ---- key-value configuration


@_handles(RequestCode.PUT_KV_CONFIG)
async def _put_kv(ns: Requests, request: Command, connection: object) -> Command:
    await ns.kv.put(request.require("namespace"), request.require("key"), request.require("value"))
    return request.reply()


@_handles(RequestCode.GET_KV_CONFIG)
def _get_kv(ns: Requests, request: Command, connection: object) -> Command:
    namespace, key = request.require("namespace"), request.require("key")
    value = ns.kv.get(namespace, key)
    if value is None:
        return request.reply(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}"
        )
    return request.reply(fields={"value": value})


@_handles(RequestCode.DELETE_KV_CONFIG)
async def _delete_kv(ns: Requests, request: Command, connection: object) -> Command:
    await ns.kv.delete(request.require("namespace"), request.require("key"))
    return request.reply()


@_handles(RequestCode.GET_KVLIST_BY_NAMESPACE)
def _list_kv(ns: Requests, request: Command, connection: object) -> Command:
    namespace = request.require("namespace")
    table = ns.kv.table(namespace)
    if table is None:
        return request.reply(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}"
        )
    return request.reply(body=route_json.key_values(table))


# ---- brokers: registration, heartbeats, ends


@_handles(RequestCode.REGISTER_BROKER)
def _register(ns: Requests, request: Command, connection: object) -> Command:
    incoming = registration.read(request)
    forget_unlisted = ns.settings.deleteTopicWithBrokerRegistration
    accepted = ns.tables.register(incoming, connection, forget_unlisted)
    if accepted is None:
        return request.reply(ResponseCode.SYSTEM_ERROR, "register broker failed")
    fields = {
        "haServerAddr": accepted.ha_address or None,
        "masterAddr": accepted.master_address or None,
    }
    body = b""
    if ns.settings.returnOrderTopicConfigToBroker:
        table = ns.kv.table(kv_config.ORDER_TOPICS)
        body = route_json.key_values(table) if table is not None else b""
    return request.reply(fields=fields, body=body)


@_handles(RequestCode.UNREGISTER_BROKER)
def _unregister(ns: Requests, request: Command, connection: object) -> Command:
    request.int_field("brokerId")
    ns.tables.unregister(
        request.require("clusterName"), request.require("brokerAddr"), request.require("brokerName")
    )
    return request.reply()


@_handles(RequestCode.BROKER_HEARTBEAT)
def _heartbeat(ns: Requests, request: Command, connection: object) -> Command:
    request.require("brokerName")
    ns.tables.touch(request.require("clusterName"), request.require("brokerAddr"))
    return request.reply()


@_handles(RequestCode.QUERY_DATA_VERSION)
def _query_data_version(ns: Requests, request: Command, connection: object) -> Command:
    """Whether the broker must register again; the question counts as a sign of life."""
    cluster, address = request.require("clusterName"), request.require("brokerAddr")
    asked = registration.read_data_version(request.body)
    known = ns.tables.data_version(cluster, address)
    ns.tables.touch(cluster, address)
    return request.reply(
        fields={"changed": known != asked},
        body=msgspec.json.encode(known) if known is not None else b"",
    )


# ---- routes


@_handles(RequestCode.GET_ROUTEINFO_BY_TOPIC)
def _route(ns: Requests, request: Command, connection: object) -> Command:
    topic = request.require("topic")
    settings = ns.settings
    if settings.needWaitForService:
        waited = clock.monotonic() - ns.started
        if waited < settings.waitSecondsForService:
            return request.reply(ResponseCode.SYSTEM_ERROR, "name server not ready")
    found = route_json.find_route(ns.tables, topic, settings.supportActingMaster)
    if found is None:
        return request.reply(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}",
        )
    if settings.orderMessageEnable:
        found.order_config = ns.kv.get(kv_config.ORDER_TOPICS, topic)
    zone = request.text_field("__ZONE_NAME")
    if zone and request.bool_field("__ZONE_MODE", False):
        found = found.in_zone(zone)
    quote = request.version >= VERSION_QUOTED_KEYS or request.bool_field(
        "acceptStandardJsonOnly", False
    )
    return request.reply(body=route_json.route(ns.tables, found, quote))


@_handles(RequestCode.GET_BROKER_CLUSTER_INFO)
def _cluster_info(ns: Requests, request: Command, connection: object) -> Command:
    return request.reply(body=route_json.cluster_info(ns.tables))


@_handles(RequestCode.GET_BROKER_MEMBER_GROUP)
def _member_group(ns: Requests, request: Command, connection: object) -> Command:
    cluster, name = request.require("clusterName"), request.require("brokerName")
    return request.reply(body=route_json.member_group(ns.tables, cluster, name))


# ---- lists of topics


@_handles(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
def _all_topics(ns: Requests, request: Command, connection: object) -> Command:
    if not ns.settings.enableAllTopicList:
        return request.reply(ResponseCode.SYSTEM_ERROR, "disable")
    return request.reply(body=route_json.topic_list(ns.tables.topics.topics()))


@_handles(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def _system_topics(ns: Requests, request: Command, connection: object) -> Command:
    return request.reply(body=route_json.system_topics(ns.tables))


def _listed(ns: Requests, request: Command, topics: list[str]) -> Command:
    if not ns.settings.enableTopicList:
        return request.reply(ResponseCode.SYSTEM_ERROR, "disable")
    return request.reply(body=route_json.topic_list(topics))


@_handles(RequestCode.GET_TOPICS_BY_CLUSTER)
def _topics_by_cluster(ns: Requests, request: Command, connection: object) -> Command:
    return _listed(ns, request, ns.tables.topics_of_cluster(request.require("cluster")))


@_handles(RequestCode.GET_UNIT_TOPIC_LIST)
def _unit_topics(ns: Requests, request: Command, connection: object) -> Command:
    return _listed(ns, request, ns.tables.topics.unit_topics())


@_handles(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
def _unit_subscribed(ns: Requests, request: Command, connection: object) -> Command:
    return _listed(ns, request, ns.tables.topics.unit_subscribed_topics())


@_handles(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
def _unit_subscribed_plain(ns: Requests, request: Command, connection: object) -> Command:
    return _listed(ns, request, ns.tables.topics.unit_subscribed_plain_topics())


# ---- changes by operators


@_handles(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
def _wipe_write(ns: Requests, request: Command, connection: object) -> Command:
    name = request.require("brokerName")
    count = ns.tables.topics.change_write_permission(name, False)
    _log.info("write permission of %s taken: %d topics", name, count)
    return request.reply(fields={"wipeTopicCount": count})


@_handles(RequestCode.ADD_WRITE_PERM_OF_BROKER)
def _add_write(ns: Requests, request: Command, connection: object) -> Command:
    name = request.require("brokerName")
    count = ns.tables.topics.change_write_permission(name, True)
    _log.info("write permission of %s given: %d topics", name, count)
    return request.reply(fields={"addTopicCount": count})


@_handles(RequestCode.DELETE_TOPIC_IN_NAMESRV)
def _delete_topic(ns: Requests, request: Command, connection: object) -> Command:
    topic = request.require("topic")
    ns.tables.remove_topic(topic, request.text_field("clusterName"))
    _log.info("topic %s deleted", topic)
    return request.reply()


@_handles(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
def _register_topic(ns: Requests, request: Command, connection: object) -> Command:
    topic = request.require("topic")
    queues = fastjson.request_object(request.body).get("queueDatas") if request.body else None
    try:
        rows = msgspec.convert(queues or [], list[QueueData], strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"queueDatas: {error}") from None
    if not ns.tables.put_topic(topic, rows):
        _log.warning("topic %s registered by hand for a broker that is not known", topic)
    return request.reply()


# ---- settings


@_handles(RequestCode.UPDATE_NAMESRV_CONFIG)
async def _update_config(ns: Requests, request: Command, connection: object) -> Command:
    told = await ns.config.update(request.body)
    return request.reply(remark=told or None)


@_handles(RequestCode.GET_NAMESRV_CONFIG)
def _get_config(ns: Requests, request: Command, connection: object) -> Command:
    return request.reply(body=ns.config.text())
