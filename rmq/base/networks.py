"""Networks: blocks of addresses, as settings name them, and in the bytes that the reactor takes
(cext/net/address_network.pxd).

Example: packed(network("10.0.0.0/8")) is 104, ten zeros, ff ff 0a 00 00 00.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_MAPPED = bytes(10) + b"\xff\xff"  # what an IPv4 address follows, as an IPv6 one


def network(text: str) -> Network:
    """An address is a network of one. ValueError for what is neither."""
    return ip_network(text, strict=False)


def packed(network: Network) -> bytes:
    address = network.network_address.packed
    if isinstance(network, IPv4Network):
        return bytes((network.prefixlen + 96,)) + _MAPPED + address
    return bytes((network.prefixlen,)) + address
