"""The HTTP server: what it answers, and what it does with clients that do not behave."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority
from support.name_server import in_loop
from support.waiting import HANG_S, until

from rmq.observe import http
from rmq.observe.http import Answer, HttpServer


async def ok() -> Answer:
    return Answer(200, b"ok\n")


async def broken() -> Answer:
    raise RuntimeError("no numbers")


@asynccontextmanager
async def served(**more: Any) -> AsyncIterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0, {"/healthz": ok, "/broken": broken}, **more)
    await server.start()
    try:
        yield server
    finally:
        await asyncio.wait_for(server.stop(), HANG_S)


async def raw(server: HttpServer, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Everything the server says until it closes."""
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
        b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
@in_loop
async def test_nonsense_is_refused_and_the_connection_closed(request_bytes: bytes) -> None:
    async with served() as server:
        try:
            answer = await raw(server, request_bytes)
        except ConnectionResetError:  # closed with bytes of ours unread
            assert len(request_bytes) > 50_000
            answer = b"HTTP/1.1 400 "
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b" 200 " in await raw(server, b"GET /healthz HTTP/1.0\r\n\r\n")


@in_loop
async def test_slow_and_superfluous_clients_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_S", 0.1)
    monkeypatch.setattr(http, "HEAD_S", 0.1)
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    async with served() as server:
        assert await raw(server, b"") == b""
        assert await raw(server, b"GET /healthz HTTP/1.1\r\nHost:") == b""
        monkeypatch.setattr(http, "IDLE_S", 60)
        monkeypatch.setattr(http, "HEAD_S", 60)
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await until(lambda: len(server._open) == 2)
        with contextlib.suppress(ConnectionResetError):
            assert await raw(server, b"GET /healthz HTTP/1.0\r\n\r\n") == b""
        for _, writer in idle:
            writer.close()


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
