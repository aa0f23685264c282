"""HTTP: a small server for an operator's machines: /metrics, /healthz, /readyz.

    server = HttpServer("127.0.0.1", 5557, {"/healthz": health})    # async () -> Answer
    await server.start(); server.port; await server.stop()

It uses TLS if a context is given, which is a function that is called for each connection. Paths
that are `guarded` need a user and a password (Basic, RFC 7617); without these the answer is 401.

It runs on the control thread's loop, so it costs no thread, and its answers show that this thread
is alive. It serves only GET and HEAD of its paths: no bodies, no files, one request after the other
on a connection. A client that is slow, silent or sends nonsense is dropped.

There are at most CONNECTIONS_MAX connections, and at most OF_ADDRESS of one address
(rmq/serving/address_table.py). For a further one another connection is closed, so that nobody can
keep a health probe from its answer by holding connections, or by sending requests without end:

    too many in all        one of the address that has most, if it has more than the new one's
                           address: the one that has kept the server waiting for longest, else the
                           newest
    too many of an         one of that address: the one that has kept the server waiting for
    address, or in all,    longest, at least SLOW_S (for a handshake, a request, or for reading its
    and none has more      answer), else the one whose last answer is oldest and that has asked for
                           nothing since

If there is no such connection, the new one is closed, which is logged.

    GET /healthz HTTP/1.1   ->   HTTP/1.1 200 OK .. ok
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from rmq.base import clock
from rmq.base.deadline import within
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.base.transport_end import abort
from rmq.serving.acceptor import Acceptor
from rmq.serving.address_table import AddressLimits, AddressTable
from rmq.serving.pace import HANDSHAKES_A_TURN, Pace
from rmq.serving.raw_socket import received
from rmq.serving.tls_alert import connected

log = logging.getLogger("rmq.observe.http")

BACKLOG = 100
CONNECTIONS_MAX = 64
OF_ADDRESS = AddressLimits(connections=16)
SLOW_S = 1.0
HEAD_BYTES_MAX = 16 << 10
HEADERS_MAX = 100
IDLE_S = 75.0  # between two requests; scrapers come back every 15 to 60 s
HEAD_S = 10.0  # for a handshake, for a request, and for the first byte of the first request
WRITE_S = 30.0  # for the client to read an answer
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found",
           405: "Method Not Allowed", 431: "Request Header Fields Too Large",
           500: "Internal Server Error", 503: "Service Unavailable"}  # fmt: skip


class Answer(msgspec.Struct):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[], Awaitable[Answer]]


class Head(msgspec.Struct):
    """The head of a request."""

    method: str
    path: str
    keep: bool  # whether the connection stays open
    authorization: str


class BadRequestError(Exception):
    """The request is malformed or not served here; the connection is closed after the answer."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.answer = Answer(status, f"{text}\n".encode())


@dataclass(eq=False)
class Client:
    accepted: socket.socket
    host: str
    task: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None
    has_answer: bool = False  # to all of its requests

    @property
    def is_idle(self) -> bool:
        """Whether it has read the answers to all of its requests."""
        if not self.has_answer or self.transport is None:
            return False
        return self.transport.get_write_buffer_size() == 0


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
        """guarded: paths that need the credentials, if these are given."""
        self._host, self._port = host, port
        self._handlers = dict(handlers)
        self._context = context
        self._guarded = frozenset(guarded) if credentials is not None else frozenset()
        text = ":".join(credentials or ()).encode()
        self._authorization = b"basic " + base64.b64encode(text)
        self._acceptor: Acceptor | None = None
        self._open: set[Client] = set()
        self._waited_for: dict[Client, float] = {}  # client -> since when, oldest first
        self._addresses = AddressTable(OF_ADDRESS)
        self._pace = Pace(HANDSHAKES_A_TURN)
        self._refused = RateLimitedLog(log)

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
        tasks = [client.task for client in self._open if client.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- connections and their limits

    def _take(self, accepted: socket.socket) -> None:
        client = Client(accepted, _host(accepted))
        limit, other = self._limit(client, clock.monotonic())
        if limit and other is None:
            self._refused.warning(limit, "%s is refused: %s", client.host, limit)
            self._addresses.leave(client)
            accepted.close()
            return
        if other is not None:
            self._leave(other)
        self._open.add(client)
        self._wait_for(client)
        client.task = asyncio.get_running_loop().create_task(self._serve(client))
        client.task.add_done_callback(lambda _: self._end(client))

    def _limit(self, client: Client, now: float) -> tuple[str, Client | None]:
        """(the limit that the client exceeds, the client that is closed for it)."""
        if self._addresses.enter(client, client.host, now):
            of_address = f"its address has {OF_ADDRESS.connections} connections"
            return of_address, self._waited_for_most(self._addresses.mates(client), now)
        if len(self._open) < CONNECTIONS_MAX:
            return "", None
        of_all = f"there are {CONNECTIONS_MAX} connections"
        most = [each for each in self._addresses.of_most(client) if isinstance(each, Client)]
        if most:
            return of_all, next((each for each in self._waited_for if each in most), most[-1])
        return of_all, self._waited_for_most(self._open, now)

    def _waited_for_most(self, among: Collection[Hashable], now: float) -> Client | None:
        waited_for = [(each, at) for each, at in self._waited_for.items() if each in among]
        slow = (each for each, since in waited_for if since <= now - SLOW_S)
        idle = (each for each, _ in waited_for if each.is_idle)
        return next(chain(slow, idle), None)

    def _wait_for(self, client: Client) -> None:
        """Notes that the server waits for the client from now on."""
        if client in self._open:
            self._waited_for.pop(client, None)
            self._waited_for[client] = clock.monotonic()

    def _work_for(self, client: Client) -> None:
        self._waited_for.pop(client, None)

    def _leave(self, client: Client) -> None:
        """Stops counting the client; a second call does nothing."""
        self._open.discard(client)
        self._waited_for.pop(client, None)
        self._addresses.leave(client)
        if client.task is not None:
            client.task.cancel()
        if client.transport is not None:
            abort(client.transport)  # close() would keep the answer until the client has read it

    def _end(self, client: Client) -> None:
        """Cleans up after the client's task: if that was cancelled before its first step, it has
        closed nothing itself."""
        self._leave(client)
        client.accepted.close()

    # ---- requests and answers

    async def _serve(self, client: Client) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            reader, writer = await self._streams(client)
            wait_s = HEAD_S
            while await self._serve_one(client, reader, writer, wait_s):
                wait_s = IDLE_S
            writer.close()
            await within(writer.wait_closed(), WRITE_S)

    async def _streams(self, client: Client) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        context = self._context() if self._context is not None else None
        if context is not None:
            await within(received(client.accepted, 1, socket.MSG_PEEK), HEAD_S)
            await self._pace.step()
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        client.transport = await connected(protocol, client.accepted, context, HEAD_S)
        return reader, asyncio.StreamWriter(client.transport, protocol, reader, loop)

    async def _serve_one(
        self, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
        wait_s: float,
    ) -> bool:  # fmt: skip
        """Answers one request, which must begin within wait_s; returns whether the connection
        stays."""
        first = await within(reader.read(1), wait_s)
        client.has_answer = False
        if not first:
            return False
        try:
            head = await within(_head(first, reader), HEAD_S)
        except BadRequestError as error:
            await within(_send(writer, error.answer, False, False), WRITE_S)
            return False
        self._work_for(client)
        answer = await self._answer(head)
        self._wait_for(client)
        await within(_send(writer, answer, head.method == "HEAD", head.keep), WRITE_S)
        self._wait_for(client)
        client.has_answer = head.keep
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


async def _head(first: bytes, reader: asyncio.StreamReader) -> Head:
    """The head of a request with no body; its byte `first` was read before."""
    line = first + await _line(reader, HEAD_BYTES_MAX)
    parts = line.rstrip(b"\r\n").decode("latin-1").split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not parts[1].startswith("/"):
        raise BadRequestError("not an HTTP/1 request")
    keep, authorization, room = parts[2] == "HTTP/1.1", "", HEAD_BYTES_MAX - len(line)
    for _ in range(HEADERS_MAX + 1):  # the headers and the empty line
        line = await _line(reader, room)
        room -= len(line)
        name, colon, value = line.rstrip(b"\r\n").decode("latin-1").partition(":")
        if not colon and not name:
            return Head(parts[0], parts[1], keep, authorization)
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
    raise BadRequestError(f"more than {HEADERS_MAX} headers", 431)


async def _line(reader: asyncio.StreamReader, room: int) -> bytes:
    """One line with its end. asyncio.IncompleteReadError: there is none."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        line = bytes(HEAD_BYTES_MAX + 1)
    if len(line) > room:
        raise BadRequestError(f"a request has {HEAD_BYTES_MAX} bytes at most", 431)
    return line


def _host(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:  # the client has gone
        return ""


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
