"""PROXY protocol: the address of a client that connects through a balancer.
cext/net/proxy_protocol.pxd is the same for the reactor, and describes what a balancer sends.

    balancers = Balancers.of(settings)              rmqProxyProtocolFrom; None: nobody is believed
    await balancers.client_of(accepted)             ("192.0.2.7", 40000); None: the balancer itself

Only the balancer's words are read from the socket, and nothing behind them.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec

from rmq.base import networks
from rmq.base.deadline import within
from rmq.base.networks import Address, Network
from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.serving.raw_socket import received

LINE_BYTES = 107  # the longest line of version 1, with its end
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
HEAD_BYTES = 16  # of version 2
LOCAL, PROXY = 0x20, 0x21
TCP_OVER_V4, TCP_OVER_V6 = 0x11, 0x21
FAMILIES: dict[bytes, type[IPv4Address] | type[IPv6Address]] = {
    b"TCP4": IPv4Address, b"TCP6": IPv6Address,
}  # fmt: skip
SKIP_BYTES = 256
WORDS_S = 10.0

Client = tuple[str, int]


class WordsError(ConnectionAbortedError):
    """A balancer has sent something other than its client's address."""


class Balancers(msgspec.Struct, frozen=True):
    networks: tuple[Network, ...]
    may_say_nothing: bool = False  # a connection without words is the balancer's own

    @classmethod
    def of(cls, settings: Settings) -> Balancers | None:
        """The balancers in rmqProxyProtocolFrom; ConfigError if a part is no address."""
        texts = [each.strip() for each in settings.rmqProxyProtocolFrom.split(",") if each.strip()]
        try:
            found = tuple(map(networks.network, texts))
        except ValueError:
            raise ConfigError(
                f"rmqProxyProtocolFrom={settings.rmqProxyProtocolFrom:.100}: addresses and "
                "networks of balancers with commas between, such as 10.0.0.5,10.1.0.0/16"
            ) from None
        return cls(found, settings.rmqProxyProtocol == "optional") if found else None

    def packed(self) -> bytes:
        return b"".join(map(networks.packed, self.networks))

    def hold(self, accepted: socket.socket) -> bool:
        """Whether the connection comes from one of the balancers."""
        try:
            address = networks.peer(accepted.getpeername()[0])
        except (OSError, ValueError):  # the other side has gone
            return False
        return any(address in network for network in self.networks)

    async def client_of(self, accepted: socket.socket) -> Client | None:
        """The client that connects through a balancer. WordsError: the balancer's words are wrong;
        another OSError: the connection has ended; asyncio.TimeoutError: the words did not end in
        time."""
        first = await received(accepted, 1, socket.MSG_PEEK)
        if first in (b"P", b"\r"):
            return await within(_said(accepted, first), WORDS_S)
        if not self.may_say_nothing:
            raise _wrong()
        return None


async def _said(accepted: socket.socket, first: bytes) -> Client | None:
    if first == b"P":
        return _client_of_line(await _line(accepted))
    return await _client_of_version_2(accepted)


async def _exactly(accepted: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += await received(accepted, count - len(found))
    return found


# ---- version 1


async def _line(accepted: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        if len(found) == LINE_BYTES:
            raise _wrong()
        more = await received(accepted, LINE_BYTES - len(found), socket.MSG_PEEK)
        found += await received(accepted, more.find(b"\n") + 1 or len(more))
    return found


def _client_of_line(line: bytes) -> Client | None:
    if not line.endswith(b"\r\n"):
        raise _wrong()
    words = line[:-2].split(b" ")
    if words[:2] == [b"PROXY", b"UNKNOWN"]:
        return None
    if len(words) != 6 or words[0] != b"PROXY" or words[1] not in FAMILIES:
        raise _wrong()
    if b"%" in line:  # a scope, which has a meaning only on one machine
        raise _wrong()
    try:
        of = FAMILIES[words[1]]
        source = of(words[2].decode("ascii"))
        of(words[3].decode("ascii"))
        port, _ = map(_port, words[4:])
    except ValueError:
        raise _wrong() from None
    return _client(source, port)


def _client(source: Address, port: int) -> Client | None:
    """The client; None for a loopback address: that client is on the balancer's machine, not on
    this one, so it counts as the balancer."""
    seen = networks.unmapped(source)
    is_local = seen.is_loopback or seen.is_unspecified
    return None if is_local else (str(source), port)


def _port(word: bytes) -> int:
    if not word.isdigit() or len(word) > 5 or int(word) > 65535:
        raise ValueError
    return int(word)


# ---- version 2


async def _client_of_version_2(accepted: socket.socket) -> Client | None:
    head = await _exactly(accepted, HEAD_BYTES)
    command, family, length = head[12], head[13], int.from_bytes(head[14:], "big")
    size = {TCP_OVER_V4: 4, TCP_OVER_V6: 16}.get(family, 0) if command == PROXY else 0
    kept = 2 * size + 4 if size else 0
    if not head.startswith(SIGNATURE) or command not in (LOCAL, PROXY) or length < kept:
        raise _wrong()
    found = await _exactly(accepted, kept)
    left = length - kept
    while left > 0:
        left -= len(await received(accepted, min(left, SKIP_BYTES)))
    if not size:
        return None
    port = int.from_bytes(found[2 * size : 2 * size + 2], "big")
    return _client(ip_address(found[:size]), port)


def _wrong() -> WordsError:
    return WordsError("no PROXY protocol")
