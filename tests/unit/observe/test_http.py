"""The HTTP server: what it answers, and how it treats clients that misbehave."""

import asyncio
import base64
import contextlib
import logging
import os
import select
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import HANG_S, until

from rmq.observe import http
from rmq.observe.http import CONNECTIONS_MAX, SLOW_S, Answer, HttpServer
from rmq.serving.address_table import AddressLimits
from rmq.serving.pace import HANDSHAKES_A_TURN, Pace

HERE, THERE = "127.0.0.1", "127.0.0.2"
MUCH_BYTES = 16 << 20  # more than the buffers of two sockets
KEPT = b"GET /healthz HTTP/1.1\r\n\r\n"  # the connection stays open


async def ok() -> Answer:
    return Answer(200, b"ok\n")


async def broken() -> Answer:
    raise RuntimeError("no numbers")


async def much() -> Answer:
    return Answer(200, bytes(MUCH_BYTES))


@asynccontextmanager
async def served(**more: Any) -> AsyncIterator[HttpServer]:
    paths = {"/healthz": ok, "/broken": broken, "/much": much}
    server = HttpServer(HERE, 0, paths, **more)
    await server.start()
    try:
        yield server
    finally:
        await asyncio.wait_for(server.stop(), HANG_S)


async def raw(server: HttpServer, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Everything that the server sends until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), HANG_S)
    writer.close()
    return answer


@in_loop
async def test_a_request_is_answered_and_the_connection_stays_when_asked() -> None:
    async with served() as server:
        two = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 2
        answer = await raw(server, two + b"GET /healthz?x=1 HTTP/1.0\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3
        assert answer.count(b"Content-Length: 3\r\n") == 3
        assert answer.count(b"Connection: keep-alive") == 2
        assert answer.endswith(b"Connection: close\r\n\r\nok\n")


@in_loop
async def test_head_has_no_body_and_other_methods_are_refused() -> None:
    async with served() as server:
        head = await raw(server, b"HEAD /healthz HTTP/1.0\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n")
        assert b" 405 " in await raw(server, b"DELETE /healthz HTTP/1.0\r\n\r\n")
        gone = await raw(server, b"GET /etc/passwd HTTP/1.0\r\n\r\n")
        assert b" 404 " in gone and b"/healthz" in gone


@in_loop
async def test_a_handler_that_fails_is_an_answer_and_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as server:
        answer = await raw(server, b"GET /broken HTTP/1.0\r\n\r\n")
        assert b" 500 " in answer and b"RuntimeError: no numbers" in answer
        assert "no numbers" in caplog.text
        assert b" 200 " in await raw(server, b"GET /healthz HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\n",
        b"GET /healthz\r\n\r\n",
        b"GET healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
@in_loop
async def test_nonsense_is_refused_and_the_connection_closed(request_bytes: bytes) -> None:
    async with served() as server:
        assert (await raw(server, request_bytes)).startswith(b"HTTP/1.1 400 ")
        assert b" 200 " in await raw(server, b"GET /healthz HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize("headers", [b"a: b\r\n" * 101, (b"a: " + b"b" * 990 + b"\r\n") * 17])
@in_loop
async def test_all_headers_together_have_a_limit(headers: bytes) -> None:
    async with served() as server:
        for head in (b"GET /healthz HTTP/1.1\r\n" + headers, b"GET /" + b"x" * 100_000):
            # The server may close while bytes of the request are unread.
            with contextlib.suppress(ConnectionResetError):
                assert (await raw(server, head)).startswith(b"HTTP/1.1 431 ")
        fewer = headers[headers.index(b"\n") + 1 :]
        answer = await raw(server, b"GET /healthz HTTP/1.0\r\n" + fewer + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("said", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost:"])
@in_loop
async def test_a_request_has_to_come_in_time(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEAD_S", 0.1)
    async with served() as server:
        assert await raw(server, said) == b""


@in_loop
async def test_a_connection_has_to_go_on_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_S", 0.1)
    async with served() as server:
        assert (await raw(server, KEPT)).endswith(b"ok\n")


class Crowd:
    """Connections to one server, from addresses of this machine."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._stack = contextlib.ExitStack()
        self.readers = list[asyncio.StreamReader]()
        self.writers = list[asyncio.StreamWriter]()

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stack.close()

    async def come(self, host: str = HERE, said: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(
            HERE, self._server.port, local_addr=(host, 0)
        )
        self._stack.callback(writer.close)
        writer.write(said)
        self.readers.append(reader)
        self.writers.append(writer)
        return reader

    async def is_served(self, host: str = HERE) -> bool:
        with contextlib.suppress(OSError):
            answer = await (await self.come(host, b"GET /healthz HTTP/1.0\r\n\r\n")).read()
            return answer.endswith(b"ok\n")
        return False


@pytest.mark.still_clock
@pytest.mark.parametrize(
    "said", [b"", b"GET /heal", KEPT + b"GET", b"GET /much HTTP/1.1\r\n\r\n"],
    ids=["silent", "half", "half-again", "unread"],
)  # fmt: skip
@in_loop
async def test_an_address_has_so_many_connections(
    said: bytes,
    clock: DrivenClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """When an address has all its connections, one that the server has waited for too long must
    make room for another of that address, whatever the server waited for."""
    monkeypatch.setattr(http, "OF_ADDRESS", AddressLimits(connections=3))
    async with served() as server:
        with Crowd(server) as crowd:
            first, *_ = [await crowd.come(said=said) for _ in range(3)]
            if b"\r\n" in said:
                for each in crowd.readers:
                    assert (await each.readline()).startswith(b"HTTP/1.1 200")
            await until(lambda: len(server._waited_for) == 3, still=True)
            await until(lambda: not any(each.is_idle for each in server._open), still=True)
            assert not await crowd.is_served()
            assert await crowd.is_served(THERE)
            clock.advance(SLOW_S + 0.1)
            assert await crowd.is_served()
            with contextlib.suppress(ConnectionResetError):
                assert len(await first.read()) < MUCH_BYTES
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert line == "127.0.0.1 is refused: its address has 3 connections"


@pytest.mark.still_clock
@in_loop
async def test_who_has_his_answer_makes_room_for_his_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that has its answer must make room for its address at once, however often it
    asks. The one whose answer is longest ago goes first."""
    monkeypatch.setattr(http, "OF_ADDRESS", AddressLimits(connections=3))
    async with served() as server:
        with Crowd(server) as crowd:
            silent, first, second = [await crowd.come(said=said) for said in (b"", KEPT, KEPT)]
            await until(lambda: sum(each.is_idle for each in server._open) == 2, still=True)
            for each in (first, second):
                assert (await each.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
            assert await crowd.is_served()
            assert await first.read() == b""
            assert {silent.at_eof(), second.at_eof()} == {False}
            assert len(server._open) <= 3


@pytest.mark.still_clock
@in_loop
async def test_addresses_together_have_so_many_connections(clock: DrivenClock) -> None:
    """If no address has more connections than another, a slow connection must make room."""
    async with served() as server:
        with Crowd(server) as crowd:
            for number in range(CONNECTIONS_MAX):
                await crowd.come(f"127.0.1.{number + 1}", b"GET /heal")
            await until(lambda: len(server._waited_for) == CONNECTIONS_MAX, still=True)
            assert not await crowd.is_served()
            clock.advance(SLOW_S + 0.1)
            assert await crowd.is_served()
            await until(lambda: len(server._open) == CONNECTIONS_MAX - 1, still=True)


@pytest.mark.still_clock
@pytest.mark.parametrize("path", ["/healthz", "/slow"])
@in_loop
async def test_who_asks_without_end_keeps_no_other_address_out(path: str) -> None:
    """Four addresses have all connections, and none is slow. The address with most connections must
    make room, until all have the same number; an address with few of them keeps them."""
    never = asyncio.Event()

    async def slow() -> Answer:
        await never.wait()
        return Answer(200, b"")

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
                await reader.readuntil(b"ok\n")

    async with served() as server:
        server._handlers["/slow"] = slow
        with Crowd(server) as crowd:
            asking = []
            for number in range(CONNECTIONS_MAX):
                reader = await crowd.come(f"127.0.1.{number % 4 + 1}")
                asking.append(asyncio.ensure_future(ask(reader, crowd.writers[-1])))
            await until(lambda: len(server._open) == CONNECTIONS_MAX, still=True)
            if path == "/slow":
                await until(lambda: not server._waited_for, still=True)
            held = [await crowd.come("127.0.2.1", KEPT) for _ in range(3)]
            for each in held:
                await each.readuntil(b"ok\n")
            for _ in range(20):
                assert await crowd.is_served()
            assert len(server._open) <= CONNECTIONS_MAX
            assert not any(each.at_eof() for each in held)
            assert sum(not each.done() for each in asking) >= CONNECTIONS_MAX - 3 - 20
            for task in asking:
                task.cancel()


@in_loop
async def test_who_is_worked_for_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose answer is still being made must not make room: a scrape may take long, and
    that is not the client's fault."""
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 1)
    monkeypatch.setattr(http, "SLOW_S", 0.0)
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow() -> Answer:
        asked.set()
        await may_answer.wait()
        return Answer(200, b"at last\n")

    async with served() as server:
        server._handlers["/slow"] = slow
        with Crowd(server) as crowd:
            first = await crowd.come(said=b"GET /slow HTTP/1.0\r\n\r\n")
            await asked.wait()
            assert not await crowd.is_served()
            may_answer.set()
            assert (await first.read()).endswith(b"at last\n")
            assert await crowd.is_served()


@in_loop
async def test_nothing_is_kept_of_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the answer nor the connection of a client that does not read may be kept, even if the
    client stays connected."""
    monkeypatch.setattr(http, "WRITE_S", 0.1)
    async with served() as server:
        with socket.socket() as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (HERE, server.port))
            await until(lambda: len(server._addresses) == 1)
            connected = len(os.listdir("/proc/self/fd"))
            await loop.sock_sendall(client, b"GET /much HTTP/1.1\r\n\r\n")
            await until(lambda: select.select([client], [], [], 0)[0])
            await until(lambda: len(os.listdir("/proc/self/fd")) < connected)
            await until(lambda: len(server._addresses) == 0)


@in_loop
async def test_stop_does_not_wait_for_a_silent_client() -> None:
    async with served() as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.sleep(0.02)
    writer.close()


def get(path: str, credentials: str | None = None, scheme: str = "Basic") -> bytes:
    lines = [f"GET {path} HTTP/1.0"]
    if credentials is not None:
        lines.append(f"AUTHORIZATION: {scheme}  {base64.b64encode(credentials.encode()).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


@in_loop
async def test_guarded_paths_want_a_user_and_a_password() -> None:
    given = ("prom", "geh:eim")
    async with served(credentials=given, guarded=("/healthz",)) as server:
        for request in (
            get("/healthz"), get("/healthz?x"), get("/healthz", "prom:wrong"), get("/healthz", ""),
            get("/healthz", "prom:geh:eim", "Bearer"), get("/healthz", "prom:geh:eim\xff"),
            b"GET /healthz HTTP/1.0\r\nAuthorization: Basic \xff\xfe\r\n\r\n",
        ):  # fmt: skip
            answer = await raw(server, request)
            assert answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n"), request
            assert b'WWW-Authenticate: Basic realm="rmq"\r\n' in answer
            assert b"eim" not in answer
        for scheme in ("Basic", "basic"):
            found = await raw(server, get("/healthz", "prom:geh:eim", scheme))
            assert found.endswith(b"ok\n")
        assert (await raw(server, get("/broken"))).startswith(b"HTTP/1.1 500")


@in_loop
async def test_it_speaks_tls_alone_where_it_has_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(pair.certificate, pair.key)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    async with served(context=lambda: shown) as server:
        assert (await raw(server, get("/healthz"))) == b"", "a plain client is closed"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01\x00\x05hello")
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), HANG_S)
        writer.close()
        found = await raw(server, get("/healthz"), trusting)
        assert found.endswith(b"ok\n")


@in_loop
async def test_handshakes_of_many_wait_for_their_turn(tmp_path: Path) -> None:
    """Handshakes of many connections must wait: only so many begin in a turn of the loop, however
    many have come. A silent connection does not count."""
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(pair.certificate, pair.key)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    taken = list[int]()

    class Counted(Pace):
        def _go_on(self) -> None:
            before = len(self._waiting)
            super()._go_on()
            taken.append(before - len(self._waiting))

    async with served(context=lambda: shown) as server:
        server._pace = Counted(HANDSHAKES_A_TURN)
        with Crowd(server) as crowd:
            for _ in range(3):
                await crowd.come()
            many = 12
            done = await asyncio.gather(
                *(raw(server, get("/healthz"), trusting) for _ in range(many))
            )
    assert [each.endswith(b"ok\n") for each in done] == [True] * many
    assert sum(taken) == many
    assert max(taken) <= HANDSHAKES_A_TURN
