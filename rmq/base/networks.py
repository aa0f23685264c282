"""Networks: addresses and blocks of them, as settings name them, and in the bytes that the reactor
takes (cext/net/address_network.pxd).

Example: packed(network("10.0.0.0/8")) is 104, ten zeros, ff ff 0a 00 00 00.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAPPED_BITS = 96
_MAPPED = bytes(10) + b"\xff\xff"  # what an IPv4 address follows, as an IPv6 one


class NetworkSet:
    """Whether an address is in one of many networks. What is within another is left out, so that
    the last one that begins at the address or before it is the only one that can have it."""

    def __init__(self, given: Iterable[Network]) -> None:
        every = tuple(given)
        found4 = collapse_addresses(each for each in every if isinstance(each, IPv4Network))
        found6 = collapse_addresses(each for each in every if isinstance(each, IPv6Network))
        self._found: dict[int, list[Network]] = {4: list(found4), 6: list(found6)}
        self._begins = {
            version: [int(each.network_address) for each in found]
            for version, found in self._found.items()
        }

    @property
    def networks(self) -> list[Network]:
        """IPv4 before IPv6, and of each by their addresses."""
        return self._found[4] + self._found[6]

    def __contains__(self, address: Address) -> bool:
        at = bisect_right(self._begins[address.version], int(address))
        return at > 0 and address in self._found[address.version][at - 1]


def is_name(host: str) -> bool:
    """Whether it is to be looked up: it is no address itself."""
    try:
        ip_address(host)
    except ValueError:
        return True
    return False


def network(text: str) -> Network:
    """An address is a network of one; ::ffff:10.0.0.0/104 is 10.0.0.0/8. ValueError for what is
    neither."""
    found = ip_network(text, strict=False)
    if isinstance(found, IPv6Network) and found.prefixlen >= MAPPED_BITS:
        mapped = found.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, found.prefixlen - MAPPED_BITS))
    return found


def unmapped(address: Address) -> Address:
    """An IPv4 address that came by an IPv6 socket is that IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def peer(host: str) -> Address:
    """Who a socket says is at its other end, unmapped and without a scope. ValueError: it is no
    address."""
    return unmapped(ip_address(host.partition("%")[0]))


def packed(network: Network) -> bytes:
    address = network.network_address.packed
    if isinstance(network, IPv4Network):
        return bytes((network.prefixlen + MAPPED_BITS,)) + _MAPPED + address
    return bytes((network.prefixlen,)) + address
