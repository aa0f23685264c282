"""HA port: as master, who may have the log, by address.

The stream has no greeting and no password (RocketMQ's protocol): who connects is sent the whole
log, and what it says counts as an ack. So only addresses of rmqReplicaAddresses are taken, and this
machine's own; whoever else comes is named in the log.

    rmqReplicaAddresses=10.0.0.7;10.0.1.0/24

Accepted sockets go to the reactor (core.adopt_slave).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable

from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.core_seam import HACalls
from rmq.config import Settings
from rmq.errors import ConfigError, RmqError
from rmq.serving.acceptor import Acceptor

log = logging.getLogger("rmq.broker.ha_port")
quiet = RateLimitedLog(log)

BACKLOG = 16

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class HAPort:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, core: HACalls) -> None:
        self._settings = settings
        self._core = core
        self._acceptor = Acceptor(self._take, "rmq.broker.ha_port")
        # Reads who it is before the reactor has the socket; the broker id.
        self.greet: Callable[[socket.socket], Awaitable[int]] | None = None
        self._greetings: set[asyncio.Task[None]] = set()

    async def open(self, port: int) -> int:
        """The port (0: any free one). ConfigError when it is taken, or an address is none."""
        settings = self._settings
        networks(settings.rmqReplicaAddresses)
        try:
            return await self._acceptor.open(settings.bindAddress, port, BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"haListenPort={port}: slaves cannot be served at {settings.bindAddress}:{port} "
                f"({error.strerror}); set haListenPort to a free one"
            ) from None

    def close(self) -> None:
        self._acceptor.close()
        for task in self._greetings:
            task.cancel()

    def _take(self, accepted: socket.socket) -> None:
        try:
            address = accepted.getpeername()[0]
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # it is gone
            accepted.close()
            return
        if not is_replica(address, self._settings.rmqReplicaAddresses):
            quiet.warning(
                f"stranger {address}",
                "a slave at %s is refused: rmqReplicaAddresses=%s does not name it",
                address, self._settings.rmqReplicaAddresses,
            )  # fmt: skip
            accepted.close()
            return
        if self.greet is None:
            self._adopt(accepted, address, 0)
        elif len(self._greetings) < BACKLOG:
            task = asyncio.get_running_loop().create_task(self._greet(accepted, address))
            self._greetings.add(task)
            task.add_done_callback(self._greetings.discard)
        else:
            accepted.close()

    async def _greet(self, accepted: socket.socket, address: str) -> None:
        assert self.greet is not None
        try:
            accepted.setblocking(False)
            broker_id = await self.greet(accepted)
        except (RmqError, OSError) as error:
            accepted.close()
            quiet.warning(f"greeting {address}", "a slave at %s is not served: %s", address, error)
            return
        except BaseException:
            accepted.close()
            raise
        self._adopt(accepted, address, broker_id)

    def _adopt(self, accepted: socket.socket, address: str, broker_id: int) -> None:
        try:
            self._core.adopt_slave(accepted.detach(), broker_id)
        except (RmqError, OSError) as error:
            log.warning("a slave at %s cannot be served: %s", address, error)
            return
        log.info("a slave at %s is served", address)


def networks(text: str) -> list[Network]:
    """Of "10.0.0.7;10.0.1.0/24"; ConfigError for what is none."""
    found = []
    for part in text.split(";"):
        if part.strip():
            try:
                found.append(ipaddress.ip_network(part.strip(), strict=False))
            except ValueError:
                raise ConfigError(
                    f"rmqReplicaAddresses={text}: {part.strip()} is no address and no network, "
                    "such as 10.0.0.7 or 10.0.1.0/24"
                ) from None
    return found


def is_replica(address: str, allowed: str) -> bool:
    """Whether this peer may have the log; from this machine always."""
    peer = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(peer, "ipv4_mapped", None)
    peer = mapped or peer
    return peer.is_loopback or any(peer in network for network in networks(allowed))
