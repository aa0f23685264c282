"""Networks: addresses and blocks of them, as settings name them, and as bytes for the reactor
(cext/net/address_network.pxd).

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
_MAPPED = bytes(10) + b"\xff\xff"  # the prefix of an IPv4 address that is written as IPv6


class NetworkSet:
    """Many networks, and whether an address is in one of them. Networks within another are left
    out, so that only the last one that begins at or before an address can contain it."""

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
        """The networks, IPv4 before IPv6, each ordered by address."""
        return self._found[4] + self._found[6]

    def __contains__(self, address: Address) -> bool:
        at = bisect_right(self._begins[address.version], int(address))
        return at > 0 and address in self._found[address.version][at - 1]


def is_name(host: str) -> bool:
    """Whether the host is a name that must be looked up, and not an address."""
    try:
        ip_address(host)
    except ValueError:
        return True
    return False


def network(text: str) -> Network:
    """The network in a text; a single address is a network of one, and ::ffff:10.0.0.0/104 is
    10.0.0.0/8. ValueError if it is neither."""
    found = ip_network(text, strict=False)
    if isinstance(found, IPv6Network) and found.prefixlen >= MAPPED_BITS:
        mapped = found.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, found.prefixlen - MAPPED_BITS))
    return found


def unmapped(address: Address) -> Address:
    """The address; one that an IPv6 socket gives for an IPv4 address becomes that IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def peer(host: str) -> Address:
    """The address of a socket's other end, unmapped and without a scope. ValueError: it is no
    address."""
    return unmapped(ip_address(host.partition("%")[0]))


def packed(network: Network) -> bytes:
    address = network.network_address.packed
    if isinstance(network, IPv4Network):
        return bytes((network.prefixlen + MAPPED_BITS,)) + _MAPPED + address
    return bytes((network.prefixlen,)) + address
