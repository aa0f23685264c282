"""Route JSON: the name server's answers, byte for byte as Java's and Go's clients read them.

Route of a topic (105), without blanks, because Go cuts brokerAddrs at "," and ":" by hand:
    {"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C",
     "enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a",
     "perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}
The broker ids are bare integers for clients older than 4.9.4, which write them so themselves, and
quoted ("0") for those from 4.9.4 on or when the request asks for standard JSON.

Members are in alphabetical order; unknown ones (orderTopicConf, zoneName) are left out.
"""

from typing import Any

import msgspec

from rmq.codes import PERM_WRITE
from rmq.format import fastjson
from rmq.names import BROKER_MEMBER_PREFIX
from rmq.namesrv.registration import MASTER_ID
from rmq.namesrv.route_tables import Broker, RouteTables
from rmq.namesrv.topic_queues import QueueData


class Route(msgspec.Struct):
    """What a client is told of one topic, before it is made into JSON."""

    topic: str
    rows: list[QueueData]
    brokers: list[Broker]
    order_config: str | None = None

    def in_zone(self, zone: str) -> "Route":
        """Only the brokers of the client's zone, and those whose master is down."""
        kept = [
            broker
            for broker in self.brokers
            if MASTER_ID not in broker.addresses or (broker.zone or "").lower() == zone.lower()
        ]
        dropped = {broker.name for broker in self.brokers} - {broker.name for broker in kept}
        rows = [row for row in self.rows if row.brokerName not in dropped]
        return Route(self.topic, rows, kept, self.order_config)


def find_route(tables: RouteTables, topic: str, acting_masters: bool) -> Route | None:
    """The route of a topic that some live broker holds; None when there is none.

    With acting masters, a group whose master is gone and to which nobody may write shows its slave
    with the smallest id as master, so that old clients keep consuming.
    """
    rows = sorted(tables.topics.rows(topic).values(), key=lambda row: row.brokerName)
    brokers = [tables.brokers[row.brokerName] for row in rows if row.brokerName in tables.brokers]
    if not brokers:
        return None
    # Brokers ask for their own group by a topic with this prefix, and must see it as it is.
    if acting_masters and not topic.startswith(BROKER_MEMBER_PREFIX):
        readonly = {row.brokerName for row in rows if not row.perm & PERM_WRITE}
        brokers = [_with_acting_master(b) if b.name in readonly else b for b in brokers]
    return Route(topic, rows, brokers)


def _with_acting_master(broker: Broker) -> Broker:
    if MASTER_ID in broker.addresses or not broker.enable_acting_master:
        return broker
    addresses = dict(broker.addresses)
    addresses[MASTER_ID] = addresses.pop(broker.smallest_id)
    return Broker(broker.name, broker.cluster, addresses, broker.zone, True)


def route(tables: RouteTables, found: Route, quote_keys: bool) -> bytes:
    """TopicRouteData."""
    members: dict[str, Any] = {
        "brokerDatas": [_broker(broker) for broker in found.brokers],
        "filterServerTable": _filter_servers(tables, found.brokers),
        "orderTopicConf": found.order_config,
        "queueDatas": found.rows,
        "topicQueueMappingByBroker": tables.topics.mappings(found.topic),
    }
    return fastjson.dumps(members, quote_integer_keys=quote_keys)


def _broker(broker: Broker) -> dict[str, Any]:
    return {
        "brokerAddrs": broker.addresses,
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
        "zoneName": broker.zone,
    }


def _filter_servers(tables: RouteTables, brokers: list[Broker]) -> dict[str, list[str]]:
    found = {}
    for broker in brokers:
        for address in broker.addresses.values():
            live = tables.live.get((broker.cluster, address))
            if live is not None and live.filter_servers:
                found[address] = live.filter_servers
    return found


def cluster_info(tables: RouteTables) -> bytes:
    """ClusterInfo (106): all brokers and all clusters."""
    return fastjson.dumps(
        {
            "brokerAddrTable": {name: _broker(broker) for name, broker in tables.brokers.items()},
            "clusterAddrTable": {name: sorted(held) for name, held in tables.clusters.items()},
        }
    )


def member_group(tables: RouteTables, cluster: str, broker_name: str) -> bytes:
    """BrokerMemberGroup (901): the processes of one broker name."""
    broker = tables.brokers.get(broker_name)
    group = {
        "brokerAddrs": broker.addresses if broker is not None else {},
        "brokerName": broker_name,
        "cluster": cluster,
    }
    return fastjson.dumps({"brokerMemberGroup": group})


def topic_list(topics: list[str], broker_address: str | None = None) -> bytes:
    """TopicList; with the address of some broker where the client needs one to go on."""
    members: dict[str, Any] = {"topicList": topics}
    if broker_address is not None:
        members = {"brokerAddr": broker_address, **members}
    return msgspec.json.encode(members)


def system_topics(tables: RouteTables) -> bytes:
    """TopicList (304): every cluster and every broker name is a system topic."""
    names = set(tables.clusters)
    for held in tables.clusters.values():
        names |= held
    first = next(iter(tables.brokers.values()), None)
    return topic_list(sorted(names), first.addresses[first.smallest_id] if first else None)


def key_values(table: dict[str, str]) -> bytes:
    """KVTable."""
    return fastjson.dumps({"table": table})
