"""Connection: one client of a server: bytes -> frames -> requests -> replies, in order.

    a frame that is illegal, or cannot be decoded, closes this connection and harms no other
    while a request writes to disk, this connection is not read until the request is answered
    a client that does not read its replies is not read either

Example: two pipelined requests in one TCP segment are answered in their order, in one write or two.

There are limits for the size of a frame and of its header, and for the bytes of incomplete frames
of all connections together, which the owner is told (listener.py).
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Protocol, cast

from rmq.base import clock
from rmq.base.transport_end import abort
from rmq.errors import ProtocolError
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command, encode
from rmq.limits import REQUEST_HEADER_BYTES_MAX
from rmq.serving.tls import common_name

UNKNOWN = "a client"

_log = logging.getLogger("rmq.serving.connection")


class Owner(Protocol):
    """What a connection uses of the listener (listener.py)."""

    def admit(self, connection: "Connection") -> bool: ...
    def hold(self, connection: "Connection", change: int) -> None: ...
    def first_request(self, connection: "Connection") -> None: ...
    def closed(self, connection: "Connection") -> None: ...
    def start(self, request: Command, connection: object) -> "Command | Awaitable[Command]": ...
    def failure(self, request: Command, error: Exception) -> Command: ...


def shown(peer: tuple[Any, ...] | None) -> str:
    """The text of an address given as (host, port, ..)."""
    if not peer:
        return ""
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Connection(asyncio.Protocol):
    """Owned by the event loop. `last_active` is on clock.monotonic()."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(REQUEST_HEADER_BYTES_MAX)
        self.partial_bytes = 0  # of an incomplete frame, as the owner was told
        self._task: asyncio.Task[None] | None = None  # a request that writes to disk
        self._choked = False  # the client does not read
        self._silent = True  # no request has come yet
        self.peer = UNKNOWN
        self.host = ""
        self.proved = ""  # the name in the client's certificate
        self.last_active = clock.monotonic()

    def come_from(self, peer: tuple[Any, ...] | None) -> None:
        """Sets the client's address, (host, port, ..); None: it is not known."""
        if peer:
            self.host = str(peer[0])
            self.peer = shown(peer)

    def close(self) -> None:
        """Closes the connection after everything written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._forget_partial()
        if self._transport is not None:
            abort(self._transport)

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.peer == UNKNOWN:
            self.come_from(transport.get_extra_info("peername"))
        self.proved = common_name(transport.get_extra_info("peercert"))
        if not self._owner.admit(self):
            abort(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._forget_partial()
        self._transport = None
        self._owner.closed(self)

    def data_received(self, data: bytes) -> None:
        self.last_active = clock.monotonic()
        self._frames.feed(data)
        self._settle()
        if self._task is None:
            self._serve()

    def pause_writing(self) -> None:
        self._choked = True
        self._pause_reading()

    def resume_writing(self) -> None:
        self._choked = False
        if self._task is None:
            self._resume_reading()
            self._serve()

    # ---- frames

    def _serve(self) -> None:
        """Answers every whole frame that is here."""
        while not self._is_closing() and self._task is None and not self._choked:
            try:
                request = self._frames.next()
            except ProtocolError as error:
                self.refuse(str(error))
                return
            self._settle()
            if request is None:
                return
            self._answer(request)

    def _forget_partial(self) -> None:
        self._frames.clear()
        self._settle()

    def _settle(self) -> None:
        """Tells the owner what is buffered."""
        change = self._frames.buffered - self.partial_bytes
        self.partial_bytes += change
        if change:
            self._owner.hold(self, change)

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def refuse(self, why: str) -> None:
        _log.warning("%s: connection closed: %s", self.peer, why)
        self.abort()

    def _answer(self, request: Command) -> None:
        if request.is_response:
            return  # a response, although this server sends no requests to its clients
        if self._silent:
            self._silent = False
            self._owner.first_request(self)
        answer = self._owner.start(request, self)
        if isinstance(answer, Command):
            self._send(request, answer)
        else:
            self._pause_reading()
            self._task = asyncio.ensure_future(self._finish(request, answer))

    async def _finish(self, request: Command, answer: Awaitable[Command]) -> None:
        try:
            reply = await answer
        except Exception as error:
            reply = self._owner.failure(request, error)
        self._send(request, reply)
        self._task = None
        if not self._choked:
            self._resume_reading()
            self._serve()

    def _send(self, request: Command, reply: Command) -> None:
        if self._transport is not None and not request.is_oneway:
            self._transport.write(encode(reply))
            self.last_active = clock.monotonic()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._is_closing():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and not self._is_closing():
            self._transport.resume_reading()
