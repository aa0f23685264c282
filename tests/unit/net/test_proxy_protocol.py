"""Clients that come through a balancer: what it says of them, to the reactor and to servers in
Python.

Method: one core that believes 127.0.0.9. A client at this address says what a balancer would say,
and a message that it sends shows for which address it was taken. The reader of the asyncio servers
is given the same bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.certificates import Authority
from support.shard import EVENT, TIMEOUT_S, Client, Shard, messages, pull, send

from cext.net.tls import TlsContext
from rmq.auth.authorization import address
from rmq.base import networks
from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.serving.connection import Connection
from rmq.serving.proxy_protocol import SIGNATURE, Balancers

BALANCER, STRANGER = "127.0.0.9", "127.0.0.8"
V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("10.0.0.5") + b"\x9c\x40\x2a\x9f"
V6 = (socket.inet_pton(socket.AF_INET6, "2001:db8::7") + bytes(15) + b"\1") + b"\x9c\x40\x2a\x9f"


def version_2(command: int, family: int, words: bytes) -> bytes:
    return SIGNATURE + bytes((command, family)) + len(words).to_bytes(2, "big") + words


SAID = {  # what is said, and which client that names; None: the balancer itself
    b"PROXY TCP4 192.0.2.7 10.0.0.5 40000 10911\r\n": ("192.0.2.7", 40000),
    b"PROXY TCP6 2001:db8::7 ::1 40000 10911\r\n": ("2001:db8::7", 40000),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff:f::1 ffff::1 65535 65535\r\n": None,
    version_2(0x21, 0x11, V4): ("192.0.2.7", 40000),
    version_2(0x21, 0x21, V6): ("2001:db8::7", 40000),
    version_2(0x21, 0x11, V4 + b"\x04\x01\x00" + bytes(256)): ("192.0.2.7", 40000),
    version_2(0x21, 0x11, V4 + bytes(60000)): ("192.0.2.7", 40000),
    version_2(0x20, 0x00, b""): None,
    version_2(0x20, 0x11, V4): None,
    version_2(0x21, 0x00, b"\x04\x00\x00"): None,
    version_2(0x21, 0x31, bytes(216)): None,
    # an address of the balancer's own machine, which is not this one
    b"PROXY TCP4 127.0.0.1 10.0.0.5 40000 10911\r\n": None,
    b"PROXY TCP4 0.0.0.0 10.0.0.5 40000 10911\r\n": None,
    b"PROXY TCP6 ::1 ::1 40000 10911\r\n": None,
    b"PROXY TCP6 ::ffff:127.8.0.1 ::1 40000 10911\r\n": None,
    b"PROXY TCP6 ::2 ::1 40000 10911\r\n": ("::2", 40000),
    version_2(0x21, 0x11, b"\x7f\0\0\1" + V4[4:]): None,
    version_2(0x21, 0x21, bytes(15) + b"\1" + V6[16:]): None,
}
WRONG = [
    b"PROXY\r\n", b"PROXY TCP4 192.0.2.7 10.0.0.5 40000\r\n", b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.5 40000 10911\n", b"PROXY TCP4 ::1 ::1 1 1\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.5 65536 10911\r\n", b"PROXY TCP4  10.0.0.5 1 1\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.5 1 1 \r\n", b"PROXY TCP4 192.0.2.7 10.0.0.5 -1 1\r\n",
    b"POST / HTTP/1.1\r\n", b"P" * 107, b"PROXY TCP4 192.0.2.7\0 10.0.0.5 1 1\r\n",
    b"Proxy TCP4 192.0.2.7 10.0.0.5 1 1\r\n", b"PROXY UNKNOWNX\r\n",
    b"PROXY UNKNOWN\t\r\n", b"PROXY TCP6 fe80::1%lo ::1 1 1\r\n",
    version_2(0x11, 0x11, V4), version_2(0x22, 0x11, V4), version_2(0x21, 0x11, V4[:-1]),
    version_2(0x21, 0x21, V4), b"\r\n\r\n\0\r\nQUIT\r" + bytes(4),
    b"\0\0\0\5", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n",  # no PROXY header: what a client would say
]  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextlib.contextmanager
def believing(directory: Path, authority: Authority, **more: Any) -> Iterator[Shard]:
    pair = authority.pair("server")
    context = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
    balancers = networks.packed(networks.network("127.0.0.9/32"))
    with Shard(directory, tls=(context, True), balancers=balancers, **more) as shard:
        shard.topic("t")
        shard.group("g", "t")
        yield shard


@pytest.fixture
def shard(tmp_path: Path, authority: Authority) -> Iterator[Shard]:
    with believing(tmp_path, authority) as shard:
        yield shard


class By(Client):
    """A client that connects from a loopback address of its own, and says something first."""

    def __init__(self, shard: Shard, source: str, *said: bytes, tls: Authority | None = None):
        super().__init__(shard.core.port)
        self.close()
        self.socket = socket.create_connection(
            ("127.0.0.1", shard.core.port), TIMEOUT_S, source_address=(source, 0)
        )
        self.own = self.socket.getsockname()[:2]
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # the server may close it before the last of these
            for each in said:
                self.socket.sendall(each)
        if tls is not None:
            context = ssl.create_default_context(cafile=str(tls.certificate))
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self._stream = self.socket.makefile("rb")

    def is_refused(self) -> bool:
        """Whether the server closes the connection, when nothing more comes from this client."""
        with contextlib.suppress(OSError):  # the server has closed it already
            self.socket.shutdown(socket.SHUT_WR)
        return self.is_closed()

    def taken_for(self) -> tuple[str, int]:
        """The address of this client as the broker writes it into a message."""
        sent = self.ask(send("t", b"x", opaque=7))
        assert sent.code == 0, sent.remark
        offset = int(sent.fields["queueOffset"])
        (message,) = messages(self.ask(pull("g", "t", offset, opaque=8)))
        return message.born_host[0], message.born_host[1]


@pytest.mark.parametrize("said", SAID, ids=range(len(SAID)))
def test_a_client_is_who_its_balancer_says(shard: Shard, said: bytes) -> None:
    for pieces in ([said], [said[:5], said[5:16], said[16:]], [bytes((b,)) for b in said[:400]]):
        client = By(shard, BALANCER, *pieces, said[sum(map(len, pieces)) :])
        assert client.taken_for() == (SAID[said] or client.own)
        client.close()


def test_its_first_request_may_come_with_it(shard: Shard) -> None:
    for said in SAID:
        client = By(shard, BALANCER, said + send("t", b"x", opaque=3))
        assert client.reply().opaque == 3
        assert client.taken_for() == (SAID[said] or client.own)
        client.close()


def test_tls_comes_behind_it(shard: Shard, authority: Authority) -> None:
    for said in SAID:
        client = By(shard, BALANCER, said, tls=authority)
        assert client.taken_for() == (SAID[said] or client.own)
        client.close()


def test_nobody_else_is_believed(shard: Shard) -> None:
    other = shard.connect()
    for said in SAID:
        client = By(shard, STRANGER, said)
        assert client.is_refused()
        client.close()
    client = By(shard, STRANGER)
    assert client.taken_for() == client.own
    assert other.ask(send("t", b"x", opaque=1)).code == 0


@pytest.mark.parametrize("said", WRONG, ids=range(len(WRONG)))
def test_what_is_no_such_word_closes_the_connection(shard: Shard, said: bytes) -> None:
    other = shard.connect()
    client = By(shard, BALANCER, said)
    assert client.is_refused()
    client.close()
    assert other.ask(send("t", b"x", opaque=1)).code == 0


def test_who_says_nothing_of_it_is_refused_and_counted(shard: Shard) -> None:
    """A balancer that does not send the header would have all its clients taken for itself. A
    connection that says nothing at all only checks whether somebody listens, and is no refusal."""
    for said in (send("t", b"x", opaque=1), b"\x16\x03\x01\2\0", b"PROXY TCP5 1 1 1 1\r\n"):
        client = By(shard, BALANCER, said)
        assert client.is_refused()
        client.close()
    By(shard, BALANCER).close()
    looked = By(shard, BALANCER)
    looked.reset()
    shard.until(lambda stats: stats["connections"] == 0)
    assert shard.core.stats()["connections_refused_words"] == 3
    (_, line) = next(each for each in shard.reports(EVENT) if b"send-proxy" in each[1])
    assert b"rmqProxyProtocol=optional" in line


def test_it_may_say_nothing_where_that_is_set(tmp_path: Path, authority: Authority) -> None:
    with believing(tmp_path, authority, balancers_may_say_nothing=True) as shard:
        for tls in (None, authority):
            client = By(shard, BALANCER, tls=tls)
            assert client.taken_for() == client.own
            client.close()
        assert By(shard, BALANCER, WRONG[0]).is_refused()


def taken_in_python(said: bytes, may_say_nothing: bool = False) -> tuple[str, int] | str | None:
    """The client that the Python reader finds, without reading further than the header; "wrong" if
    it is refused."""

    async def taken() -> tuple[str, int] | str | None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours, theirs:
            theirs.sendall(said + b"\0\0\0\5")
            theirs.shutdown(socket.SHUT_WR)
            try:
                balancers = Balancers((), may_say_nothing)
                found = await asyncio.wait_for(balancers.client_of(ours), TIMEOUT_S)
            except OSError:
                return "wrong"
            left = said if said[:1] not in (b"P", b"\r") else b""
            assert ours.recv(1000) == left + b"\0\0\0\5"
            return found

    return asyncio.run(taken())


def test_servers_in_python_take_it_alike() -> None:
    for said, client in SAID.items():
        assert taken_in_python(said) == client
    for said in WRONG:
        assert taken_in_python(said) == "wrong"
    assert taken_in_python(b"", may_say_nothing=True) is None
    assert taken_in_python(b"\x16", may_say_nothing=True) is None


@pytest.mark.parametrize("seed", range(3))
def test_both_take_damaged_words_alike(shard: Shard, seed: int) -> None:
    source = random.Random(seed)
    short = [said for said in SAID if len(said) < 400]
    for _ in range(150):
        said = bytearray(source.choice([*short, *WRONG]))
        for _ in range(source.randrange(1, 3)):
            at = source.randrange(len(said) or 1)
            # These two bytes are the header's length.
            if said and not (said.startswith(SIGNATURE) and at in (14, 15)):
                said[at] = source.choice(b"\0\r\n :.019PT\x21\x11\xff")
        expected = taken_in_python(bytes(said))
        client = By(shard, BALANCER, bytes(said), send("t", b"x", opaque=5))
        if expected == "wrong":
            assert client.is_refused(), bytes(said)
        else:
            assert client.reply().opaque == 5, bytes(said)
            assert client.taken_for() == (expected or client.own), bytes(said)
        client.close()


def test_what_settings_may_say() -> None:
    def of(text: str) -> Balancers | None:
        return Balancers.of(load_properties(None, {"rmqProxyProtocolFrom": text}))

    assert of("") is None
    found = of("10.0.0.5, 10.1.0.0/16,::1")
    assert found is not None
    assert not found.may_say_nothing
    assert list(map(str, found.networks)) == ["10.0.0.5/32", "10.1.0.0/16", "::1/128"]
    for wrong in ("balancer", "10.0.0.256", "10.0.0.0/33"):
        with pytest.raises(ConfigError, match="rmqProxyProtocolFrom"):
            of(wrong)


def test_networks_are_packed_as_python_understands_them() -> None:
    for text, same in (("::ffff:10.0.0.0/104", "10.0.0.0/8"), ("::ffff:0:0/96", "0.0.0.0/0"),
                       ("::ffff:1.2.3.4", "1.2.3.4/32")):  # fmt: skip
        assert networks.network(text) == networks.network(same)
    for text in ("::/0", "::/95", "::ffff:0:0/95"):
        assert networks.network(text).version == 6


def test_the_address_of_a_client_by_ipv6_is_told_from_its_port() -> None:
    for host, shown in (("fd00::1", "[fd00::1]:1024"), ("192.0.2.7", "192.0.2.7:1024")):
        connection = Connection(cast(Any, None))
        connection.come_from((host, 1024, 0, 0))
        assert connection.peer == shown
        assert str(address(connection.peer)) == host
