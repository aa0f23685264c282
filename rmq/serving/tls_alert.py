"""TLS alert: a client whose handshake is refused is told why before its connection is closed.

    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    transport = await connected(make_protocol, accepted, context, handshake_s)

asyncio closes the connection of a handshake that failed with the alert that OpenSSL has made still
in memory. Here it is sent by the handshake itself, which knows its socket: whoever shows no
certificate where one is asked for hears so, instead of an end of the stream for which there may be
many reasons. It is a few bytes; where the socket has no room for them they are left out.

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

# Of the connection whose handshake begins: asyncio asks the context for it a turn later, in a copy
# of the context of variables of whoever has connected it.
_accepted: ContextVar[socket.socket | None] = ContextVar("accepted", default=None)


async def connected(
    protocol: asyncio.Protocol,
    accepted: socket.socket,
    context: ssl.SSLContext | None,
    handshake_s: float,
) -> asyncio.Transport:
    """By TLS where there is a context; OSError, and the socket is closed, when that fails. For a
    task of the connection's own."""
    _accepted.set(accepted)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
        lambda: protocol, accepted, ssl=context,
        ssl_handshake_timeout=handshake_s if context is not None else None,
    )  # fmt: skip
    return transport


class _AlertingObject(ssl.SSLObject):
    """Its half of a connection; `outgoing` is what it has to say."""

    outgoing: ssl.MemoryBIO
    accepted: socket.socket | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            if self.accepted is not None:
                with contextlib.suppress(OSError):  # it is gone, or does not read
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
