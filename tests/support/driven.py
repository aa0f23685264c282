"""Driven: a reactor without a thread, whose turns the test runs, and sockets to it.

with Driven() as driven:
    port, echo = driven.listen()
    client = driven.connect(port)
    client.sendall(b"one\n")
    assert driven.receive(client, 6) == b"1:one\n"
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from cext.testing.driven_reactor import DrivenReactor
from support.shard import readable
from support.waiting import HANG_S

TIMEOUT_S = HANG_S


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


class Driven:
    """`options` are those of DrivenReactor."""

    def __init__(self, **options: Any) -> None:
        self.reactor = DrivenReactor(**options)
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sockets:
            each.close()

    def listen(self, toy: bool = False) -> tuple[int, Any]:
        """Listens on a free port; returns the port and the echo service behind it."""
        listener = listening()
        self.sockets.append(listener)
        return listener.getsockname()[1], self.reactor.add_listener(listener.fileno(), toy)

    def connect(self, port: int, receive_buffer: int = 0) -> socket.socket:
        """A client that the reactor has accepted."""
        before = self.reactor.connections()
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setblocking(False)
        self.sockets.append(client)
        self.until(lambda: self.reactor.connections() == before + 1)
        return client

    def until(self, condition: Callable[[], bool]) -> None:
        """Runs turns until the condition holds; each waits a little for the kernel."""
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            self.reactor.turn(10)

    def receive(self, client: socket.socket, count: int) -> bytes:
        """Runs turns until `count` bytes have come, and returns them."""
        got = b""

        def more() -> bool:
            nonlocal got
            if readable(client.fileno(), 0):
                piece = client.recv(count - len(got))
                assert piece, f"closed after {got!r}"
                got += piece
            return len(got) == count

        self.until(more)
        return got

    def is_closed(self, client: socket.socket) -> bool:
        """Runs turns until the reactor has closed the connection; it must send nothing before."""
        self.until(lambda: readable(client.fileno(), 0))
        try:
            return client.recv(1) == b""
        except ConnectionResetError:
            return True
