"""RouteTable: where topics and brokers are, by the newest answers of name servers.

table.of("orders")                       # Route; asked for once, afterwards read by refresh()
table.address_of("broker-a")             # "10.0.0.7:10911", the master's
table.replica_of("broker-a", Purpose.READ, queue)       # the one to pull this queue from
table.known_address("broker-a", Purpose.READ, queue)    # its address, without asking; or None
table.is_at_hand("broker-a", Purpose.READ, queue)       # whether it is known and connected
table.want("orders")                     # refresh() looks for it, even while it does not exist
table.watch(watcher)                     # watcher(topic, route) after each change
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rmq.base.server_address import split_address
from rmq.client.connection.caller import Caller
from rmq.client.connection.replicas import Purpose, Replica, Replicas
from rmq.client.connection.routes import MASTER, BrokerEntry, Route, broker_entry, parse_route
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError, RouteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")

Watcher = Callable[[str, Route], object]


class RouteTable:
    """The routes of one client; any thread may use it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._lock = threading.Lock()
        self._routes: dict[str, Route] = {}
        self._wanted: dict[str, None] = {}  # an ordered set
        self._brokers: dict[str, BrokerEntry] = {}
        self._watchers: list[Watcher] = []
        self.replicas = Replicas()
        self.on_stale: Callable[[str], object] = lambda topic: None

    # ---- topics

    def of(self, topic: str, *, refresh: bool = False) -> Route:
        """The topic's route. RouteError: no name server knows the topic."""
        route = self._routes.get(topic)
        if route is not None and not refresh:
            return route
        reply = self._caller.name_server_ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": True}
        )
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            raise RouteError(reply.code, reply.remark or f"topic {topic} has no route")
        return self._take(parse_route(topic, reply.check().body))

    def _take(self, route: Route) -> Route:
        with self._lock:
            before = self._routes.get(route.topic)
            self._routes[route.topic] = route
            self._brokers.update(route.brokers)
        if before != route:
            for watcher in list(self._watchers):
                watcher(route.topic, route)
        return route

    def known(self, topic: str) -> Route | None:
        """The route that was read last, without asking; None if there is none."""
        return self._routes.get(topic)

    def want(self, topic: str) -> None:
        """From now on refresh() looks for the topic's route, even while it does not exist."""
        self._wanted[topic] = None

    def look_again_for(self, topic: str, error: Exception | None) -> None:
        """Reads the topic's route again soon, in another thread, if the error says that a queue of
        a static topic has another leader than the route says."""
        if isinstance(error, RemoteError) and error.code == ResponseCode.NOT_LEADER_FOR_QUEUE:
            self.on_stale(topic)

    def refresh(self) -> None:
        """Reads the routes of all topics in use again."""
        for topic in list({**self._routes, **self._wanted}):
            try:
                self.of(topic, refresh=True)
            except RouteError:
                pass  # the topic is gone, perhaps for a moment: the old route stays
            except RmqError as error:
                log.warning("route of %s: %s", topic, error)
                return

    def watch(self, watcher: Watcher) -> None:
        """From now on calls watcher(topic, route) after each change of a route, in the thread that
        has read it."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    # ---- brokers

    def brokers(self) -> dict[str, BrokerEntry]:
        """All brokers that the name servers know, by name."""
        data = fastjson.loads_object(
            self._caller.name_server_ask(RequestCode.GET_BROKER_CLUSTER_INFO).check().body
        )
        table = data.get("brokerAddrTable") or {}
        found = {name: broker_entry({"brokerName": name} | row) for name, row in table.items()}
        with self._lock:
            self._brokers.update(found)
        return found

    def address_of(self, broker_name: str, purpose: Purpose = Purpose.WRITE) -> str:
        """The address at which this broker name is asked."""
        return self.replica_of(broker_name, purpose).address

    def replica_of(
        self, broker_name: str, purpose: Purpose, queue: MessageQueue | None = None
    ) -> Replica:
        """The broker of this name that must be asked; `queue` (its name on the wire) is the one
        that is read."""
        for known in (self._brokers.get, lambda name: self.brokers().get(name)):
            found = self._chosen(known(broker_name), purpose, queue)
            if found is not None:
                return found
        raise RemoteError(
            ResponseCode.BROKER_NOT_EXIST, f"broker {broker_name} is not registered, or not alive"
        )

    def _chosen(
        self, entry: BrokerEntry | None, purpose: Purpose, queue: MessageQueue | None
    ) -> Replica | None:
        if entry is None:
            return None
        addresses = {each: self._vip(at) for each, at in entry.addresses.items()}
        return self.replicas.choose(addresses, purpose, queue)

    def is_at_hand(
        self, broker_name: str, purpose: Purpose, queue: MessageQueue | None = None
    ) -> bool:
        """Whether the broker that replica_of() returns can be asked without waiting: it is known,
        and needs no new connection. For threads that must not wait."""
        address = self.known_address(broker_name, purpose, queue)
        return address is not None and not self._caller.must_connect(address)

    def known_address(
        self, broker_name: str, purpose: Purpose, queue: MessageQueue | None = None
    ) -> str | None:
        """The address of the broker that replica_of() returns; None if nobody has asked for it
        yet, or it is gone. Never waits."""
        found = self._chosen(self._brokers.get(broker_name), purpose, queue)
        return None if found is None else found.address

    def has_other(self, broker_name: str, address: str, error: Exception | None) -> bool:
        """Whether another broker of the name may answer at once. `address`: where a broker did not
        answer; empty: none was asked."""
        if not address or not isinstance(error, UnreachableError):
            return False
        self.replicas.gone(address)
        entry = self._brokers.get(broker_name)
        others = [] if entry is None else map(self._vip, entry.addresses.values())
        return any(not self.replicas.is_gone(each) for each in others)

    def is_broker(self, address: str) -> bool:
        """Whether a known broker has registered this address."""
        return any(address in entry.addresses.values() for entry in list(self._brokers.values()))

    def addresses_in_use(self, *, replicas: bool) -> list[str]:
        """The addresses of the brokers of all topics in use: of masters, or with `replicas` of
        slaves, too."""
        with self._lock:
            names = {name for route in self._routes.values() for name in route.brokers}
            entries = [self._brokers[name] for name in sorted(names) if name in self._brokers]
        return [
            self._vip(address)
            for entry in entries
            for broker_id, address in sorted(entry.addresses.items())
            if broker_id == MASTER or replicas
        ]

    def _vip(self, address: str) -> str:
        if not self._caller.parameters.vip_channel_enabled:
            return address
        host, port = split_address(address)
        return f"[{host}]:{port - 2}" if ":" in host else f"{host}:{port - 2}"
