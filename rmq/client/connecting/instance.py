"""ClientInstance: what the producers and consumers of one client id share.

    instance = ClientInstance.acquire(parameters); ... ; instance.release()

    instance.route("orders")                       # Route; read again every 30 s while in use
    instance.address_of("broker-a")                # "10.0.0.7:10911", the master's
    instance.call(address, code, fields, body)     # Reply with code SUCCESS, or RemoteError
    instance.submit(address, code, fields, body, timeout_ms, done)   # done(reply, error) later
    instance.timers.every(20_000, rebalance, chore=True)
    instance.handle(40, function)                  # requests of brokers: function(request, address)
    instance.add_consumer(group, consumer)         # consumer.heartbeat_data() -> ConsumerData

Threads: the engine (no GIL); `rmq-callbacks`, client_callback_executor_threads of them, which tell
the ends of asynchronous requests; `rmq-notices`, where requests of brokers are handled;
`rmq-timers`, and `rmq-chores` for what is due and waits for answers. Everything here may be called
from any thread. Clients with a name of their own (instance_name) and equal name servers share an
instance; the others have one each, as in RocketMQ 5: brokers tell the members of a group apart by
client id and connection.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from cext.client.engine import Engine
from cext.client.mailbox import Mailbox
from cext.client.message import local_ip, set_client_ip
from cext.client.reply import Reply
from cext.client.request import ONE_WAY, encode_answer, encode_request
from rmq.client.connecting.broker_calls import answer_brokers
from rmq.client.connecting.name_servers import NameServerSource, split_address
from rmq.client.connecting.routes import MASTER, BrokerEntry, Route, broker_entry, parse_route
from rmq.client.connecting.timers import Timers
from rmq.client.hooks import RpcHook
from rmq.client.parameters import ClientParameters
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ClosedError, RemoteError, RmqError, RouteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import field_texts

log = logging.getLogger("rmq.client")

Fields = Mapping[str, Any] | None
Done = Callable[[Reply | None, Exception | None], object]
Handler = Callable[[Reply, str], object]
CHORES = 16  # threads at most; they start as chores wait
NAME_SERVERS_AGAIN_MS = 120_000


class Consumer(Protocol):
    """What an instance asks of the consumers it knows."""

    def heartbeat_data(self) -> dict[str, Any]:
        """The ConsumerData of a heartbeat: groupName, consumeType, messageModel, .."""

    def group_changed(self) -> None:
        """Members came or went (a broker's request 40)."""

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator sends the group elsewhere (220); topics as on the wire."""

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """How far the queues of a topic are (221), of all topics when it is empty."""

    def running_info(self) -> dict[str, Any]:
        """Parts of a ConsumerRunningInfo (307)."""


class ClientInstance:
    """Connections, routes, heartbeats and threads of one client id."""

    _shared: ClassVar[dict[tuple[str, str], ClientInstance]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()
    _numbers: ClassVar[itertools.count[int]] = itertools.count(time.monotonic_ns())

    def __init__(self, parameters: ClientParameters) -> None:
        self.parameters = parameters
        self.client_id = self._make_id(parameters)
        self.engine = Engine(parameters.mq_client_api_timeout)
        self.callbacks = Mailbox(self.engine)
        self.timers = Timers("rmq-timers", CHORES)
        self.closed = False
        self._uses = 0
        self._lock = threading.RLock()
        self._name_servers = NameServerSource(parameters)
        self._turn = 0
        self.shared: dict[str, Any] = {}  # of the modules that extend it, by their names
        self._routes: dict[str, Route] = {}
        self._wanted: dict[str, None] = {}  # an ordered set
        self._brokers: dict[str, BrokerEntry] = {}
        self._links: dict[str, int] = {}
        self._producers: dict[str, object] = {}
        self._consumers: dict[str, Consumer] = {}
        self._handlers: dict[int, Handler] = {}
        self._watchers: list[Callable[[str, Route], object]] = []
        self._greeted: set[str] = set()
        self._lost: set[str] = set()
        self.returned_at = -math.inf  # when a broker that was lost last answered a heartbeat
        self._greeting = False
        self._threads: list[threading.Thread] = []

    # ---- life

    @classmethod
    def acquire(cls, parameters: ClientParameters) -> ClientInstance:
        """The instance for these parameters, started; give it back by `release`."""
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
        self.engine.notices.on_notice = self._notice
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
        every(max(parameters.poll_name_server_interval, 10), self.refresh_routes, chore=True)
        # not a chore: it waits for nobody, unless connections are made by hand
        interval = max(parameters.heartbeat_broker_interval, 10)
        every(interval, self.heartbeat, chore=parameters.use_tls)

    def _serve(self, mailbox: Mailbox) -> None:
        while not self.closed:
            mailbox.deliver(1_000)
        mailbox.deliver()

    def _stop(self) -> None:
        self.timers.stop()
        self.engine.stop()
        self.closed = True
        self.callbacks.close()
        self.engine.notices.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _report(self, error: Exception) -> None:
        log.error("a callback failed", exc_info=error)

    # ---- requests

    def link(self, address: str) -> int:
        """The engine's link to this address."""
        number = self._links.get(address)
        if number is None:
            if self.closed:
                raise ClosedError("the client is closed")
            host, port = split_address(address)
            number = self._links[address] = self.engine.link(host, port)
        if self.parameters.use_tls and not self.engine.is_open(number):
            from rmq.client.connecting.tls import dial

            host, port = split_address(address)
            self.engine.give(number, dial(host, port, self.parameters))
        return number

    def frame(
        self, address: str, code: int, fields: Fields, body: bytes = b"", flag: int = 0
    ) -> bytes:
        """The request's bytes, as the hook wants them."""
        hook = self.parameters.rpc_hook
        given = dict(fields) if fields else {}
        if hook is not None:
            given = field_texts(given)
            hook.before_request(address, int(code), given, body)
        return encode_request(int(code), given, body, flag)

    def ask(
        self,
        address: str,
        code: int,
        fields: Fields = None,
        body: bytes = b"",
        timeout_ms: int | None = None,
    ) -> Reply:
        """Waits for the answer, whatever its code."""
        timeout_ms = self.parameters.mq_client_api_timeout if timeout_ms is None else timeout_ms
        frame = self.frame(address, code, fields, body)
        reply = self.engine.call(self.link(address), frame, timeout_ms)
        if self.parameters.rpc_hook is not None:
            given = field_texts(dict(fields or {}))
            self.parameters.rpc_hook.after_response(address, int(code), given, reply)
        return reply

    def call(
        self,
        address: str,
        code: int,
        fields: Fields = None,
        body: bytes = b"",
        timeout_ms: int | None = None,
    ) -> Reply:
        """Waits for the answer; RemoteError when its code is not SUCCESS."""
        return self.ask(address, code, fields, body, timeout_ms).check()

    def submit(
        self,
        address: str,
        code: int,
        fields: Fields,
        body: bytes,
        timeout_ms: int,
        done: Done,
        mailbox: Mailbox | None = None,
    ) -> None:
        """done(reply, error) is told in a callback thread, or where `mailbox` is delivered."""
        frame = self.frame(address, code, fields, body)
        hook = self.parameters.rpc_hook
        told = done if hook is None else _hooked(hook, address, int(code), fields, done)
        self.engine.submit(self.link(address), frame, timeout_ms, mailbox or self.callbacks, told)

    def post(self, address: str, code: int, fields: Fields, body: bytes = b"") -> None:
        """One-way: no answer is wanted, and none is waited for."""
        self.engine.post(self.link(address), self.frame(address, code, fields, body, ONE_WAY))

    def name_server_ask(self, code: int, fields: Fields = None, body: bytes = b"") -> Reply:
        """The answer of the first name server that gives one; they are asked in turn."""
        addresses = self._name_servers.addresses()
        failures = []
        for i in range(len(addresses)):
            address = addresses[(self._turn + i) % len(addresses)]
            try:
                reply = self.ask(address, code, fields, body)
                self._turn = (self._turn + i) % len(addresses)
                return reply
            except UnreachableError as error:
                failures.append(str(error))
        raise UnreachableError("no name server answers: " + "; ".join(failures))

    @property
    def name_servers(self) -> list[str]:
        return self._name_servers.addresses()

    # ---- requests of brokers

    def handle(self, code: int, function: Handler) -> None:
        """function(request, address) for each request of that code, in the thread of notices."""
        self._handlers[int(code)] = function

    def answer(
        self,
        address: str,
        request: Reply,
        code: int = 0,
        fields: dict[str, Any] | None = None,
        body: bytes = b"",
        remark: str | None = None,
    ) -> None:
        """Answers a broker's request, unless it wants no answer."""
        if not request.is_one_way:
            self.engine.post(self.link(address), encode_answer(request, code, fields, body, remark))

    def _notice(self, link: int, request: Reply | None, error: int) -> None:
        address = self.engine.link_name(link)
        if request is None:
            self._greeted.discard(address)
            self._lost.add(address)
            if not self.closed:
                why = os.strerror(error).lower() if error else "the peer closed it"
                log.info("connection to %s lost (%s)", address, why)
                if self.parameters.enable_heartbeat_channel_event_listener and address in {
                    each for entry in self._brokers.values() for each in entry.addresses.values()
                }:
                    self.timers.after(1_000, self.heartbeat, chore=self.parameters.use_tls)
            return
        handler = self._handlers.get(request.code)
        if handler is None:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            self.answer(address, request, code, remark=f"request {request.code} is not for clients")
            return
        try:
            handler(request, address)
        except Exception as problem:
            log.exception("request %d of %s", request.code, address)
            self.answer(address, request, ResponseCode.SYSTEM_ERROR, remark=str(problem)[:1000])

    # ---- routes

    def route(self, topic: str, *, refresh: bool = False) -> Route:
        """Where the topic lives; RouteError when no name server knows it."""
        route = self._routes.get(topic)
        if route is not None and not refresh:
            return route
        reply = self.name_server_ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": True}
        )
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            raise RouteError(reply.code, reply.remark or f"topic {topic} has no route")
        return self._take_route(parse_route(topic, reply.check().body))

    def _take_route(self, route: Route) -> Route:
        with self._lock:
            before = self._routes.get(route.topic)
            self._routes[route.topic] = route
            self._brokers.update(route.brokers)
        if before != route:
            for watcher in list(self._watchers):
                watcher(route.topic, route)
            self._greet_new()
        return route

    def want_route(self, topic: str) -> None:
        """Its route is looked for again and again, though there is none yet."""
        self._wanted[topic] = None

    def known_route(self, topic: str) -> Route | None:
        """What was read last, without asking."""
        return self._routes.get(topic)

    def refresh_routes(self) -> None:
        """Reads the routes of all topics in use again."""
        for topic in list({**self._routes, **self._wanted}):
            try:
                self.route(topic, refresh=True)
            except RouteError:
                pass  # gone, perhaps for a moment: the old route stays
            except RmqError as error:
                log.warning("route of %s: %s", topic, error)
                return

    def watch_routes(self, watcher: Callable[[str, Route], object]) -> None:
        """watcher(topic, route) after each change; in the thread that noticed it."""
        self._watchers.append(watcher)

    def unwatch_routes(self, watcher: Callable[[str, Route], object]) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def brokers(self) -> dict[str, BrokerEntry]:
        """All brokers the name servers know, by name."""
        data = fastjson.loads_object(
            self.name_server_ask(RequestCode.GET_BROKER_CLUSTER_INFO).check().body
        )
        table = data.get("brokerAddrTable") or {}
        found = {name: broker_entry({"brokerName": name} | row) for name, row in table.items()}
        with self._lock:
            self._brokers.update(found)
        return found

    def address_of(self, broker_name: str, broker_id: int = MASTER, *, any_id: bool = False) -> str:
        """Where to reach this broker; any_id: another replica will do when that one is away."""
        for known in (self._brokers.get, lambda name: self.brokers().get(name)):
            entry = known(broker_name)
            if entry is not None:
                found = entry.addresses.get(broker_id)
                if found is None and any_id:
                    found = entry.any_address
                if found is not None:
                    return self._vip(found)
        raise RemoteError(
            ResponseCode.BROKER_NOT_EXIST, f"broker {broker_name} is not registered, or not alive"
        )

    def _vip(self, address: str) -> str:
        if not self.parameters.vip_channel_enabled:
            return address
        host, port = split_address(address)
        return f"[{host}]:{port - 2}" if ":" in host else f"{host}:{port - 2}"

    # ---- members and heartbeats

    def add_producer(self, group: str, producer: object) -> None:
        with self._lock:
            if group in self._producers:
                raise ClosedError(f"this client has a producer of group {group} already")
            self._producers[group] = producer
            self._greeted.clear()

    def producer(self, group: str) -> object | None:
        return self._producers.get(group)

    def remove_producer(self, group: str) -> None:
        if self._producers.pop(group, None) is not None:
            self._leave({"producerGroup": group})

    def add_consumer(self, group: str, consumer: Consumer) -> None:
        with self._lock:
            if group in self._consumers:
                raise ClosedError(f"this client has a consumer of group {group} already")
            self._consumers[group] = consumer
            self._greeted.clear()
        answer_brokers(self)

    def consumer(self, group: str) -> Consumer | None:
        return self._consumers.get(group)

    def remove_consumer(self, group: str) -> None:
        if self._consumers.pop(group, None) is not None:
            self._leave({"consumerGroup": group})

    def _leave(self, fields: dict[str, str]) -> None:
        for address in self._heartbeat_addresses():
            if address not in self._links or not self.engine.is_open(self._links[address]):
                continue
            try:
                code = RequestCode.UNREGISTER_CLIENT
                self.ask(address, code, {"clientID": self.client_id, **fields}, timeout_ms=1_000)
            except RmqError as error:
                log.debug("taking leave of %s: %s", address, error)

    def _heartbeat_addresses(self) -> list[str]:
        """Masters, and with consumers all replicas, of the brokers of the topics in use."""
        with self._lock:
            names = {name for route in self._routes.values() for name in route.brokers}
            entries = [self._brokers[name] for name in sorted(names) if name in self._brokers]
            return [
                self._vip(address)
                for entry in entries
                for broker_id, address in sorted(entry.addresses.items())
                if broker_id == MASTER or self._consumers
            ]

    def heartbeat(self, *, wait_ms: int = 0, only_new: bool = False) -> None:
        """Tells the brokers of the topics in use who is here; wait_ms: until they answered."""
        left = [
            each
            for each in self._heartbeat_addresses()
            if not only_new or each not in self._greeted
        ]
        if not left:
            return
        with self._lock:
            producers = [{"groupName": group} for group in self._producers]
            consumers = [each.heartbeat_data() for each in self._consumers.values()]
        if not producers and not consumers:
            return
        body = fastjson.dumps(
            {
                "clientID": self.client_id, "producerDataSet": producers,
                "consumerDataSet": consumers, "heartbeatFingerprint": 0, "withoutSub": False,
            }
        )  # fmt: skip
        waiting = threading.Semaphore(0)

        def done(address: str, reply: Reply | None, error: Exception | None) -> None:
            if error is None and reply is not None and reply.code == 0:
                self._greeted.add(address)
                if address in self._lost:
                    self._lost.discard(address)
                    self.returned_at = time.monotonic()
            else:
                log.info("heartbeat to %s: %s", address, error or reply)
            waiting.release()

        timeout_ms = self.parameters.mq_client_api_timeout
        for address in left:
            # bound here: the loop's name would be the last one's
            def told(reply: Reply | None, error: Exception | None, address: str = address) -> None:
                done(address, reply, error)

            self.submit(address, RequestCode.HEART_BEAT, {}, body, timeout_ms, told)
        until = time.monotonic() + wait_ms / 1000
        for _ in left if wait_ms else []:
            waiting.acquire(timeout=max(until - time.monotonic(), 0))

    def _greet_new(self) -> None:
        """A broker that was not known yet hears of us soon, once for all that come together."""
        if self._greeting or not (self._producers or self._consumers):
            return
        self._greeting = True

        def greet() -> None:
            self._greeting = False
            self.heartbeat(only_new=True)

        self.timers.after(10, greet, chore=self.parameters.use_tls)


def _hooked(hook: RpcHook, address: str, code: int, fields: Fields, done: Done) -> Done:
    """The hook sees the answer first; what it raises is the request's end."""

    def told(reply: Reply | None, error: Exception | None) -> None:
        try:
            hook.after_response(address, code, field_texts(dict(fields or {})), reply)
        except Exception as problem:
            reply, error = None, problem
        done(reply, error)

    return told


def forget_after_fork() -> None:
    """A child of fork has none of the threads: it starts its own instances."""
    ClientInstance._shared.clear()
    ClientInstance._shared_lock = threading.Lock()


os.register_at_fork(after_in_child=forget_after_fork)
