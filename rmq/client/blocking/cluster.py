"""Cluster: brokers and routes as the name servers know them, and requests to brokers.

    view = ClusterView(["127.0.0.1:9876", "127.0.0.1:9877"], transport)
    route = view.route("orders")
    for queue in route.writable(): ...              MessageQueue(topic, broker_name, queue_id)
    view.call(view.address_of("broker-a"), code)    asks that broker's master
    view.call_any("broker-a", code)                 or another broker of this name if that is away

    cluster = Cluster("127.0.0.1:9876;127.0.0.1:9877")      a view over blocking sockets
    cluster.broker("broker-a").submit(...)                  the connection to that broker's master

Name servers are asked in the given order until one answers. A Cluster keeps its connections until
`close`; a broken one is replaced at its next use. Used by one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from rmq.client.blocking import credentials
from rmq.client.blocking.connection import Connection
from rmq.client.blocking.transport import SocketTransport, Transport
from rmq.client.connection.replicas import Purpose, Replica, Replicas
from rmq.client.connection.routes import (
    NO_NAME_SERVER,
    BrokerEntry,
    QueueData,
    Route,
    broker_entry,
    parse_route,
)
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command, field_texts
from rmq.format.signature import Credentials

GONE_S = 5.0  # until a broker that does not answer is tried again; nothing says that it is back

Answer = TypeVar("Answer")

__all__ = ["BrokerEntry", "Cluster", "ClusterView", "QueueData", "Route"]


class ClusterView:
    """Name servers by address, brokers by name; every request goes over the transport."""

    def __init__(
        self, name_servers: Sequence[str], transport: Transport, replicas: Replicas | None = None
    ) -> None:
        """replicas: which brokers answer, if that is known already."""
        self.name_servers = list(name_servers)
        if not self.name_servers:
            raise ProtocolError("no name server given: host:port, several separated by ';'")
        self._transport = transport
        self._brokers: dict[str, BrokerEntry] = {}
        self._answered: dict[str, Replica] = {}  # by broker name: which has answered call_any()
        self.asker: Credentials | None = None  # the account that asks, if it is known here
        self.replicas = replicas if replicas is not None else Replicas(GONE_S)

    def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> Command:
        """The answer, whatever its code."""
        request = Command(code=int(code), fields=field_texts(fields or {}), body=body)
        with self.reaching(address):
            return self._transport.invoke(address, request, timeout_s)

    @contextmanager
    def reaching(self, address: str) -> Iterator[None]:
        """If the address does not answer in the block, it is asked last for a while."""
        try:
            yield
        except UnreachableError:
            self.replicas.gone(address)
            raise

    def call_any(self, name: str, code: int, fields: Mapping[str, Any] | None = None) -> Command:
        """Asks the master as call() does; if it does not answer, another broker of this name."""
        replica = self.replica_of(name, Purpose.STATE)
        try:
            reply = self.call(replica.address, code, fields)
        except UnreachableError:
            other = self.replica_of(name, Purpose.STATE)
            if other.address == replica.address:
                raise
            replica = other
            reply = self.call(replica.address, code, fields)
        self._answered[name] = replica
        return reply

    def is_of_slave(self, name: str) -> bool:
        """Whether the last answer to call_any() from this name came from a slave."""
        replica = self._answered.get(name)
        return replica is not None and not replica.is_master

    def call(
        self,
        address: str,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> Command:
        """The answer, if its code is SUCCESS; RemoteError for every other code."""
        reply = self.ask(address, code, fields, body, timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise RemoteError(reply.code, reply.remark or "no reason given")
        return reply

    def name_server_call(
        self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b""
    ) -> Command:
        """Asks the first name server that answers."""
        return self._first_to_answer(lambda address: self.call(address, code, fields, body))

    def _first_to_answer(self, ask: Callable[[str], Answer]) -> Answer:
        """Returns ask(address) of the first name server that answers."""
        failures = []
        for address in self.name_servers:
            try:
                return ask(address)
            except UnreachableError as error:
                failures.append(str(error))
            except RemoteError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                text = f"{address}: {error.remark.strip()}; {NO_NAME_SERVER}"
                raise RemoteError(error.code, text) from None
        raise UnreachableError("no name server answers: " + "; ".join(failures))

    def route(self, topic: str) -> Route:
        """The topic's queues and brokers. RemoteError with code 17: there is no such topic."""
        reply = self.name_server_call(RequestCode.GET_ROUTEINFO_BY_TOPIC, _route_fields(topic))
        return self._route_of(topic, reply)

    def _route_of(self, topic: str, reply: Command) -> Route:
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

    def some_broker(self) -> None:
        """UnreachableError: no broker is registered, not even a slave, so that nothing is known."""
        if not self.brokers():
            raise UnreachableError(f"no broker is registered at {self.name_servers[0]}")

    def topics(self) -> list[str]:
        """The names of all topics that the name server knows."""
        reply = self.name_server_call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(set(map(str, fastjson.loads_object(reply.body).get("topicList") or [])))

    def address_of(self, name: str, purpose: Purpose = Purpose.WRITE) -> str:
        """The address at which this broker name is asked."""
        return self.replica_of(name, purpose).address

    def replica_of(self, name: str, purpose: Purpose, queue: MessageQueue | None = None) -> Replica:
        """The broker of this name that must be asked; `queue` is the one that is read."""
        found = self._choose(name, purpose, queue)
        if found is None:
            self.brokers()
            found = self._choose(name, purpose, queue)
        if found is None:
            raise RemoteError(
                ResponseCode.BROKER_NOT_EXIST, f"broker {name} is not registered or has no master"
            )
        return found

    def _choose(self, name: str, purpose: Purpose, queue: MessageQueue | None) -> Replica | None:
        entry = self._brokers.get(name)
        if entry is None:
            return None
        return self.replicas.choose(entry.addresses, purpose, queue)

    def forget(self, name: str) -> str | None:
        """Forgets the broker name, so that the next address_of() asks for it again. Returns the
        master's address until now."""
        entry = self._brokers.pop(name, None)
        return entry.master if entry is not None else None

    def _remember(self, brokers: Mapping[str, BrokerEntry]) -> None:
        self._brokers.update(brokers)


class Cluster(ClusterView):
    """A view over blocking sockets, whose connections callers may also use directly."""

    def __init__(
        self,
        namesrv: str,
        sockets: SocketTransport | None = None,
        replicas: Replicas | None = None,
        account: Credentials | None = None,
    ) -> None:
        """account: signs the requests, over sockets that only this view uses; None: the account of
        the process (credentials.py)."""
        self._sockets = sockets or SocketTransport(partial(Connection, account=account))
        addresses = [part.strip() for part in namesrv.split(";") if part.strip()]
        super().__init__(addresses, self._sockets, replicas)
        self.asker = account if account is not None else credentials.present()

    def close(self) -> None:
        self._sockets.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, address: str) -> Connection:
        """The connection that is kept to this address; a new one if there is none."""
        with self.reaching(address):
            return self._sockets.connect(address)

    def drop(self, address: str) -> None:
        """Closes the connection to this address, if there is one."""
        self._sockets.drop(address)

    def broker(self, name: str) -> Connection:
        """The connection to the master of this broker name."""
        return self.connect(self.address_of(name))

    def routes(self, topics: Sequence[str]) -> list[Route | None]:
        """The routes of many topics, in their order; None for a topic that does not exist."""
        rows = [_route_fields(topic) for topic in topics]

        def ask(address: str) -> list[Command]:
            replies = self.connect(address).ask_all(RequestCode.GET_ROUTEINFO_BY_TOPIC, rows)
            for reply in replies:
                if reply.code not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
                    raise RemoteError(reply.code, reply.remark or "no reason given")
            return replies

        return [
            self._route_of(topic, reply) if reply.code == ResponseCode.SUCCESS else None
            for topic, reply in zip(topics, self._first_to_answer(ask), strict=True)
        ]

    def ask_all(self, name: str, code: int, rows: Sequence[Mapping[str, Any]]) -> list[Command]:
        """The answers to requests with these fields, in their order, from the broker that
        call_any() would ask; whatever their codes."""
        address = self.address_of(name, Purpose.STATE)
        try:
            with self.reaching(address):
                return self.connect(address).ask_all(code, rows)
        except UnreachableError:
            other = self.address_of(name, Purpose.STATE)
            if other == address:
                raise
        with self.reaching(other):
            return self.connect(other).ask_all(code, rows)

    def forget(self, name: str) -> str | None:
        """Forgets the broker name, and closes the connection to its master."""
        address = super().forget(name)
        if address is not None:
            self._sockets.drop(address)
        return address


def _route_fields(topic: str) -> dict[str, Any]:
    return {"topic": topic, "acceptStandardJsonOnly": True}
