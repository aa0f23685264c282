"""HA socket: a connection between replicas for as long as the control thread has it.

It is plain, or uses TLS.

    connected = HASocket(socket)
    await connected.secure(context, serves=False)       uses TLS from now on
    await connected.sendall(hello); await connected.receive(100)
    core.follow_master(connected.detach(), whole, connected.tls)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from cext.net.tls import TlsContext
from cext.net.tls_stream import TlsClientContext, TlsStream
from rmq.serving.raw_socket import ready, received
from rmq.serving.tls import HELLO

T = TypeVar("T")


class HASocket:
    """Owned by the control thread; closed by close(), unless detach() has given it away."""

    def __init__(self, connected: socket.socket) -> None:
        """connected: a non-blocking socket."""
        self._socket = connected
        self.tls: TlsStream | None = None

    async def says_hello(self) -> bool:
        """Whether the other side begins with TLS; waits for its first byte."""
        return (await received(self._socket, 1, socket.MSG_PEEK))[0] == HELLO

    async def secure(self, context: TlsContext | TlsClientContext, serves: bool) -> None:
        """Does the TLS handshake. OSError, with the reason: it failed."""
        stream = TlsStream(self._socket.fileno(), context, serves)
        await self._done(stream, stream.handshake)
        self.tls = stream

    async def sendall(self, data: bytes) -> None:
        stream = self.tls
        if stream is None:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
            return
        while data:
            data = data[await self._done(stream, partial(stream.send, data)) :]

    async def receive(self, count: int) -> bytes:
        """At most `count` bytes, and not a byte more is read; empty at the end."""
        stream = self.tls
        if stream is None:
            return await asyncio.get_running_loop().sock_recv(self._socket, count)
        return await self._done(stream, partial(stream.receive, count))

    def detach(self) -> int:
        return self._socket.detach()

    def close(self) -> None:
        self._socket.close()

    async def _done(self, stream: TlsStream, call: Callable[[], T | None]) -> T:
        while (found := call()) is None:
            await ready(self._socket, stream.wants_write)
        return found
