"""Server address: host and port of a text, as settings name them and as name servers list them.

split_address("10.0.0.7:10911")         # ("10.0.0.7", 10911)
split_address("[::1]:9876")             # ("::1", 9876)
split_address("10.0.0.7")               # AddressError: .. (no port is given): write ..
"""

from __future__ import annotations

from rmq.errors import AddressError

PORT_MAX = 65_535


def split_address(address: str) -> tuple[str, int]:
    """("host", port) of "host:port" or "[::1]:port". AddressError: it is neither."""
    host, colon, port = address.strip().rpartition(":")
    if not colon:
        raise _refusal(address, "no port is given")
    if not host:
        raise _refusal(address, "no host is given")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise _refusal(address, f"{port!r} is no port: 0 to {PORT_MAX}")
    return host.strip("[]"), int(port)


def _refusal(address: str, why: str) -> AddressError:
    shown = address if address.strip() else repr(address)
    return AddressError(
        f"{shown}: not an address of the form host:port ({why}): write one such as "
        "10.0.0.7:9876 or [::1]:9876"
    )
