"""Replicas that speak TLS with each other before the reactor has their connection.

Method: the HA port of a master, and sockets that connect to it as a slave's do. A core that only
counts shows what the reactor is given. What the reactor does with it:
tests/unit/flow/test_ha_stream.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from support.certificates import Authority
from support.name_server import in_loop
from support.tampered_handshakes import Tampering
from support.volume import seeds, volume
from support.waiting import HANG_S, until

from cext.net.tls_stream import TlsClientContext, TlsStream
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.core_seam import HACalls
from rmq.broker.replication import ha_port
from rmq.broker.replication.epochs import Epochs
from rmq.broker.replication.ha_handshake import (
    SlaveHandshake,
    encode_slave,
    handshake_as_master,
    handshake_as_slave,
)
from rmq.broker.replication.ha_port import HANDSHAKES_MAX, HAPort
from rmq.broker.replication.ha_socket import HASocket
from rmq.config import load_properties
from rmq.errors import ConfigError

EPOCHS = Epochs.of([(1, 0), (3, 4096)])


class Core:
    """Closes the connections that it is given, and notes how they came."""

    def __init__(self) -> None:
        self.given: list[tuple[int, bool]] = []  # broker id, whether the connection has TLS

    def adopt_slave(self, fd: int, broker_id: int = 0, tls: TlsStream | None = None) -> int:
        os.close(fd)
        self.given.append((broker_id, tls is not None))
        return len(self.given)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def serving(mode: str, authority: Authority, **more: str) -> AsyncIterator[tuple[Any, ...]]:
    pair = authority.pair("master")
    settings = load_properties(None, {
        "rmqReplicaTls": mode, "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key), **more,
    })  # fmt: skip
    core = Core()
    port = HAPort(settings, cast(HACalls, core))
    number = await port.open(0)
    try:
        yield core, port, number
    finally:
        port.close()


async def connected(number: int, source: str = "127.0.0.1") -> HASocket:
    made = socket.create_connection(("127.0.0.1", number), source_address=(source, 0))
    made.setblocking(False)
    return HASocket(made)


def context(authority: Authority, **more: Any) -> TlsClientContext:
    given = {"trusted": str(authority.certificate), "verifies": True, "certificate": None,
             "key": None, "password": None}  # fmt: skip
    return TlsClientContext(**{**given, **more})


@in_loop
async def test_a_slave_is_taken_over_by_tls(authority: Authority) -> None:
    for mode in ("permissive", "enforcing"):
        async with serving(mode, authority) as (core, _, number):
            slave = await connected(number)
            await slave.secure(context(authority), serves=False)
            await until(lambda core=core: core.given == [(0, True)])
            slave.close()


@in_loop
async def test_who_speaks_none_is_served_where_that_is_allowed(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    plain = [(0, False)]
    for mode, given in (("disabled", plain), ("permissive", plain), ("enforcing", [])):
        async with serving(mode, authority) as (core, _, number):
            slave = await connected(number)
            await slave.sendall(bytes(8))
            if given:
                await until(lambda core=core, given=given: core.given == given)
            else:
                with caplog.at_level(logging.WARNING), contextlib.suppress(ConnectionResetError):
                    assert await slave.receive(1) == b""
                assert "it speaks no TLS, and rmqReplicaTls=enforcing asks for it" in caplog.text
                assert core.given == []
            slave.close()


@pytest.mark.parametrize("listed", ["", "127.0.0.2"])
@in_loop
async def test_with_accounts_not_all_on_the_machine_have_the_log(
    authority: Authority, listed: str
) -> None:
    """Who may connect there reads all messages, and acknowledges what a master sends."""
    settings = {"authenticationEnabled": "true", "rmqReplicaAddresses": listed}
    async with serving("disabled", authority, **settings) as (core, _, number):
        stranger, listed_one = await connected(number), await connected(number, "127.0.0.2")
        if listed:
            await until(lambda: core.given == [(0, False)])
        for each in (stranger, listed_one):
            with contextlib.suppress(ConnectionResetError):
                assert await each.receive(1) == b""
            each.close()
        assert len(core.given) == len([listed] if listed else [])


@in_loop
async def test_one_address_leaves_room_for_others(
    authority: Authority, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One address must not take all places for connections that were let in but have not said yet
    who they are."""
    monkeypatch.setattr("rmq.broker.replication.ha_port.TLS_S", HANG_S)
    monkeypatch.setattr("rmq.broker.replication.ha_port.quiet", RateLimitedLog(ha_port.log))
    async with serving("enforcing", authority, rmqReplicaAddresses="127.0.0.0/8") as (
        core, port, number,
    ):  # fmt: skip
        silent = [await connected(number, "127.0.0.2") for _ in range(HANDSHAKES_MAX)]
        await until(lambda: len(port._handshakes) == HANDSHAKES_MAX)
        with caplog.at_level(logging.WARNING), contextlib.suppress(ConnectionResetError):
            assert await (await connected(number, "127.0.0.2")).receive(1) == b""
        assert f"{HANDSHAKES_MAX} of its address, have not said yet who they are" in caplog.text
        other = await connected(number, "127.0.0.3")
        await other.secure(context(authority), serves=False)
        await until(lambda: core.given == [(0, True)])
        silent.pop().close()
        await until(lambda: len(port._handshakes) == HANDSHAKES_MAX - 1)
        again = await connected(number, "127.0.0.2")
        await again.secure(context(authority), serves=False)
        await until(lambda: core.given == [(0, True)] * 2)
        for each in (*silent, other, again):
            each.close()


@in_loop
async def test_what_is_closed_before_its_first_step_leaves_no_socket(authority: Authority) -> None:
    async with serving("enforcing", authority) as (_, port, _):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        port._begin_handshake(HASocket(ours), "10.0.0.7")
        port.close()
        await until(lambda: ours.fileno() == -1)
        assert theirs.recv(1) == b""
        theirs.close()


@in_loop
async def test_certificates_of_both_sides_are_looked_at(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    asks = {"tls.server.need.client.auth": "require",
            "tls.server.trustCertPath": str(authority.certificate)}  # fmt: skip
    async with serving("enforcing", authority, **asks) as (core, _, number):
        slave = await connected(number)
        with pytest.raises(OSError, match=r"TLS: .*(self-signed|unable to get local issuer)"):
            await slave.secure(context(other), serves=False)
        slave.close()
        for pair in (None, other.pair("strange")):
            slave = await connected(number)
            shown = (str(pair.certificate), str(pair.key)) if pair is not None else (None, None)
            await slave.secure(
                context(authority, certificate=shown[0], key=shown[1]), serves=False
            )  # with TLS 1.3 the client is told of a refusal only after its own handshake
            with pytest.raises(OSError, match=r"TLS: .*(certificate|unknown ca)"):
                await slave.receive(1)
            slave.close()
        assert core.given == []
        own = authority.pair("slave")
        slave = await connected(number)
        await slave.secure(
            context(authority, certificate=str(own.certificate), key=str(own.key)), serves=False
        )
        await until(lambda: core.given == [(0, True)])
        slave.close()


@in_loop
async def test_they_greet_by_tls_and_not_a_byte_more_is_read(authority: Authority) -> None:
    async with serving("enforcing", authority) as (core, port, number):
        kept: list[HASocket] = []

        async def handshake(master: HASocket) -> int:
            kept.append(master)
            found = (await handshake_as_master(master, 8192, EPOCHS)).broker_id
            assert await master.receive(100) == b"report"
            return found

        port.handshake = handshake
        slave = await connected(number)
        await slave.secure(context(authority), serves=False)
        found = await handshake_as_slave(slave, 2)
        assert (found.log_end, found.epochs) == (8192, EPOCHS)
        await slave.sendall(b"report")
        await until(lambda: core.given == [(2, True)])
        slave.close()


@in_loop
async def test_large_pieces_pass_both_ways(authority: Authority) -> None:
    ends: list[HASocket] = []
    given = os.urandom(1 << 20)

    async def handshake(master: HASocket) -> int:
        ends.append(master)
        got = b""
        while len(got) < len(given):
            got += await master.receive(1 << 16)
        assert got == given
        await master.sendall(got)
        return 7

    async with serving("enforcing", authority) as (core, port, number):
        port.handshake = handshake
        slave = await connected(number)
        await slave.secure(context(authority), serves=False)
        sending = asyncio.ensure_future(slave.sendall(given))
        got = b""
        while len(got) < len(given):
            got += await slave.receive(1 << 16)
        assert got == given
        await sending
        await until(lambda: core.given == [(7, True)])
        slave.close()


@in_loop
async def test_damaged_handshakes_harm_nobody_else(authority: Authority) -> None:
    async with serving("permissive", authority) as (core, _, number):
        for said in (b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" + bytes(300)):
            slave = await connected(number)
            await slave.sendall(said)
            slave.close()
        slave = await connected(number)
        await slave.secure(context(authority), serves=False)
        await until(lambda: core.given == [(0, True)])
        slave.close()


@pytest.mark.parametrize("asks", ["require", "none"])
@pytest.mark.parametrize("seed", seeds(1))
@in_loop
async def test_handshakes_that_are_tampered_with_harm_nobody(
    seed: int, asks: str, authority: Authority
) -> None:
    """The tampering changes hellos, the messages that end a TLS handshake, and the HA handshake
    after it, with both versions of TLS."""
    own = authority.pair("slave")
    given = {"tls.server.need.client.auth": asks,
             "tls.server.trustCertPath": str(authority.certificate)}  # fmt: skip
    hello, troubles = encode_slave(SlaveHandshake(7)), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with serving("permissive", authority, **given) as (core, port, number):

        async def handshake(master: HASocket) -> int:
            return (await handshake_as_master(master, 8192, EPOCHS)).broker_id

        port.handshake = handshake
        tampering = Tampering(seed, authority, own)
        opened = len(os.listdir("/proc/self/fd"))
        for _ in range(volume(100, 1000)):
            await asyncio.to_thread(tampering.connect, number, hello)
        await until(lambda: not port._handshakes)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= opened)
        # A connection gets this far only if its first bytes were whole.
        assert set(core.given) <= {(7, True)}
        slave = await connected(number)
        await slave.secure(
            context(authority, certificate=str(own.certificate), key=str(own.key)), serves=False
        )
        assert (await handshake_as_slave(slave, 2)).log_end == 8192
        await until(lambda: core.given[-1:] == [(2, True)])
        slave.close()
    assert troubles == []


@in_loop
async def test_without_a_certificate_there_is_no_start(authority: Authority) -> None:
    settings = load_properties(None, {"rmqReplicaTls": "enforcing", "tls.server.mode": "disabled"})
    with pytest.raises(ConfigError, match="rmqReplicaTls=enforcing: there is no certificate"):
        await HAPort(settings, cast(HACalls, Core())).open(0)
    for key, given in (("trusted", "/not/there"), ("certificate", "/not/there")):
        with pytest.raises(ConfigError, match="/not/there"):
            context(authority, **{key: given})
