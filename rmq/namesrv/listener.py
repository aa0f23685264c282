"""The listening socket of the name server and the set of its connections.

    start()     binds; ConfigError names the address when it cannot
    sweep()     closes connections on which nothing has moved for `idle_seconds`
    stop()      stops accepting, lets written replies leave, then cuts what is left

Limits: `connections_max`; one more is closed at once, with one log line a second at most.

Example: with connections_max=2 a third client sees its connection closed before any reply; as soon
as one of the first two leaves, a new one is served.
"""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Awaitable, Callable

from rmq.errors import ConfigError
from rmq.format.remoting import Command
from rmq.namesrv.connection import Connection

BACKLOG = 1024
# Sum over all connections of frames under way. A registration of a million topics has 64 MiB.
PARTIAL_BYTES_MAX = 256 * 1024 * 1024
STOP_SECONDS_MAX = 1.0

_log = logging.getLogger("rmq.namesrv.listener")

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
        idle_seconds: float,
    ) -> None:
        self.start = start
        self.failure = failure
        self.partial_bytes = 0
        self.partial_bytes_max = PARTIAL_BYTES_MAX
        self._closed = closed
        self._connections: set[Connection] = set()
        self._connections_max = connections_max
        self._idle_seconds = idle_seconds
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._empty = asyncio.Event()
        self._refused_at = 0.0

    async def open(self, host: str, port: int) -> int:
        """Listens on host:port (0: any free one); returns the port."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self), host, port, backlog=BACKLOG, reuse_address=True
            )
        except (OSError, OverflowError) as error:
            number = getattr(error, "errno", None)  # asyncio's own text repeats the address
            reason = os.strerror(number).lower() if number else str(error)
            if number == errno.EADDRINUSE:
                reason += "; is another name server running there? Choose another port"
            raise ConfigError(f"name server cannot listen on {host}:{port}: {reason}") from None
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def __len__(self) -> int:
        return len(self._connections)

    def opened(self, connection: Connection) -> bool:
        """Whether the new connection may stay."""
        if len(self._connections) >= self._connections_max or self._stopping:
            now = time.monotonic()
            if now - self._refused_at >= 1:
                self._refused_at = now
                _log.warning(
                    "%s refused: %d connections are open", connection.peer, len(self._connections)
                )
            return False
        self._connections.add(connection)
        self._empty.clear()
        return True

    def closed(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._closed(connection)
        if not self._connections:
            self._empty.set()

    def sweep(self) -> None:
        limit = time.monotonic() - self._idle_seconds
        for connection in [c for c in self._connections if c.last_active < limit]:
            _log.info("%s: idle for %g s, closed", connection.peer, self._idle_seconds)
            connection.close()

    async def stop(self) -> None:
        """Returns within STOP_SECONDS_MAX and a turn of the loop; a second call does nothing."""
        if self._server is None:
            return
        server, self._server, self._stopping = self._server, None, True
        server.close()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            try:
                await asyncio.wait_for(self._empty.wait(), STOP_SECONDS_MAX)
            except asyncio.TimeoutError:
                for connection in list(self._connections):
                    connection.abort()
                await asyncio.sleep(0)
