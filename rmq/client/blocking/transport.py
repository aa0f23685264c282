"""Transport: how a request gets to an address, and its answer back, whatever the request is.

    transport.invoke("127.0.0.1:10911", Command(code=28))       the answer, whatever its code

Admin and the functions in admin.py and lookup.py need only this method. It may use blocking sockets
(SocketTransport, for the command line), the client's engine (Admin's own), the event loop of the
program, or a function in a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rmq.client.blocking.connection import Connection
from rmq.format.remoting import Command


class Transport(Protocol):
    def invoke(self, address: str, request: Command, timeout_s: float | None = None) -> Command:
        """The answer, whatever its code. The transport chooses `request.opaque`. UnreachableError:
        there was no answer within `timeout_s` (None: the transport's own limit)."""


class SocketTransport:
    """One blocking connection to each address, kept until close; used by one thread."""

    def __init__(self, dial: Callable[[str], Connection] = Connection) -> None:
        self._dial = dial
        self._connections: dict[str, Connection] = {}

    def connect(self, address: str) -> Connection:
        """The connection that is kept to this address; a new one if there is none."""
        connection = self._connections.get(address)
        if connection is None or connection.fileno() < 0:
            connection = self._connections[address] = self._dial(address)
        return connection

    def invoke(self, address: str, request: Command, timeout_s: float | None = None) -> Command:
        connection = self.connect(address)
        return connection.ask(request.code, request.fields, request.body, timeout_s)

    def drop(self, address: str) -> None:
        """Closes the connection to this address, if there is one."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
