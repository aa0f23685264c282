"""Connection: one client of a server: bytes -> frames -> requests -> replies, in order.

    a frame that is not legal, or does not decode, closes this connection and harms no other
    a request that writes to disk stops the reading of this connection until it is answered
    a client that does not read its replies is not read either

Example: two pipelined requests in one TCP segment are answered in their order, in one write or two.

Limits: the largest frame, and its header; and what all connections together hold of frames that are
not complete yet, of which its owner is told (listener.py).
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
    """What a connection needs of the listener; see listener.py."""

    def admit(self, connection: "Connection") -> bool: ...
    def hold(self, connection: "Connection", change: int) -> None: ...
    def first_request(self, connection: "Connection") -> None: ...
    def closed(self, connection: "Connection") -> None: ...
    def start(self, request: Command, connection: object) -> "Command | Awaitable[Command]": ...
    def failure(self, request: Command, error: Exception) -> Command: ...


def shown(peer: tuple[Any, ...] | None) -> str:
    """host, port, .. as people write it."""
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
        self.partial_bytes = 0  # that the owner knows of
        self._task: asyncio.Task[None] | None = None  # a request that writes to disk
        self._choked = False  # the client does not read
        self._silent = True  # no request has come yet
        self.peer = UNKNOWN
        self.host = ""
        self.proved = ""  # whom its certificate names
        self.last_active = clock.monotonic()

    def come_from(self, peer: tuple[Any, ...] | None) -> None:
        """host, port, ..; None: that is not known."""
        if peer:
            self.host = str(peer[0])
            self.peer = shown(peer)

    def close(self) -> None:
        """Closes after what is already written has left."""
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
            return  # these servers ask nothing here, so the answer is to nothing
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
