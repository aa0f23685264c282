"""ClientInstance: what the producers and consumers of one client id share.

    instance = ClientInstance.acquire(parameters); ... ; instance.release()

    instance.call(address, code, fields, body)             # caller.py: requests
    instance.routes.of("orders")                           # route_table.py; read again every 30 s
    instance.routes.address_of("broker-a")
    instance.rounds.send(queue, Purpose.READ, send)        # request_round.py: does not wait itself
    instance.heartbeats.add_consumer(group, consumer)      # heartbeats.py: tells brokers
    instance.notices.handle(40, function)                  # notices.py: requests of brokers, most
                                                           # of which broker_calls.py answers
    instance.timers.every(20_000, rebalance, chore=True)   # timers.py

An instance has these threads: the engine (no GIL); `rmq-callbacks`, of which there are
client_callback_executor_threads, which call the callbacks of asynchronous requests; `rmq-notices`,
which handles requests of brokers, and the ends of acks that somebody waits for; `rmq-timers`; and
`rmq-chores`, for timers' work that waits for answers. Everything here may be called from any
thread.

Clients with the same instance_name, other than the default, and the same name servers share an
instance. All other clients have one each, as in RocketMQ 5, because brokers tell the members of a
group apart by client id and connection.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import socket
import threading
import time
from typing import Any, ClassVar

from cext.client.mailbox import Mailbox
from cext.client.message import local_ip, set_client_ip
from rmq.client.connection.broker_calls import BrokerCalls
from rmq.client.connection.caller import Caller
from rmq.client.connection.heartbeats import Heartbeats
from rmq.client.connection.host_names import HostNames
from rmq.client.connection.name_servers import NameServerSource
from rmq.client.connection.notices import Notices
from rmq.client.connection.request_round import RequestRounds
from rmq.client.connection.route_table import RouteTable
from rmq.client.connection.timers import Timers
from rmq.client.parameters import ClientParameters
from rmq.errors import ClosedError, RmqError

log = logging.getLogger("rmq.client")

STALE_MS = 100  # until a route is read again that is old, as a broker has said
CHORES = 16  # threads at most; they are started when chores wait


class ClientInstance(Caller):
    """Connections, routes, heartbeats and threads of one client id."""

    _shared: ClassVar[dict[tuple[str, str], ClientInstance]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()
    _numbers: ClassVar[itertools.count[int]] = itertools.count(time.monotonic_ns())

    def __init__(self, parameters: ClientParameters) -> None:
        super().__init__(parameters)
        self.client_id = self._make_id(parameters)
        self.timers = Timers("rmq-timers", CHORES)
        self.routes = RouteTable(self)
        self.routes.on_stale = self._route_is_stale
        self.rounds = RequestRounds(self, self.routes, self.timers)
        self.heartbeats = Heartbeats(self, self.client_id, self.routes, self.timers)
        self.host_names = HostNames(self.engine, self.timers)
        self.notices = Notices(self, self._connection_lost)
        BrokerCalls(self, self.heartbeats, self.notices)
        self.shared: dict[str, Any] = {}  # what modules keep here for all their clients, by name
        self._uses = 0
        self._threads: list[threading.Thread] = []
        self._process = os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a forked child of the one that started the instance. The child
        has none of its threads: waiting for one, or for a lock that one held, would never end."""
        return self._process != os.getpid()

    @classmethod
    def acquire(cls, parameters: ClientParameters) -> ClientInstance:
        """The instance for these parameters, started. The caller must `release` it."""
        if parameters.instance_name == "DEFAULT":
            instance = cls(parameters)
            instance._start()
            instance._uses = 1
            return instance
        with cls._shared_lock:
            key = (NameServerSource(parameters).text, cls._make_id(parameters))
            found = cls._shared.get(key)
            if found is None or found.closed:
                found = cls._shared[key] = cls(parameters)
                found._start()
            found._uses += 1
            return found

    def release(self) -> None:
        with self._shared_lock:
            self._uses -= 1
            if self._uses > 0:
                return
            for key, instance in list(self._shared.items()):
                if instance is self:
                    del self._shared[key]
        self._stop()

    @classmethod
    def _make_id(cls, parameters: ClientParameters) -> str:
        name = parameters.instance_name
        if name == "DEFAULT":
            name = f"{os.getpid()}#{next(cls._numbers)}"
        unit = f"@{parameters.unit_name}" if parameters.unit_name else ""
        return f"{parameters.client_ip or local_ip()}@{name}{unit}"

    def _start(self) -> None:
        if self.parameters.client_ip:
            family = socket.AF_INET6 if ":" in self.parameters.client_ip else socket.AF_INET
            set_client_ip(socket.inet_pton(family, self.parameters.client_ip))
        self.callbacks.on_error = self._report
        self.engine.notices.on_error = self._report
        self.engine.notices.on_notice = self.notices.came
        self.engine.start()
        self.timers.start()
        names = ["rmq-callbacks"] * max(self.parameters.client_callback_executor_threads, 1)
        for name in [*names, "rmq-notices"]:
            mailbox = self.engine.notices if name == "rmq-notices" else self.callbacks
            thread = threading.Thread(target=self._serve, args=(mailbox,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        parameters = self.parameters
        every = self.timers.every
        every(max(parameters.poll_name_server_interval, 10), self.routes.refresh, chore=True)
        # not a chore, since it does not wait, except for connections by TLS
        interval = max(parameters.heartbeat_broker_interval, 10)
        every(interval, self.heartbeats.send, chore=parameters.use_tls)

    def _route_is_stale(self, topic: str) -> None:
        look = functools.partial(self._look_again, topic)
        self.timers.after(STALE_MS, look, chore=True)

    def _connection_lost(self, address: str) -> None:
        self.heartbeats.lost(address)
        if not self.parameters.use_tls:  # with TLS each new connection looks its host up
            self.host_names.lost(address)

    def _look_again(self, topic: str) -> None:
        try:
            self.routes.of(topic, refresh=True)
        except RmqError as error:
            log.info("route of %s: %s", topic, error)

    def _serve(self, mailbox: Mailbox) -> None:
        while not self.closed:
            self._deliver(mailbox, 1_000)
        self._deliver(mailbox, 0)

    def _deliver(self, mailbox: Mailbox, timeout_ms: float) -> None:
        try:
            mailbox.deliver(timeout_ms)
        except BaseException as error:  # KeyboardInterrupt, too, which is not meant for this thread
            self._report(error)

    def _stop(self) -> None:
        if self.is_forked:
            self.closed = True
            return
        self.timers.stop()
        self.engine.stop()
        self.closed = True
        self.callbacks.close()
        self.engine.notices.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _report(self, error: BaseException) -> None:
        log.error("a callback failed", exc_info=error)


def forget_after_fork() -> None:
    """Makes a forked child start instances of its own, since it has none of the threads."""
    ClientInstance._shared.clear()
    ClientInstance._shared_lock = threading.Lock()


os.register_at_fork(after_in_child=forget_after_fork)


# ---- texts for producers and consumers, which start once and close once


def not_open(what: str, *, is_closed: bool) -> ClosedError:
    """The error of a `what` ("consumer") that is used before its start or after its close."""
    if is_closed:
        return ClosedError(f"the {what} is closed")
    return ClosedError(f"the {what} is not started: call start(), or open it by `with`")


def shown(client: object, group: str, *, is_open: bool, is_closed: bool) -> str:
    """The repr() of a client."""
    state = "closed" if is_closed else "open" if is_open else "not started"
    return f"<{type(client).__name__} of group {group}, {state}>"
