"""Heartbeats: tell a client's brokers which producers and consumers it has.

    heartbeats.add_consumer(group, consumer)       # consumer.heartbeat_data() -> ConsumerData
    heartbeats.send(wait_ms=3_000)                 # to the brokers of all topics in use
    heartbeats.remove_consumer(group)              # tells brokers that it has left

All brokers get a heartbeat every heartbeat_broker_interval (instance.py). A broker that was not
known before gets one soon after its route was read, and a broker whose connection was lost gets one
a second later.
"""

from __future__ import annotations

import logging
import math
import threading
from queue import SimpleQueue
from typing import Any, Protocol

from cext.client.reply import Reply
from rmq.base import clock, waits
from rmq.client.connection.caller import Caller
from rmq.client.connection.repeated_warnings import RepeatedWarnings
from rmq.client.connection.route_table import RouteTable
from rmq.client.connection.timers import Timers
from rmq.codes import RequestCode
from rmq.errors import ClosedError, RemoteError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")


class Consumer(Protocol):
    """What a client instance asks of its consumers."""

    def heartbeat_data(self) -> dict[str, Any]:
        """The ConsumerData of a heartbeat: groupName, consumeType, messageModel, .."""

    def group_changed(self) -> None:
        """Members of the group came or went (a broker's request 40)."""

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator moves the group's offsets (220); topics have their names on the wire."""

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """How far the group is in each queue of a topic (221); of all topics if it is empty."""

    def running_info(self) -> dict[str, Any]:
        """The fields of ConsumerRunningInfo that the consumer knows (307)."""


class Heartbeats:
    """The heartbeats of one client; any thread may use it."""

    def __init__(self, caller: Caller, client_id: str, routes: RouteTable, timers: Timers) -> None:
        self._caller = caller
        self._client_id = client_id
        self._routes = routes
        self._timers = timers
        self._lock = threading.Lock()
        self._producers: dict[str, object] = {}
        self._consumers: dict[str, Consumer] = {}
        self._registered: set[str] = set()
        self._lost: set[str] = set()
        self._is_registering = False
        self._warnings = RepeatedWarnings()
        self.returned_at = -math.inf  # when a broker that was lost last answered a heartbeat
        routes.watch(lambda topic, route: self._register_new())

    # ---- members

    def add_producer(self, group: str, producer: object) -> None:
        with self._lock:
            if group in self._producers:
                raise ClosedError(f"this client has a producer of group {group} already")
            self._producers[group] = producer
            self._registered.clear()

    def producer(self, group: str) -> object | None:
        return self._producers.get(group)

    def remove_producer(self, group: str, producer: object) -> None:
        """Removes the producer. Nothing happens if the group's producer is another one, because
        this one could not start."""
        with self._lock:
            if self._producers.get(group) is not producer:
                return
            del self._producers[group]
        self._leave({"producerGroup": group})

    def add_consumer(self, group: str, consumer: Consumer) -> None:
        with self._lock:
            if group in self._consumers:
                raise ClosedError(f"this client has a consumer of group {group} already")
            self._consumers[group] = consumer
            self._registered.clear()

    def consumer(self, group: str) -> Consumer | None:
        return self._consumers.get(group)

    def remove_consumer(self, group: str) -> None:
        if self._consumers.pop(group, None) is not None:
            self._leave({"consumerGroup": group})

    def _leave(self, fields: dict[str, str]) -> None:
        for address in self._addresses():
            if not self._caller.is_linked(address):
                continue
            try:
                code = RequestCode.UNREGISTER_CLIENT
                named = {"clientID": self._client_id, **fields}
                self._caller.ask(address, code, named, timeout_ms=1_000)
            except Exception as error:  # also from a hook: the client must still end
                log.debug("taking leave of %s: %s", address, error)

    # ---- heartbeats

    def _addresses(self) -> list[str]:
        return self._routes.addresses_in_use(replicas=bool(self._consumers))

    def send(self, *, wait_ms: int = 0, only_new: bool = False) -> None:
        """Sends a heartbeat to the brokers of the topics in use; only_new: to those that have had
        none. wait_ms: how long to wait for their answers."""
        left = [each for each in self._addresses() if not only_new or each not in self._registered]
        if not left:
            return
        with self._lock:
            producers = [{"groupName": group} for group in self._producers]
            consumers = [each.heartbeat_data() for each in self._consumers.values()]
        if not producers and not consumers:
            return
        body = fastjson.dumps(
            {
                "clientID": self._client_id, "producerDataSet": producers,
                "consumerDataSet": consumers, "heartbeatFingerprint": 0, "withoutSub": False,
            }
        )  # fmt: skip
        told: SimpleQueue[None] = SimpleQueue()
        timeout_ms = self._caller.parameters.mq_client_api_timeout
        for address in left:
            # bound here: the loop's variable would have the last address
            def completed(
                reply: Reply | None, error: Exception | None, address: str = address
            ) -> None:
                self._told(address, reply, error)
                told.put(None)

            try:
                code = RequestCode.HEART_BEAT
                self._caller.submit(address, code, {}, body, timeout_ms, completed)
            except Exception as error:  # no connection by TLS, or a hook's: go on with the others
                completed(None, error)
        if wait_ms:
            waits.get_all(told, len(left), wait_ms / 1000)

    def _told(self, address: str, reply: Reply | None, error: Exception | None) -> None:
        if error is None and reply is not None and reply.code == 0:
            self._registered.add(address)
            self._routes.replicas.back(address)
            self._warnings.end(f"heartbeat to {address}")
            if address in self._lost:
                self._lost.discard(address)
                self.returned_at = clock.monotonic()
        elif reply is not None:
            self._warnings.begin(
                f"heartbeat to {address}", RemoteError(reply.code, reply.remark or "")
            )
        else:
            # Only INFO: a consumer's reads, or a producer's sends, warn of the same trouble.
            self._warnings.begin(f"heartbeat to {address}", error, logging.INFO)

    def _register_new(self) -> None:
        """Soon sends heartbeats to brokers that were not known before, once for all that become
        known together."""
        if self._is_registering or not (self._producers or self._consumers):
            return
        self._is_registering = True

        def register() -> None:
            self._is_registering = False
            self.send(only_new=True)

        self._timers.after(10, register, chore=self._caller.parameters.use_tls)

    def lost(self, address: str) -> None:
        """The connection to this address has ended: the broker may have forgotten this client."""
        self._registered.discard(address)
        self._routes.replicas.gone(address)
        self._lost.add(address)
        given = self._caller.parameters
        if not self._caller.closed and given.enable_heartbeat_channel_event_listener \
                and self._routes.is_broker(address):  # fmt: skip
            self._timers.after(1_000, self.send, chore=given.use_tls)
