"""HTTP: a small server for what an operator's machines ask: /metrics, /healthz, /readyz.

    server = HttpServer("127.0.0.1", 5557, {"/healthz": health})    # async () -> Answer
    await server.start(); server.port; await server.stop()

By TLS where a context is given, which is asked for each connection; paths that are `guarded` want
a user and a password (Basic, RFC 7617), without which they answer 401.

It runs on the control thread's loop, so it costs no thread and its answers show that this thread is
alive. GET and HEAD of the paths it is given, nothing else: no bodies, no files, one request after
the other on a connection. A client that is slow, silent or sends nonsense is dropped; there are at
most CONNECTIONS_MAX at once.

    GET /healthz HTTP/1.1   ->   HTTP/1.1 200 OK .. ok
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec

from rmq.serving.acceptor import Acceptor

log = logging.getLogger("rmq.observe.http")

BACKLOG = 100
CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = 16 << 10
HEADERS_MAX = 100
IDLE_S = 75.0  # between two requests; scrapers come back every 15 to 60 s
HEAD_S = 10.0  # from a request's first line to the end of its headers
WRITE_S = 30.0
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found",
           405: "Method Not Allowed", 500: "Internal Server Error",
           503: "Service Unavailable"}  # fmt: skip


class Answer(msgspec.Struct):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[], Awaitable[Answer]]


class Head(msgspec.Struct):
    """Of a request."""

    method: str
    path: str
    keep: bool  # the connection
    authorization: str


class BadRequestError(Exception):
    """The request is malformed or not served here; the connection is closed after the answer."""


class HttpServer:
    """Owned by one asyncio loop."""

    def __init__(
        self,
        host: str,
        port: int,
        handlers: Mapping[str, Handler],
        context: Callable[[], ssl.SSLContext] | None = None,
        credentials: tuple[str, str] | None = None,
        guarded: Collection[str] = (),
    ) -> None:
        """guarded: paths that want the credentials, where there are some."""
        self._host, self._port = host, port
        self._handlers = dict(handlers)
        self._context = context
        self._guarded = frozenset(guarded) if credentials is not None else frozenset()
        text = ":".join(credentials or ()).encode()
        self._authorization = b"basic " + base64.b64encode(text)
        self._acceptor: Acceptor | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listens; OSError when the address is taken."""
        acceptor = Acceptor(self._take, "rmq.observe.http")
        await acceptor.open(self._host, self._port, BACKLOG)
        self._acceptor = acceptor

    @property
    def port(self) -> int:
        assert self._acceptor is not None
        return self._acceptor.port

    async def stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _take(self, accepted: socket.socket) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            accepted.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(accepted))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            reader, writer = await self._streams(accepted)
        except (OSError, asyncio.TimeoutError):  # it is gone already, or speaks no TLS
            accepted.close()
            return
        except asyncio.CancelledError:
            accepted.close()
            raise
        try:
            while await self._serve_one(reader, writer):
                pass
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            pass  # gone, or too slow
        except asyncio.CancelledError:
            pass  # stop(): the streams' own callback would log it as an error
        finally:
            writer.close()

    async def _streams(
        self, accepted: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        context = self._context() if self._context is not None else None
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=context,
            ssl_handshake_timeout=HEAD_S if context is not None else None,
        )  # fmt: skip
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; whether the connection stays."""
        first = await asyncio.wait_for(_line(reader), IDLE_S)
        if not first:
            return False
        try:
            head = await asyncio.wait_for(_head(first, reader), HEAD_S)
        except BadRequestError as error:
            await _send(writer, Answer(400, f"{error}\n".encode()), False, False)
            return False
        answer = await self._answer(head)
        await asyncio.wait_for(_send(writer, answer, head.method == "HEAD", head.keep), WRITE_S)
        return head.keep

    async def _answer(self, head: Head) -> Answer:
        method, path = head.method, head.path
        handler = self._handlers.get(path.partition("?")[0])
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            return Answer(404, f"nothing here; try {known}\n".encode())
        if method not in ("GET", "HEAD"):
            return Answer(405, b"GET only\n")
        if path.partition("?")[0] in self._guarded and not self._is_let_in(head):
            return Answer(401, b"a user and a password, please (rmqMetricsCredentials)\n")
        try:
            return await handler()
        except Exception as error:
            log.error("%s: %s: %s", path.partition("?")[0], type(error).__name__, error)
            return Answer(500, f"{type(error).__name__}: {error}\n".encode())

    def _is_let_in(self, head: Head) -> bool:
        scheme, _, rest = head.authorization.partition(" ")
        given = f"{scheme.lower()} {rest.strip()}".encode("latin-1")
        return hmac.compare_digest(given, self._authorization)


async def _line(reader: asyncio.StreamReader) -> bytes:
    """One line without its end; empty at the end of the stream and for an empty line."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        return b"\0"  # no legal first line or header: refused by the caller
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return b""
    return line.rstrip(b"\r\n")


async def _head(first: bytes, reader: asyncio.StreamReader) -> Head:
    """Of a request with no body."""
    parts = first.decode("latin-1").split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not parts[1].startswith("/"):
        raise BadRequestError("not an HTTP/1 request")
    keep, authorization = parts[2] == "HTTP/1.1", ""
    for _ in range(HEADERS_MAX):
        line = await _line(reader)
        if not line:
            return Head(parts[0], parts[1], keep, authorization)
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise BadRequestError("a header line without a colon")
        name = name.strip().lower()
        if name == "authorization":
            authorization = value.strip()
        value = value.strip().lower()
        if name == "connection":
            keep = value != "close" and (keep or value == "keep-alive")
        if name == "transfer-encoding" or (name == "content-length" and value != "0"):
            raise BadRequestError("no bodies here")
    raise BadRequestError(f"more than {HEADERS_MAX} headers")


async def _send(writer: asyncio.StreamWriter, answer: Answer, head: bool, keep: bool) -> None:
    lines = [
        f"HTTP/1.1 {answer.status} {REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *(['WWW-Authenticate: Basic realm="rmq"'] if answer.status == 401 else []),
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if head else answer.body))
    await writer.drain()
