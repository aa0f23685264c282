"""The view from the name servers: which brokers there are and which queues a topic has.

    cluster = Cluster("127.0.0.1:9876;127.0.0.1:9877")
    route = cluster.route("orders")
    for queue in route.writable(): ...        MessageQueue(topic, broker_name, queue_id)
    cluster.broker("broker-a").call(...)      the connection to that broker's master

Name servers are asked in the order given until one answers. Connections are kept until `close`;
a broken one is replaced at the next use. Used by one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmq.client.connection import Connection
from rmq.codes import RequestCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command

PERM_READ, PERM_WRITE = 4, 2
MASTER = 0


@dataclass(frozen=True)
class BrokerEntry:
    """One broker name: its cluster and the address per broker id (0 is the master)."""

    name: str
    cluster: str
    addresses: dict[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER)


@dataclass(frozen=True)
class QueueEntry:
    """What one broker says of one topic."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


@dataclass(frozen=True)
class Route:
    """Where a topic lives."""

    topic: str
    brokers: dict[str, BrokerEntry]
    entries: list[QueueEntry] = field(default_factory=list)

    def readable(self) -> list[MessageQueue]:
        """All queues one may pull from."""
        return [
            MessageQueue(self.topic, entry.broker_name, queue_id)
            for entry in self.entries
            if entry.perm & PERM_READ and self._has_master(entry)
            for queue_id in range(entry.read_queues)
        ]

    def writable(self) -> list[MessageQueue]:
        """All queues one may send to."""
        return [
            MessageQueue(self.topic, entry.broker_name, queue_id)
            for entry in self.entries
            if entry.perm & PERM_WRITE and self._has_master(entry)
            for queue_id in range(entry.write_queues)
        ]

    def _has_master(self, entry: QueueEntry) -> bool:
        broker = self.brokers.get(entry.broker_name)
        return broker is not None and broker.master is not None


class Cluster:
    """Name servers by address, brokers by name, one connection to each at most."""

    def __init__(self, namesrv: str) -> None:
        self.name_servers = [part.strip() for part in namesrv.split(";") if part.strip()]
        if not self.name_servers:
            raise ProtocolError("no name server given: host:port, several separated by ';'")
        self._connections: dict[str, Connection] = {}
        self._masters: dict[str, str] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, address: str) -> Connection:
        """The kept connection to this address, a new one when it is gone."""
        connection = self._connections.get(address)
        if connection is None or connection.fileno() < 0:
            connection = self._connections[address] = Connection(address)
        return connection

    def name_server_call(
        self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b""
    ) -> Command:
        """Asks the first name server that answers."""
        failures = []
        for address in self.name_servers:
            try:
                return self.connect(address).call(code, fields, body)
            except UnreachableError as error:
                failures.append(str(error))
        raise UnreachableError("no name server answers: " + "; ".join(failures))

    def route(self, topic: str) -> Route:
        """The topic's queues and brokers; RemoteError with code 17 when it has none."""
        reply = self.name_server_call(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": True}
        )
        data = fastjson.loads_object(reply.body)
        brokers = {entry.name: entry for entry in map(_broker_entry, _rows(data, "brokerDatas"))}
        entries = [
            QueueEntry(
                str(row.get("brokerName")),
                _count(row, "readQueueNums"),
                _count(row, "writeQueueNums"),
                _count(row, "perm"),
            )
            for row in _rows(data, "queueDatas")
        ]
        self._remember(brokers)
        return Route(topic, brokers, sorted(entries, key=lambda entry: entry.broker_name))

    def brokers(self) -> list[BrokerEntry]:
        """Every registered broker, by cluster and name."""
        reply = self.name_server_call(RequestCode.GET_BROKER_CLUSTER_INFO)
        table = fastjson.loads_object(reply.body).get("brokerAddrTable") or {}
        found = {name: _broker_entry({"brokerName": name} | row) for name, row in table.items()}
        self._remember(found)
        return sorted(found.values(), key=lambda entry: (entry.cluster, entry.name))

    def masters(self, cluster: str | None = None) -> list[BrokerEntry]:
        """The brokers (of one cluster) whose master is alive; at least one, or UnreachableError."""
        brokers = [entry for entry in self.brokers() if cluster in (None, entry.cluster)]
        alive = [entry for entry in brokers if entry.master is not None]
        if not alive:
            where = f"of cluster {cluster} " if cluster else ""
            raise UnreachableError(f"no broker {where}is registered at {self.name_servers[0]}")
        return alive

    def topics(self) -> list[str]:
        """The names of all topics the name server knows."""
        reply = self.name_server_call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(set(map(str, fastjson.loads_object(reply.body).get("topicList") or [])))

    def broker(self, name: str) -> Connection:
        """The connection to the master of this broker name."""
        if name not in self._masters:
            self.brokers()
        address = self._masters.get(name)
        if address is None:
            raise RemoteError(211, f"broker {name} is not registered or has no master")
        return self.connect(address)

    def _remember(self, brokers: Mapping[str, BrokerEntry]) -> None:
        for entry in brokers.values():
            if entry.master is not None:
                self._masters[entry.name] = entry.master


def _broker_entry(row: Mapping[str, Any]) -> BrokerEntry:
    addresses = row.get("brokerAddrs") or {}
    try:
        by_id = {int(key): str(address) for key, address in addresses.items()}
    except (ValueError, AttributeError):
        raise ProtocolError("the name server's answer holds a broken broker entry") from None
    return BrokerEntry(str(row.get("brokerName")), str(row.get("cluster")), by_id)


def _rows(data: Mapping[Any, Any], name: str) -> list[dict[str, Any]]:
    rows = data.get(name) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProtocolError(f"{name} in the name server's answer is not a list of objects")
    return rows


def _count(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name, 0)
    if not isinstance(value, int) or not 0 <= value <= 1 << 20:
        raise ProtocolError(f"{name} in the name server's answer is {value!r}")
    return value
