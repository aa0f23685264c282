"""Remoting client: one connection to another server; a request, its reply.

Requests go one after the other, so a reply is matched by its opaque and anything else on the
connection is skipped. Any failure closes the connection; the next request opens it anew.

Example: RemotingClient("127.0.0.1:9876").call(Command(code=103, ..), 24.0) -> the reply
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import cast

from rmq.base.deadline import within
from rmq.base.server_address import split_address
from rmq.errors import AddressError, ProtocolError, RmqError
from rmq.format.frame_reader import FOLLOW_BYTES_MAX, FrameReader
from rmq.format.remoting import Command, encode
from rmq.serving.identity import signed, tls

CONNECT_S = 3.0


class CallError(RmqError):
    """The other server cannot be reached, or did not answer as it should."""


def parse_address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port" or "[v6]:port", where somebody may listen."""
    try:
        host, port = split_address(text)
    except AddressError as error:
        raise CallError(str(error)) from None
    if not port:
        raise CallError(f"{text}: nobody listens on port 0")
    return host, port


class RemotingClient:
    """Owned by one event loop; one caller at a time."""

    def __init__(
        self,
        address: str,
        on_lost: Callable[[], None] = lambda: None,
        answer_bytes_max: int = FOLLOW_BYTES_MAX,
    ) -> None:
        """on_lost: called when the other side closes a connection on which no call is under way."""
        self.address = address
        self._on_lost = on_lost
        self._answer_bytes_max = answer_bytes_max
        self._opaques = itertools.count(1)
        self._link: _Link | None = None

    async def call(self, command: Command, timeout_s: float) -> Command:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        signed(command)
        try:
            answer = (await self._open(timeout_s)).call(command)
            timer = loop.call_at(deadline_s, _expire, answer)
            try:
                return await answer
            finally:
                timer.cancel()
        except asyncio.TimeoutError:
            self.close()
            raise CallError(f"{self.address}: no answer in time") from None
        except (OSError, EOFError, ProtocolError) as error:
            self.close()
            raise CallError(f"{self.address}: {error or type(error).__name__}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def _open(self, timeout_s: float) -> "_Link":
        """The connection, which is made if there is none."""
        if self._link is not None and self._link.is_closed:
            self._lost(self._link)
        if self._link is None:
            self._link = await self._connected(timeout_s)
        return self._link

    async def _connected(self, timeout_s: float) -> "_Link":
        host, port = parse_address(self.address)
        connecting = asyncio.get_running_loop().create_connection(
            lambda: _Link(self._lost, self._answer_bytes_max), host, port, ssl=tls()
        )
        _, link = await within(connecting, min(CONNECT_S, timeout_s))
        return link

    def _lost(self, link: "_Link") -> None:
        if link is self._link:
            self._link = None
            self._on_lost()


class _Link(asyncio.Protocol):
    """A connection. call() returns a future, so that an answer costs no task and no further turn of
    the loop."""

    def __init__(self, on_lost: Callable[["_Link"], None], answer_bytes_max: int) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader(follow_bytes_max=answer_bytes_max)
        self._answer: asyncio.Future[Command] | None = None
        self._opaque = 0

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def call(self, command: Command) -> "asyncio.Future[Command]":
        """The reply, or the error that closed the connection."""
        if self._transport is None:
            raise ConnectionResetError("the other side closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._opaque = command.opaque
        self._transport.write(encode(command))
        return self._answer

    def close(self) -> None:
        self._answer = None
        if self._transport is not None:
            self._transport.close()

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(error or ConnectionResetError("the other side closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        try:
            while (reply := self._frames.next()) is not None:
                self._take(reply)
        except ProtocolError as error:
            self._fail(error)

    def _take(self, reply: Command) -> None:
        answer = self._answer
        if reply.is_response and reply.opaque == self._opaque and answer is not None:
            self._answer = None
            if not answer.done():
                answer.set_result(reply)

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if self._transport is not None:
            self._transport.close()
        if answer is None:
            self._on_lost(self)
        elif not answer.done():
            answer.set_exception(error)


def _expire(answer: "asyncio.Future[Command]") -> None:
    if not answer.done():
        answer.set_exception(asyncio.TimeoutError())
