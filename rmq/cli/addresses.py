"""Addresses: where a server listens, what it tells its clients, and when that needs --insecure.

Safe by default: if no address is given, only this machine can reach the server. An address beyond
loopback, to listen at or to tell clients, needs accounts (authenticationEnabled and
authorizationEnabled) or an explicit --insecure. With either

    --bind 10.0.0.5                   brokerIP1 follows: clients are sent to 10.0.0.5
    --bind 0.0.0.0                    brokerIP1 is the address this machine uses towards others
    brokerIP1=10.0.0.5 in the file    bindAddress follows as 0.0.0.0, Apache RocketMQ's default

so that a broker.conf written for Apache RocketMQ works, with `--insecure` added where it has no
accounts.
"""

from __future__ import annotations

import ipaddress
import socket

from rmq.config import Settings
from rmq.errors import ConfigError


def is_loopback(address: str) -> bool:
    """Whether only this machine can use the address; localhost is the only name that counts."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def with_port(address: str, port: int) -> str:
    """ "10.0.0.5", "[::1]" and "::1" get this port, "10.0.0.5:1" and "[::1]:1" have one."""
    if address.startswith("["):
        return address if "]:" in address else f"{address}:{port}"
    if address.count(":") > 1:
        return f"[{address}]:{port}"
    return address if ":" in address else f"{address}:{port}"


ACCOUNTS = (
    "authenticationEnabled, authorizationEnabled and initAuthenticationUser; or add --insecure if "
    "everybody who can reach this port may read, write and administer"
)
METRICS = (
    "rmqMetricsCredentials (and rmqMetricsTls); or add --insecure if everybody who can reach this "
    "port may read them"
)


def settle_addresses(settings: Settings, insecure: bool) -> None:
    """Fills in the addresses that follow from the given ones. ConfigError: one needs --insecure."""
    is_open = not (settings.authenticates and settings.authorizes)
    for key in ("bindAddress", "brokerIP1", "metricsPromExporterHost"):
        if key not in settings:
            continue
        address = getattr(settings, key)
        asks_nobody, remedy = is_open, ACCOUNTS
        if key == "metricsPromExporterHost":
            has_password = "rmqMetricsCredentials" in settings and settings.rmqMetricsCredentials
            asks_nobody, remedy = not has_password, METRICS
        if address and asks_nobody and not insecure and not is_loopback(address):
            raise ConfigError(
                f"{key}={address}: other machines could connect without a password. "
                f"Leave it at 127.0.0.1; or set {remedy}"
            )
    if "brokerIP1" not in settings:
        return
    if not settings.given("bindAddress") and not is_loopback(settings.brokerIP1):
        settings.set("bindAddress", "0.0.0.0")
    if not settings.given("brokerIP1"):
        settings.set("brokerIP1", _reachable(settings.bindAddress))
    for key in ("brokerIP1", "brokerIP2"):
        address = getattr(settings, key) or settings.brokerIP1
        settings.set(key, _literal(key, "127.0.0.1" if address == "localhost" else address))


def _reachable(bind: str) -> str:
    """The address to give clients when bound to `bind`."""
    if bind not in ("0.0.0.0", "::"):
        return bind
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    somewhere = "2001:db8::1" if ":" in bind else "192.0.2.1"
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((somewhere, 9))  # sends nothing: only asks the routing table
            return str(probe.getsockname()[0])
        except OSError:
            raise ConfigError(
                f"bindAddress={bind}: no address of this machine is found that clients can reach; "
                "give one with --set brokerIP1=ADDRESS"
            ) from None


def _literal(key: str, address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise ConfigError(
            f"{key}={address}: must be an IP address, not a name, because messages contain it. "
            f"`getent hosts {address}` shows the address of the name"
        ) from None
