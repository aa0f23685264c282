"""What a server without a store tells clients whose TLS handshake it refuses: the name server,
whose listener is also the controller's (rmq/serving/listener.py), and the port of metrics. And
nothing is left of handshakes that were changed on their way.

Method: real sockets and Python's ssl. What a broker's reactor says: tests/process/test_tls.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.certificates import Authority, Pair
from support.command_line import rmq
from support.controllers import controller
from support.driven_clock import DrivenClock
from support.name_server import Client, in_loop, name_server
from support.tampered_handshakes import Tampering
from support.volume import seeds, volume
from support.waiting import HANG_S, until

from bench.half_open import hello
from rmq.client.blocking.encryption import CERTIFICATE, KEY
from rmq.config import load_properties
from rmq.format.client_tls import ClientTls
from rmq.format.remoting import Command, encode
from rmq.observe.http import Answer, HttpServer
from rmq.serving.listener import HELLO_S
from rmq.serving.tls import TlsFiles

TOPICS = encode(Command(code=206))
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def asking(authority: Authority) -> dict[str, object]:
    """The settings of a server that demands certificates of the authority."""
    server = authority.pair("server")
    return {"tls.server.mode": "permissive", "tls.server.certPath": server.certificate,
            "tls.server.keyPath": server.key, "tls.server.need.client.auth": "require",
            "tls.server.trustCertPath": authority.certificate}  # fmt: skip


def client(
    authority: Authority, shown: Pair | None = None, version: ssl.TLSVersion = VERSIONS[-1]
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.minimum_version = context.maximum_version = version
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


def ask(port: int, context: ssl.SSLContext, said: bytes = TOPICS) -> bytes:
    """The first bytes that come back."""
    with (
        socket.create_connection(("127.0.0.1", port), HANG_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(said)
        return connection.recv(4)


@pytest.mark.parametrize("version", VERSIONS)
@in_loop
async def test_who_shows_no_certificate_is_told_so(
    version: ssl.TLSVersion, authority: Authority, asking: dict[str, object]
) -> None:
    wanted = "ALERT_HANDSHAKE_FAILURE" if version == VERSIONS[0] else "ALERT_CERTIFICATE_REQUIRED"
    async with name_server(**asking) as server:
        for _ in range(3):
            with pytest.raises(ssl.SSLError, match=wanted):
                await asyncio.to_thread(ask, server.port, client(authority, None, version))
        shown = client(authority, authority.pair("known"), version)
        assert await asyncio.to_thread(ask, server.port, shown)


@pytest.mark.parametrize("version", VERSIONS)
@in_loop
async def test_who_shows_a_strange_certificate_is_told_so(
    version: ssl.TLSVersion, authority: Authority, asking: dict[str, object], tmp_path: Path
) -> None:
    strange = Authority(tmp_path, "other").pair("strange")
    async with name_server(**asking) as server:
        with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA"):
            await asyncio.to_thread(ask, server.port, client(authority, strange, version))


@in_loop
async def test_who_has_no_cipher_in_common_is_told_so(
    authority: Authority, asking: dict[str, object]
) -> None:
    other = client(authority, None, VERSIONS[0])
    other.set_ciphers("AES128-GCM-SHA256")  # a cipher for a key of RSA, which the server's is not
    async with name_server(**asking) as server:
        with pytest.raises(ssl.SSLError, match="ALERT_HANDSHAKE_FAILURE"):
            await asyncio.to_thread(ask, server.port, other)


@in_loop
async def test_who_is_gone_before_the_alert_harms_nobody(
    authority: Authority, asking: dict[str, object]
) -> None:
    """A client that is gone before the alert must harm nobody: the whole rest of its handshake
    comes together with its end."""
    async with name_server(**asking) as server:
        for _ in range(5):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            ours = client(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            while True:
                with contextlib.suppress(ssl.SSLWantReadError):
                    ours.do_handshake()
                    break
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
            writer.write(outgoing.read())
            writer.transport.close()
        shown = client(authority, authority.pair("known"))
        assert await asyncio.to_thread(ask, server.port, shown)


@in_loop
async def test_the_command_line_names_the_cause(
    authority: Authority, asking: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    strange = Authority(tmp_path, "other").pair("strange")
    async with name_server(**asking) as server:
        words = ("topic", "list", "-n", f"127.0.0.1:{server.port}", "--tls-ca",
                 str(authority.certificate))  # fmt: skip
        done = await asyncio.to_thread(rmq, *words)
        assert done.returncode == 3
        assert "(it asks for a certificate: give one by --tls-cert FILE" in done.stderr
        monkeypatch.setenv(CERTIFICATE, str(strange.certificate))
        monkeypatch.setenv(KEY, str(strange.key))
        done = await asyncio.to_thread(rmq, *words)
        assert "it does not accept the certificate that it was shown" in done.stderr
        assert "may be" not in done.stderr


@pytest.mark.still_clock
@in_loop
async def test_a_handshake_has_ten_seconds(clock: DrivenClock) -> None:
    """A handshake must be over within ten seconds of its first byte, whatever comes in between. A
    connection with a finished handshake, or without TLS, has no such limit."""
    assert HELLO_S == 10
    whole = hello()
    async with name_server() as server, contextlib.AsyncExitStack() as stack:
        listener = server._listener
        assert listener is not None

        async def connected() -> Client:
            return await stack.enter_async_context(Client(server.port))

        plain, silent, half, other, done = [await connected() for _ in range(5)]
        done.writer.close()
        done.reader, done.writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=ClientTls(verify=False).context()
        )
        assert (await plain.call(206)).code == (await done.call(206)).code == 0
        clock.advance(30)  # a silent client may speak no TLS at all
        half.writer.write(whole[: len(whole) // 2])
        other.writer.write(whole)
        assert await other.reader.read(1) == b"\x16", "it is answered, and does not go on"
        shaking = listener._addresses._by_key.values()
        await until(lambda: sum(len(each.shaking) for each in shaking) == 2, still=True)
        began = clock.monotonic()
        clock.advance(HELLO_S / 2)
        half.writer.write(whole[len(whole) // 2 : -1])
        assert (await plain.call(206)).code == 0
        assert len(listener) == 5
        clock.advance(HELLO_S / 2 + 0.1)
        for client in (half, other):
            assert await client.closed_by_peer()
        assert clock.monotonic() - began < HELLO_S + 5, "it was not the clock that stands still"
        for client in (plain, silent, done):
            assert (await client.call(206)).code == 0
        assert len(listener) == 3


@asynccontextmanager
async def metrics(settings: dict[str, object]) -> AsyncIterator[HttpServer]:
    files = TlsFiles.of(load_properties(None, {key: str(v) for key, v in settings.items()}))
    assert files is not None
    shown = files.context()

    async def well() -> Answer:
        return Answer(200, b"well\n")

    server = HttpServer("127.0.0.1", 0, {"/healthz": well}, context=lambda: shown)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@in_loop
async def test_so_does_the_port_of_metrics(authority: Authority, asking: dict[str, object]) -> None:
    said = b"GET /healthz HTTP/1.0\r\n\r\n"
    async with metrics(asking) as server:
        with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REQUIRED"):
            await asyncio.to_thread(ask, server.port, client(authority), said)
        shown = client(authority, authority.pair("known"))
        assert await asyncio.to_thread(ask, server.port, shown, said) == b"HTTP"


@pytest.mark.parametrize("asks", ["require", "none"])
@pytest.mark.parametrize("where", ["name server", "controller", "metrics"])
@pytest.mark.parametrize("seed", seeds(1))
@in_loop
async def test_handshakes_that_are_tampered_with_harm_nobody(
    seed: int, where: str, asks: str, authority: Authority, asking: dict[str, object],
    tmp_path: Path,
) -> None:  # fmt: skip
    settings = {**asking, "tls.server.need.client.auth": asks}
    known, troubles = authority.pair("known"), list[object]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with AsyncExitStack() as stack:
        said = b"GET /healthz HTTP/1.0\r\n\r\n" if where == "metrics" else TOPICS
        if where == "metrics":
            port = (await stack.enter_async_context(metrics(settings))).port
        elif where == "controller":
            port = (await stack.enter_async_context(controller(tmp_path, **settings))).port
        else:
            port = (await stack.enter_async_context(name_server(**settings))).port
        shown = client(authority, known)
        assert await asyncio.to_thread(ask, port, shown, said)
        opened = len(os.listdir("/proc/self/fd"))
        tampering = Tampering(seed, authority, known)
        for _ in range(volume(40, 400)):
            await asyncio.to_thread(tampering.connect, port, said)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= opened)
        assert await asyncio.to_thread(ask, port, shown, said)
    assert troubles == []
