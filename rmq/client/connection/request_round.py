"""RequestRound: requests for many queues; an address that cannot be reached is dialled once.

    requests = RequestRound(instance)
    requests.submit(address, code, fields, body, timeout_ms, completed)      # as the instance's

    instance.rounds.send(queue, Purpose.READ, send)         # send(submit): at once, or in a round

With TLS the thread that submits waits for a new connection, perhaps for seconds; without a round it
would wait again for each queue of a broker that is away. Threads that call callbacks, hold a lock
or run timers must not wait at all. For them RequestRounds lets a chore send the requests, one chore
at a time for each broker, and in one round for all requests that wait when the chore begins.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable

from rmq.client.connection.caller import Caller, Done, Fields
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.route_table import RouteTable
from rmq.client.connection.timers import Timers
from rmq.errors import RmqError, UnreachableError
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")

Submit = Callable[[str, int, Fields, bytes, int, Done], None]
Send = Callable[[Submit], object]


class RequestRound:
    """One round of requests; used by one thread, for a short time."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._silent: dict[str, UnreachableError] = {}  # by address, why it could not be reached

    def submit(
        self, address: str, code: int, fields: Fields, body: bytes, timeout_ms: int, completed: Done
    ) -> None:
        """Sends a request. UnreachableError is also raised, without dialling, if the address could
        not be reached before in this round and is still not connected."""
        if address in self._silent and self._caller.must_connect(address):
            raise self._silent[address]
        try:
            self._caller.submit(address, code, fields, body, timeout_ms, completed)
        except UnreachableError as error:
            self._silent[address] = error
            raise


class RequestRounds:
    """The rounds of one client; any thread may use it."""

    def __init__(self, caller: Caller, routes: RouteTable, timers: Timers) -> None:
        self._caller = caller
        self._routes = routes
        self._timers = timers
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Send]] = {}  # by broker

    def send(self, queue: MessageQueue, purpose: Purpose, send: Send) -> None:
        """Calls `send`, which sends a request to the broker of the queue (its name on the wire):
        at once if that does not have to wait, else in a chore."""
        broker = queue.broker_name
        try:
            at_hand = self._routes.is_at_hand(broker, purpose, queue)
        except RmqError:  # the address is not valid; `send` will raise the same
            at_hand = False
        if at_hand:  # may_wait=False: if the connection is lost just now, do not make a new one
            send(functools.partial(self._caller.submit, may_wait=False))
            return
        with self._lock:
            self._waiting.setdefault(broker, []).append(send)
        self._timers.soon(self._send_all, broker)

    def _send_all(self, broker: str) -> None:
        with self._lock:
            waiting = self._waiting.pop(broker, [])
        submit = RequestRound(self._caller).submit
        for send in waiting:  # the first one connects
            try:
                send(submit)
            except BaseException:  # SystemExit from a hook: the others must be sent
                log.exception("a request to %s", broker)
