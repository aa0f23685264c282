"""Address table: how many connections and TLS handshakes each client address has at a server.

    enter      a connection was accepted: its address has one more
    asked      the connection has sent a request, so it is not silent any more
    begin      its TLS handshake has begun: one more at once, and one more in this second
    end        its handshake is over, or has failed
    hold       more or fewer bytes of incomplete requests
    leave      the connection has gone

Limits keep one address from using up what others need; enter and begin say which limit is exceeded.
Then a connection of the same address is closed that has asked for nothing, or whose handshake does
not get on (rival); if there is none, the new connection is closed. An IPv6 address counts by its
first 64 bits, because whoever has one such address has all of them; an IPv6 address that stands for
an IPv4 address counts as that. The reactor of a broker does the same: cext/net/address_table.pxd.

Example: table.enter(client, "10.0.0.5") is "rmqMaxConnectionsPerAddress" for the fourth client of
an address that may have three, all of which have asked for something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

import msgspec

from rmq.base import networks
from rmq.config import Settings

CONNECTIONS = "rmqMaxConnectionsPerAddress"
HANDSHAKES = "rmqMaxHandshakesPerAddress"
RATE = "rmqHandshakeRatePerAddress"
NETWORK_BYTES = 8  # of an IPv6 address, by which it counts


class AddressLimits(msgspec.Struct, frozen=True):
    """The limits of one address; 0: no limit."""

    connections: int = 0
    handshakes: int = 0  # at once
    rate: int = 0  # handshakes begun in a second

    @classmethod
    def of(cls, settings: Settings) -> AddressLimits:
        return cls(
            settings.rmqMaxConnectionsPerAddress or max(settings.rmqMaxConnections * 3 // 4, 1),
            settings.rmqMaxHandshakesPerAddress,
            settings.rmqHandshakeRatePerAddress,
        )


@dataclass(eq=False, slots=True)
class _Address:
    key: bytes | str
    connections: int = 0
    partial_bytes: int = 0  # of incomplete requests
    silent: dict[Hashable, float] = field(default_factory=dict)  # who -> since when, oldest first
    shaking: dict[Hashable, float] = field(default_factory=dict)  # the same for handshakes


class AddressTable:
    """Owned by one event loop. `who` is any object that stands for a connection."""

    def __init__(self, limits: AddressLimits) -> None:
        self._limits = limits
        self._by_key: dict[bytes | str, _Address] = {}
        self._of: dict[Hashable, _Address] = {}
        self._second = 0
        self._begun: Counter[bytes | str] = Counter()  # handshakes begun in that second

    def __len__(self) -> int:
        """How many addresses have connections."""
        return len(self._by_key)

    def enter(self, who: Hashable, host: str, now: float) -> str:
        """Counts the connection; returns the setting whose limit is exceeded, or an empty text."""
        key = _key(host)
        address = self._of[who] = self._by_key.setdefault(key, _Address(key))
        address.connections += 1
        address.silent[who] = now
        return CONNECTIONS if 0 < self._limits.connections < address.connections else ""

    def asked(self, who: Hashable) -> None:
        address = self._of.get(who)
        if address is not None:
            address.silent.pop(who, None)

    def begin(self, who: Hashable, now: float) -> str:
        """Counts a handshake that begins; returns the same as enter()."""
        address = self._of[who]
        if who in address.shaking:
            return ""
        address.shaking[who] = now
        if address.silent.pop(who, None) is not None:
            address.silent[who] = now
        if int(now) != self._second:
            self._second = int(now)
            self._begun.clear()
        self._begun[address.key] += 1
        if 0 < self._limits.rate < self._begun[address.key]:  # first: closing others is no help
            return RATE
        return HANDSHAKES if 0 < self._limits.handshakes < len(address.shaking) else ""

    def end(self, who: Hashable, now: float) -> None:
        """Ends a handshake; may be called without one. A connection that has asked for nothing
        counts as silent from now on."""
        address = self._of.get(who)
        if address is None or address.shaking.pop(who, None) is None:
            return
        if address.silent.pop(who, None) is not None:
            address.silent[who] = now

    def leave(self, who: Hashable) -> None:
        """Removes a connection; may be called again."""
        address = self._of.pop(who, None)
        if address is None:
            return
        address.silent.pop(who, None)
        address.shaking.pop(who, None)
        address.connections -= 1
        if address.connections == 0:
            del self._by_key[address.key]

    def hold(self, who: Hashable, change: int) -> None:
        """Adds bytes of incomplete requests; does nothing for a connection that has left."""
        address = self._of.get(who)
        if address is not None:
            address.partial_bytes += change

    def of_largest(self) -> list[Hashable]:
        """All connections of the address that holds most bytes."""
        largest = max(self._by_key.values(), key=lambda each: each.partial_bytes)
        return [who for who, address in self._of.items() if address is largest]

    def mates(self, who: Hashable) -> list[Hashable]:
        """All connections of the same address, this one included, in the order in which they
        came."""
        address = self._of[who]
        return [each for each, its in self._of.items() if its is address]

    def of_most(self, who: Hashable) -> list[Hashable]:
        """The same for the address that has most connections; none if that has no more than this
        connection's own address."""
        most = max(self._by_key.values(), key=lambda each: each.connections)
        if most.connections <= self._of[who].connections:
            return []
        return [each for each, its in self._of.items() if its is most]

    def rival(self, who: Hashable, limit: str, since: float) -> Hashable | None:
        """The connection of the same address that has been silent for longest (for HANDSHAKES: in
        its handshake for longest), if it has been so at least since `since`. None for RATE, where
        closing another connection does not help."""
        if limit == RATE:
            return None
        address = self._of[who]
        waiting = address.shaking if limit == HANDSHAKES else address.silent
        for each, began in waiting.items():
            if began > since:
                break
            if each is not who:
                return each
        return None


def _key(host: str) -> bytes | str:
    try:
        address = networks.peer(host)
    except ValueError:  # the connection is gone, or does not come by a network
        return host
    return str(address) if address.version == 4 else address.packed[:NETWORK_BYTES]
