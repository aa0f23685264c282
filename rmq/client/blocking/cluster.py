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
from typing import Any

from rmq.client.blocking.connection import Connection
from rmq.client.connection.routes import BrokerEntry, QueueEntry, Route, broker_entry, parse_route
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.remoting import Command

__all__ = ["BrokerEntry", "Cluster", "QueueEntry", "Route"]


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
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                text = f"{address}: {error.remark.strip()}; a broker, and no name server?"
                raise RemoteError(error.code, text) from None
        raise UnreachableError("no name server answers: " + "; ".join(failures))

    def route(self, topic: str) -> Route:
        """The topic's queues and brokers; RemoteError with code 17 when it has none."""
        reply = self.name_server_call(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": True}
        )
        route = parse_route(topic, reply.body)
        self._remember(route.brokers)
        return route

    def brokers(self) -> list[BrokerEntry]:
        """Every registered broker, by cluster and name."""
        reply = self.name_server_call(RequestCode.GET_BROKER_CLUSTER_INFO)
        table = fastjson.loads_object(reply.body).get("brokerAddrTable") or {}
        found = {name: broker_entry({"brokerName": name} | row) for name, row in table.items()}
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
            raise RemoteError(
                ResponseCode.BROKER_NOT_EXIST, f"broker {name} is not registered or has no master"
            )
        return self.connect(address)

    def _remember(self, brokers: Mapping[str, BrokerEntry]) -> None:
        for entry in brokers.values():
            if entry.master is not None:
                self._masters[entry.name] = entry.master
