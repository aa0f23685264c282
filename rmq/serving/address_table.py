"""Address table: what each address has of a server: connections, and TLS handshakes.

    enter      one was accepted: a connection more of its address
    asked      it has sent a request: it is silent no more
    begin      its handshake has begun: one more at once, and one more in this second
    end        it is over, or comes to nothing
    hold       bytes of requests that are not whole: so many more, or less
    leave      the connection has gone

Limits keep one address from what others need: enter and begin say which one is exceeded. Then one
of that address makes room that asked for nothing, or whose handshake does not get on (rival), or
the newcomer is closed. An IPv6 address counts as its first 64 bits, since whoever has one has all
of that; one that stands for an IPv4 address counts as that. So does the reactor of a broker:
cext/net/address_table.pxd.

Example: table.enter(client, "10.0.0.5") is "rmqMaxConnectionsPerAddress" for the fourth client of
three that its address may have, all of which have asked for something.
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
NETWORK_BYTES = 8  # of an IPv6 address


class AddressLimits(msgspec.Struct, frozen=True):
    """Of one address; 0: none."""

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
    partial_bytes: int = 0  # of requests that are not whole
    silent: dict[Hashable, float] = field(default_factory=dict)  # who -> since when, oldest first
    shaking: dict[Hashable, float] = field(default_factory=dict)  # likewise, hands


class AddressTable:
    """Owned by one event loop. `who` is any object that stands for a connection."""

    def __init__(self, limits: AddressLimits) -> None:
        self._limits = limits
        self._by_key: dict[bytes | str, _Address] = {}
        self._of: dict[Hashable, _Address] = {}
        self._second = 0
        self._begun: Counter[bytes | str] = Counter()  # in that second

    def __len__(self) -> int:
        """Addresses that have connections."""
        return len(self._by_key)

    def enter(self, who: Hashable, host: str, now: float) -> str:
        """The setting whose limit is exceeded, or nothing; it counts in either case."""
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
        """As enter()."""
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
        if 0 < self._limits.rate < self._begun[address.key]:  # first: nobody's end helps
            return RATE
        return HANDSHAKES if 0 < self._limits.handshakes < len(address.shaking) else ""

    def end(self, who: Hashable, now: float) -> None:
        """Of one that has begun none, too. It is silent from now on, where it has asked nothing."""
        address = self._of.get(who)
        if address is None or address.shaking.pop(who, None) is None:
            return
        if address.silent.pop(who, None) is not None:
            address.silent[who] = now

    def leave(self, who: Hashable) -> None:
        """Of one that has left already, too."""
        address = self._of.pop(who, None)
        if address is None:
            return
        address.silent.pop(who, None)
        address.shaking.pop(who, None)
        address.connections -= 1
        if address.connections == 0:
            del self._by_key[address.key]

    def hold(self, who: Hashable, change: int) -> None:
        """Of one that has left, too."""
        address = self._of.get(who)
        if address is not None:
            address.partial_bytes += change

    def of_largest(self) -> list[Hashable]:
        """All of the address that holds most."""
        largest = max(self._by_key.values(), key=lambda each: each.partial_bytes)
        return [who for who, address in self._of.items() if address is largest]

    def mates(self, who: Hashable) -> list[Hashable]:
        """All of its address, in the order in which they came; it is one of them."""
        address = self._of[who]
        return [each for each, its in self._of.items() if its is address]

    def of_most(self, who: Hashable) -> list[Hashable]:
        """Likewise, of the address that has most connections; none where that has no more than
        its own."""
        most = max(self._by_key.values(), key=lambda each: each.connections)
        if most.connections <= self._of[who].connections:
            return []
        return [each for each, its in self._of.items() if its is most]

    def rival(self, who: Hashable, limit: str, since: float) -> Hashable | None:
        """Who has been silent (of HANDSHAKES: has been shaking hands) for longest of its address,
        when that is `since` at least; none for RATE, which nobody's end helps."""
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
    except ValueError:  # it is gone, or comes by no network
        return host
    return str(address) if address.version == 4 else address.packed[:NETWORK_BYTES]
