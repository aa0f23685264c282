"""Listener: the listening socket of a server and the set of its connections.

    open()      binds; ConfigError names the address when it cannot
    sweep()     closes connections that were idle for `idle_seconds`
    stop()      stops accepting, lets written replies leave, then cuts the connections

Limits: when incomplete requests exceed PARTIAL_BYTES_MAX, the address with most of them loses a
connection. When there are more than `connections_max`, the oldest connection is closed that has
sent no request since it came, at least SILENT_S ago; if there is none, the new connection is
closed, with at most one log line a second. Limits of one address are in
rmq/serving/address_table.py; there another connection of the same address is closed.
rmq/serving/acceptor.py handles the lack of descriptors.

Example: with connections_max=2 the connection of a third client is closed before any reply, if the
first two have sent requests; as soon as one of them leaves, a new client is served.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from rmq.base import clock
from rmq.base.deadline import within
from rmq.errors import ConfigError
from rmq.format.remoting import Command
from rmq.serving.acceptor import Acceptor
from rmq.serving.address_table import (
    CONNECTIONS,
    HANDSHAKES,
    RATE,
    AddressLimits,
    AddressTable,
)
from rmq.serving.certificate_watch import CertificateWatch
from rmq.serving.connection import Connection
from rmq.serving.pace import HANDSHAKES_A_TURN, Pace
from rmq.serving.proxy_protocol import Balancers, WordsError
from rmq.serving.raw_socket import received
from rmq.serving.tls import HELLO, TlsFiles
from rmq.serving.tls_alert import connected

HELLO_S = 10.0  # for a TLS handshake
# Bytes of incomplete frames of all connections. A registration of a million topics has 64 MiB.
PARTIAL_BYTES_MAX = 256 * 1024 * 1024
STOP_SECONDS_MAX = 1.0
SILENT_S = 1.0
WORDS = "rmqProxyProtocolFrom"
_SHAKING = "its address has begun as many TLS handshakes as it may; raise "
TOO_MANY = {
    CONNECTIONS: "its address has as many connections as it may; raise "
    f"{CONNECTIONS}, or say in rmqProxyProtocolFrom that it is a balancer",
    HANDSHAKES: _SHAKING + HANDSHAKES,
    RATE: _SHAKING + RATE,
    WORDS: f"it is one of {WORDS}, and does not say by the PROXY protocol who comes by it; have it "
    "do so (send-proxy), or set rmqProxyProtocol=optional",
}

_log = logging.getLogger("rmq.serving.listener")

Start = Callable[[Command, object], "Command | Awaitable[Command]"]
Failure = Callable[[Command, Exception], Command]


class Listener:
    """Owned by the event loop."""

    def __init__(
        self,
        start: Start,
        failure: Failure,
        closed: Callable[[object], None],
        connections_max: int,
        of_address: AddressLimits,
        idle_seconds: float,
        what: str,
        tls: TlsFiles | None = None,
        balancers: Balancers | None = None,
    ) -> None:
        """what: the name of the server for people: "name server"."""
        self._addresses = AddressTable(of_address)
        self._tls = tls
        self._balancers = balancers
        self._context: ssl.SSLContext | None = None
        self._watching: asyncio.Task[None] | None = None
        self.start = start
        self.failure = failure
        self.partial_bytes = 0
        self.partial_bytes_max = PARTIAL_BYTES_MAX
        self._closed = closed
        self._connections: set[Connection] = set()
        self._setting_up: dict[Connection, asyncio.Task[None]] = {}  # not admitted yet
        self._pace = Pace(HANDSHAKES_A_TURN)
        # Connection without a request -> when it came, or its handshake was done; oldest first.
        self._silent: dict[Connection, float] = {}
        self._connections_max = connections_max
        self._idle_seconds = idle_seconds
        self._acceptor: Acceptor | None = None
        self._stopping = False
        self._what = what
        self._empty = asyncio.Event()
        self._refused_at: dict[str, float] = {}  # setting -> time of its last log line

    async def open(self, host: str, port: int, backlog: int) -> int:
        """Listens on host:port (0: any free one); returns the port. backlog: connections that may
        wait to be accepted."""
        if self._tls is not None:
            self._read(self._tls)
            watch = CertificateWatch(self._tls, self._read)
            self._watching = asyncio.get_running_loop().create_task(watch.run())
        acceptor = Acceptor(self._accept, "rmq.serving.listener")
        try:
            bound = await acceptor.open(host, port, backlog)
        except (OSError, OverflowError) as error:
            number = getattr(error, "errno", None)  # asyncio's own text repeats the address
            reason = os.strerror(number).lower() if number else str(error)
            if number == errno.EADDRINUSE:
                reason += "; is another server running there? Choose another port"
            raise ConfigError(f"{self._what} cannot listen on {host}:{port}: {reason}") from None
        self._acceptor = acceptor
        return bound

    def _accept(self, accepted: socket.socket) -> None:
        now = clock.monotonic()
        if len(self) >= self._connections_max:
            self._displace(now)
        connection = Connection(self)
        connection.come_from(_address(accepted))
        if len(self) >= self._connections_max or self._stopping:
            self._refuse(connection.peer, "rmqMaxConnections", now)
            accepted.close()
            return
        self._silent[connection] = now
        is_balancer = self._balancers is not None and self._balancers.hold(accepted)
        if not is_balancer and not self._count_address(connection, now):
            self._forget(connection)
            accepted.close()
            return
        task = asyncio.get_running_loop().create_task(
            self._set_up(connection, accepted, is_balancer)
        )
        self._setting_up[connection] = task
        task.add_done_callback(lambda _: self._is_set_up(connection, accepted))

    async def _set_up(
        self, connection: Connection, accepted: socket.socket, is_balancer: bool
    ) -> None:
        """Does what comes before the first request: the PROXY protocol and TLS."""
        with contextlib.suppress(OSError, asyncio.TimeoutError):  # it is gone, or speaks nonsense
            context = None
            if is_balancer:
                await self._hear_balancer(connection, accepted)
            if self._tls is not None and await within(_says_hello(accepted), self._idle_seconds):
                context = self._context
            elif self._tls is not None and not self._tls.is_permissive:
                raise ConnectionAbortedError
            if context is not None:
                self._begin_handshake(connection)
                await self._pace.step()
            await connected(connection, accepted, context, HELLO_S)

    def _is_set_up(self, connection: Connection, accepted: socket.socket) -> None:
        """Ends the set-up, successful or not. It is called from outside the task, because a task
        that is cancelled before its first step runs no `finally`."""
        self._setting_up.pop(connection, None)
        if connection not in self._connections:
            self._forget(connection)
            accepted.close()

    async def _hear_balancer(self, connection: Connection, accepted: socket.socket) -> None:
        """Reads from a balancer whose connection this is; until then it counts for no address."""
        assert self._balancers is not None
        try:
            client = await within(self._balancers.client_of(accepted), self._idle_seconds)
        except WordsError:
            self._refuse(connection.peer, WORDS, clock.monotonic())
            raise
        connection.come_from(client)
        if not self._count_address(connection, clock.monotonic()):
            raise ConnectionAbortedError

    def _begin_handshake(self, connection: Connection) -> None:
        now = clock.monotonic()
        if not self._may_stay(connection, self._addresses.begin(connection, now), now):
            raise ConnectionAbortedError
        if self._silent.pop(connection, None) is not None:
            self._silent[connection] = now

    def __len__(self) -> int:
        return len(self._connections) + len(self._setting_up)

    def admit(self, connection: Connection) -> bool:
        """Whether the new connection may stay."""
        if self._setting_up.pop(connection, None) is None or self._stopping:
            return False
        self._connections.add(connection)
        now = connection.last_active = clock.monotonic()
        self._addresses.end(connection, now)
        self._silent.pop(connection)
        self._silent[connection] = now
        self._empty.clear()
        return True

    def first_request(self, connection: "Connection") -> None:
        """Called when the connection's first request has come."""
        self._silent.pop(connection, None)
        self._addresses.asked(connection)

    # ---- limits

    def hold(self, connection: Connection, change: int) -> None:
        """Adds bytes of incomplete frames. Beyond the limit the address that has most of them loses
        the connection that holds most, or the newest of several."""
        self.partial_bytes += change
        self._addresses.hold(connection, change)
        if change > 0 and self.partial_bytes > self.partial_bytes_max:
            hogs = [each for each in self._addresses.of_largest() if isinstance(each, Connection)]
            max(reversed(hogs), key=lambda each: each.partial_bytes).refuse(
                f"all connections together hold {self.partial_bytes} bytes of requests that are "
                "not whole, and its address most of them"
            )

    def _count_address(self, connection: Connection, now: float) -> bool:
        limit = self._addresses.enter(connection, connection.host, now)
        return self._may_stay(connection, limit, now)

    def _may_stay(self, connection: Connection, limit: str, now: float) -> bool:
        """True if no limit is exceeded, or another connection of the address has made room."""
        if not limit:
            return True
        rival = self._addresses.rival(connection, limit, now - SILENT_S)
        if isinstance(rival, Connection):
            self._drop(rival)
            return True
        self._refuse(connection.peer, limit, now)
        return False

    def _displace(self, now: float) -> None:
        """Closes the connection that has been silent for longest, if for at least SILENT_S."""
        oldest, came = next(iter(self._silent.items()), (None, now))
        if oldest is not None and now - came >= SILENT_S:
            self._drop(oldest)

    def _drop(self, connection: Connection) -> None:
        task = self._setting_up.pop(connection, None)
        if task is not None:
            self._forget(connection)
            task.cancel()
        else:
            connection.abort()
            self.closed(connection)

    def _refuse(self, peer: str, limit: str, now: float) -> None:
        """Logs a refusal, at most one line a second for each limit."""
        if now - self._refused_at.get(limit, float("-inf")) >= 1:
            self._refused_at[limit] = now
            why = TOO_MANY.get(limit, f"{len(self)} connections are open; raise {limit}")
            _log.warning("%s refused: %s", peer, why)

    def _forget(self, connection: Connection) -> None:
        """Forgets all counts of a connection that has gone, or was not admitted."""
        self._silent.pop(connection, None)
        self._addresses.leave(connection)

    def closed(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._forget(connection)
            self._closed(connection)
        if not self._connections:
            self._empty.set()

    def _read(self, files: TlsFiles) -> None:
        self._context = files.context()

    def sweep(self) -> None:
        limit = clock.monotonic() - self._idle_seconds
        for connection in [c for c in self._connections if c.last_active < limit]:
            _log.info("%s: idle for %g s, closed", connection.peer, self._idle_seconds)
            connection.abort()  # nothing waits to be sent, and close() would wait for TLS's end

    async def stop(self) -> None:
        """Returns within STOP_SECONDS_MAX and a turn of the loop; a second call does nothing."""
        if self._acceptor is None:
            return
        acceptor, self._acceptor, self._stopping = self._acceptor, None, True
        acceptor.close()
        for task in (self._watching, *self._setting_up.values()):
            if task is not None:
                task.cancel()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            try:
                await asyncio.wait_for(self._empty.wait(), STOP_SECONDS_MAX)
            except asyncio.TimeoutError:
                for connection in list(self._connections):
                    connection.abort()
                await asyncio.sleep(0)


def _address(accepted: socket.socket) -> tuple[Any, ...] | None:
    try:
        found: tuple[Any, ...] = accepted.getpeername()
    except OSError:  # the client has gone
        return None
    return found


async def _says_hello(accepted: socket.socket) -> bool:
    """Whether the client begins with TLS, by its first byte, which stays in the socket."""
    return (await received(accepted, 1, socket.MSG_PEEK))[0] == HELLO
