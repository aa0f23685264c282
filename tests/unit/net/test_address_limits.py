"""What one address may have: connections, handshakes at the same time, handshakes in a second."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority
from support.driven_clock import DrivenClock
from support.shard import TIMEOUT_S, Client, Shard, send
from support.waiting import wait_until

from bench.half_open import hello
from cext.net.tls import TlsContext
from rmq.base import networks

pytestmark = pytest.mark.still_clock

HERE, THERE, BALANCER = "127.0.0.1", "127.0.0.2", "127.0.0.9"
ITSELF = b"PROXY UNKNOWN\r\n"  # what a balancer says that only checks whether somebody listens
SPARE = 1024  # entries that the table has beyond the connections (address_table.pyx)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def serving(root: Path, authority: Authority | None = None, **limits: int) -> Iterator[Shard]:
    given: dict[str, Any] = dict(limits)
    if authority is not None:
        pair = authority.pair("server")
        context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
        given["tls"] = (context, True)
    given["balancers"] = networks.packed(networks.network(f"{BALANCER}/32"))
    with Shard(root, **given) as shard:
        shard.topic("t")
        yield shard


class From(Client):
    """A client with a loopback address of its own. `said`: the bytes that it sends first."""

    def __init__(self, shard: Shard, source: str = HERE, said: bytes = b"") -> None:
        self.socket = socket.create_connection(
            (HERE, shard.core.port), TIMEOUT_S, source_address=(source, 0)
        )
        self._stream = self.socket.makefile("rb")
        shard.clients.append(self)
        with contextlib.suppress(OSError):  # the server may have closed it already
            self.socket.sendall(said)

    def __enter__(self) -> From:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_served(self) -> bool:
        with contextlib.suppress(OSError, EOFError):
            return self.ask(send("t", b"x", 1)).code == 0
        return False


def named(address: str) -> bytes:
    family = 6 if ":" in address else 4
    other = "::1" if family == 6 else "10.0.0.5"
    return f"PROXY TCP{family} {address} {other} 40000 10911\r\n".encode()


def shakes_hands(shard: Shard, authority: Authority, source: str = HERE) -> bool:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        contextlib.suppress(OSError),
        socket.create_connection((HERE, shard.core.port), TIMEOUT_S, (source, 0)) as plain,
        # A socket that is closed already counts as not connected, and would get no handshake.
        context.wrap_socket(
            plain, server_hostname="localhost", do_handshake_on_connect=False
        ) as hidden,
    ):
        hidden.do_handshake()
        return True
    return False


def test_an_address_has_so_many_connections(tmp_path: Path) -> None:
    with serving(tmp_path, connections_per_address=3) as shard:
        clients = [From(shard) for _ in range(3)]
        assert all(each.is_served() for each in clients)
        assert not From(shard).is_served()
        other = From(shard, THERE)
        assert other.is_served()
        assert shard.core.stats()["connections_refused_address"] == 1
        clients.pop().close()
        shard.until(lambda now: now["connections"] == 3)
        assert From(shard).is_served()


def test_behind_a_balancer_it_is_the_clients_address(tmp_path: Path) -> None:
    """An IPv6 address counts as its network, because whoever has one address of it has all of
    them."""
    with serving(tmp_path, connections_per_address=2) as shard:
        kept = []
        for source, may in [
            ("192.0.2.1", True), ("192.0.2.1", True), ("192.0.2.1", False), ("192.0.2.2", True),
            ("2001:db8:0:1::1", True), ("2001:db8:0:1::2", True), ("2001:db8:0:1:9::3", False),
            ("2001:db8:0:2::1", True), ("::ffff:192.0.2.2", True), ("::ffff:192.0.2.2", False),
        ]:  # fmt: skip
            kept.append(From(shard, BALANCER, named(source)))
            assert kept[-1].is_served() == may, source
        assert From(shard, BALANCER, ITSELF).is_served()  # the balancer itself has one connection
        counts = shard.core.stats()
        assert counts["connections_refused_address"] == 3
        assert counts["handshakes_refused_address"] == 0


def test_what_a_balancer_has_not_named_yet_is_refused_to_nobody(tmp_path: Path) -> None:
    """In a burst all connections are accepted before the first one names its client. The balancer's
    own connections count for the balancer."""
    with serving(tmp_path, connections_per_address=2) as shard:
        waiting = [From(shard, BALANCER) for _ in range(5)]
        shard.until(lambda now: now["connections"] == 5)
        for number, each in enumerate(waiting):
            each.socket.sendall(named(f"192.0.2.{number}"))
        assert all(each.is_served() for each in waiting)
        assert [From(shard, BALANCER, ITSELF).is_served() for _ in range(3)] == [True, True, False]
        assert shard.core.stats()["connections_refused_address"] == 1


def test_handshakes_at_once(tmp_path: Path, authority: Authority) -> None:
    said = hello()[:50]
    with serving(tmp_path, authority, handshakes_per_address=2) as shard:
        halves = [From(shard, said=said) for _ in range(2)]
        # The core reads these bytes before those of others.
        shard.until(lambda now: now["connections"] == 2)
        # A second may have passed, and one of the halves made room.
        while shakes_hands(shard, authority):
            halves.append(From(shard, said=said))
            shard.until(lambda now: now["connections"] == 2)
        assert shard.core.stats()["handshakes_refused_address"] == 1
        with From(shard) as plain:
            assert plain.is_served()  # it begins no handshake
        assert shakes_hands(shard, authority, THERE)
        for each in halves:
            each.close()
        for _ in range(3):  # handshakes that are over no longer count
            shard.until(lambda now: now["connections"] == 0)
            assert shakes_hands(shard, authority)


def test_who_does_not_get_on_makes_room(
    clock: DrivenClock, tmp_path: Path, authority: Authority
) -> None:
    """A connection of the same address makes room if for a second it was silent, or its handshake
    stood still."""
    limits = {"connections_per_address": 3, "handshakes_per_address": 2}
    with serving(tmp_path, authority, **limits) as shard:
        other = From(shard, THERE)
        halves = [From(shard, said=hello()[:50]) for _ in range(2)]
        shard.until(lambda now: now["connections"] == 3)
        shard.look_at_clock()  # what the halves said has been read
        clock.advance(1.1)
        shard.look_at_clock()
        # Not before the thread has given back what the halves said: until then they wait for the
        # broker, not for their client.
        wait_until(lambda: shakes_hands(shard, authority))
        shard.until(lambda now: now["connections"] == 2)
        asking = [From(shard) for _ in range(2)]
        assert all(each.is_served() for each in asking)
        last = From(shard)
        assert last.is_served(), "the other half made room"
        assert all(each.is_closed() for each in halves)
        assert not From(shard).is_served(), "all that are left have asked for something"
        assert other.is_served()
        counts = shard.core.stats()
        assert counts["connections_displaced"] == 2
        assert counts["connections_refused_address"] == 1


def test_handshakes_in_a_second(clock: DrivenClock, tmp_path: Path, authority: Authority) -> None:
    with serving(tmp_path, authority, handshake_rate_per_address=1) as shard:
        for _ in range(2):
            assert shakes_hands(shard, authority)
            while shakes_hands(shard, authority):  # until all falls into one second
                pass
            assert shakes_hands(shard, authority, THERE)
            clock.advance(1)
            shard.look_at_clock()
        assert shard.core.stats()["handshakes_refused_address"] == 2


def test_a_resumed_handshake_counts_like_any_other(tmp_path: Path, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session: ssl.SSLSession | None = None

    def resumes() -> bool:
        nonlocal session
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HERE, shard.core.port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as hidden,
        ):
            session = hidden.session
            return True
        return False

    with serving(tmp_path, authority, handshake_rate_per_address=2) as shard:
        assert resumes() and resumes()
        while resumes():  # until all falls into one second
            pass
        counts = shard.core.stats()
        assert counts["handshakes_refused_address"] == 1
        assert counts["tls_resumed"] == counts["tls_handshakes"] - 1


def test_more_addresses_than_are_kept(tmp_path: Path, authority: Authority) -> None:
    """An entry stays until its second is over, and is used for another address if no other one is
    free."""
    limits = {"handshake_rate_per_address": 1, "connections_max": 16}
    with serving(tmp_path, authority, **limits) as shard:
        held = From(shard, BALANCER, named("192.0.2.1"))
        assert held.is_served()
        for number in range(2 * (SPARE + 16)):
            source = f"10.1.{number >> 8}.{number & 255}"
            with From(shard, BALANCER, named(source) + b"\x16\x03\x09" + bytes(9)) as client:
                assert not client.is_served()
            # All of them take a while, and this connection must not be idle for so long.
            if number % 100 == 0:
                assert held.is_served()
        assert held.is_served()
        assert shakes_hands(shard, authority)


def test_what_belongs_to_the_handshake_thread_is_given_back(
    tmp_path: Path, authority: Authority
) -> None:
    """Clients that leave while the thread has their handshakes: their sockets and memory are
    freed."""
    with serving(tmp_path, authority, connections_max=200) as shard:
        said = hello()
        gc.collect()  # collects what earlier tests left
        opened = len(os.listdir("/proc/self/fd"))
        for _ in range(100):
            From(shard, said=said).reset()
        shard.until(lambda now: now["connections"] == 0 and now["connections_accepted"] >= 100)
        assert shakes_hands(shard, authority)
        shard.until(lambda now: now["connections"] == 0)
        assert len(os.listdir("/proc/self/fd")) == opened
