"""TLS alert: tells a client why its handshake is refused, before its connection is closed.

    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    transport = await connected(make_protocol, accepted, context, handshake_s)

When a handshake fails, asyncio closes the connection without sending the alert that OpenSSL has
made. Here the handshake itself sends it, because it knows its socket: so a client that shows no
certificate where one is required is told that, instead of seeing the stream end for an unknown
reason. The alert has a few bytes; if the socket has no room for them they are left out.

Example: with tls.server.need.client.auth=require, Python's client without a certificate gets
ssl.SSLError, "tlsv13 alert certificate required".
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import Any

# The socket of the connection whose handshake begins: asyncio uses the SSL context for it one turn
# later, in a copy of the variable context of the task that connected it.
_accepted: ContextVar[socket.socket | None] = ContextVar("accepted", default=None)


async def connected(
    protocol: asyncio.Protocol,
    accepted: socket.socket,
    context: ssl.SSLContext | None,
    handshake_s: float,
) -> asyncio.Transport:
    """Makes a transport, with TLS if there is a context; OSError, and the socket is closed, when
    that fails. To be called in a task of the connection's own."""
    _accepted.set(accepted)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
        lambda: protocol, accepted, ssl=context,
        ssl_handshake_timeout=handshake_s if context is not None else None,
    )  # fmt: skip
    return transport


class _AlertingObject(ssl.SSLObject):
    """This side's half of a connection; `outgoing` holds the bytes that it must send."""

    outgoing: ssl.MemoryBIO
    accepted: socket.socket | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            if self.accepted is not None:
                with contextlib.suppress(OSError):  # the client is gone, or does not read
                    self.accepted.send(self.outgoing.read())
            raise
        self.accepted = None


class AlertingContext(ssl.SSLContext):
    sslobject_class = _AlertingObject

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *more: Any, **named: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *more, **named)
        assert isinstance(made, _AlertingObject)
        made.outgoing, made.accepted = outgoing, _accepted.get()
        return made
