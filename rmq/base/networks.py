"""Networks: addresses and blocks of them, as settings name them, and in the bytes that the reactor
takes (cext/net/address_network.pxd).

Example: packed(network("10.0.0.0/8")) is 104, ten zeros, ff ff 0a 00 00 00.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAPPED_BITS = 96
_MAPPED = bytes(10) + b"\xff\xff"  # what an IPv4 address follows, as an IPv6 one


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
