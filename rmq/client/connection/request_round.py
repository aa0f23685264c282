"""RequestRound: requests for many queues; an address that cannot be reached is dialled once.

    requests = RequestRound(instance)
    requests.submit(address, code, fields, body, timeout_ms, completed)      # as the instance's

    instance.rounds.send(queue, Purpose.READ, send)         # send(submit): at once, or in a round

A connection by TLS is waited for by who submits: for seconds, and without this for each queue. Who
tells ends, holds a lock or does what is due may not wait at all: RequestRounds has a chore do it,
one at a time for all that want the broker, and with one round for those it finds there.
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
    """Of one thread, for a moment."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._silent: dict[str, UnreachableError] = {}  # by address, why it could not be reached

    def submit(
        self, address: str, code: int, fields: Fields, body: bytes, timeout_ms: int, completed: Done
    ) -> None:
        """UnreachableError: also where it was one a moment ago, and nothing is connected since."""
        if address in self._silent and self._caller.must_connect(address):
            raise self._silent[address]
        try:
            self._caller.submit(address, code, fields, body, timeout_ms, completed)
        except UnreachableError as error:
            self._silent[address] = error
            raise


class RequestRounds:
    """Of one client; any thread."""

    def __init__(self, caller: Caller, routes: RouteTable, timers: Timers) -> None:
        self._caller = caller
        self._routes = routes
        self._timers = timers
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Send]] = {}  # by broker

    def send(self, queue: MessageQueue, purpose: Purpose, send: Send) -> None:
        """Calls `send`, which asks the queue's broker (as on the wire): here where nothing is to
        be waited for before, else in a chore."""
        broker = queue.broker_name
        try:
            at_hand = self._routes.is_at_hand(broker, purpose, queue)
        except RmqError:  # of an address that is none; `send` meets it, too
            at_hand = False
        if at_hand:  # and if it is lost just now, not by this thread connected anew
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
            except BaseException:  # SystemExit of a hook: the others are sent
                log.exception("a request to %s", broker)
