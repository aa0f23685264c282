"""HA port: where a master gives its log to slaves, which are allowed by address.

The stream has no handshake and no password (RocketMQ's protocol): whoever connects is sent the
whole log, and what it reports counts as an ack. So only connections from rmqReplicaAddresses are
accepted, and from this machine where there are no accounts: with accounts, not everybody on it may
have the log. A line of the log names any other address that tries.

    rmqReplicaAddresses=10.0.0.7;10.0.1.0/24

With rmqReplicaTls=enforcing slaves must use TLS, as at the port of clients, and show a certificate
where tls.server.need.client.auth asks for one. With permissive, slaves without TLS, such as
RocketMQ's, are served as well.

Accepted sockets go to the reactor (core.adopt_slave).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from rmq.auth.authorization import address as address_of
from rmq.base.deadline import within
from rmq.base.networks import Network, network, peer
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.certificates import replica_context
from rmq.broker.core_seam import HACalls
from rmq.broker.replication.ha_socket import HASocket
from rmq.config import Settings
from rmq.errors import ConfigError, RmqError
from rmq.serving.acceptor import Acceptor

log = logging.getLogger("rmq.broker.ha_port")
quiet = RateLimitedLog(log)

BACKLOG = 16
HANDSHAKES_MAX = 4  # connections of one address whose handshake is not done; in all: BACKLOG
TLS_S = 10.0  # for a TLS handshake, or for the first byte of a plain connection
DISABLED, ENFORCING = "disabled", "enforcing"  # values of rmqReplicaTls


class HAPort:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, core: HACalls) -> None:
        self._settings = settings
        self._core = core
        self._acceptor = Acceptor(self._take, "rmq.broker.ha_port")
        # Reads the HA handshake before the reactor gets the socket; returns the broker id.
        self.handshake: Callable[[HASocket], Awaitable[int]] | None = None
        self._handshakes: dict[asyncio.Task[None], str] = {}  # -> the slave's address

    async def open(self, port: int) -> int:
        """Opens the port (0: any free one) and returns it. ConfigError when it is taken, or when
        rmqReplicaAddresses has something that is no address."""
        settings = self._settings
        networks(settings.rmqReplicaAddresses)
        if settings.rmqReplicaTls != DISABLED:
            replica_context(settings)
        if settings.rmqReplicaTls == ENFORCING and not asks_both(settings):
            log.warning(
                "rmqReplicaTls=enforcing hides the log from who only listens; to know who has it, "
                "and whose it is: tls.server.need.client.auth=require, tls.client.authServer=true"
            )
        try:
            return await self._acceptor.open(settings.bindAddress, port, BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"haListenPort={port}: slaves cannot be served at {settings.bindAddress}:{port} "
                f"({error.strerror}); set haListenPort to a free one"
            ) from None

    def close(self) -> None:
        self._acceptor.close()
        for task in self._handshakes:
            task.cancel()

    def _take(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            address = accepted.getpeername()[0]
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # the other side has gone
            accepted.close()
            return
        settings = self._settings
        if not is_replica(address, settings.rmqReplicaAddresses, not settings.authenticates):
            quiet.warning(
                f"stranger {address}",
                "a slave at %s is refused: rmqReplicaAddresses=%s does not name it",
                address, self._settings.rmqReplicaAddresses,
            )  # fmt: skip
            accepted.close()
            return
        connected = HASocket(accepted)
        if self.handshake is None and self._settings.rmqReplicaTls == DISABLED:
            self._adopt(connected, address, 0)
        else:
            self._begin_handshake(connected, address)

    def _begin_handshake(self, connected: HASocket, address: str) -> None:
        of_address = sum(each == address for each in self._handshakes.values())
        if of_address >= HANDSHAKES_MAX or len(self._handshakes) >= BACKLOG:
            quiet.warning(
                f"handshakes {address}",
                "a slave at %s is refused: %d others, %d of its address, have not said yet who "
                "they are", address, len(self._handshakes), of_address,
            )  # fmt: skip
            connected.close()
            return
        task = asyncio.get_running_loop().create_task(self._handshake(connected, address))
        self._handshakes[task] = address

        def ended(task: asyncio.Task[None]) -> None:
            del self._handshakes[task]
            connected.close()  # does nothing if the reactor has taken the socket

        task.add_done_callback(ended)

    async def _handshake(self, connected: HASocket, address: str) -> None:
        try:
            if self._settings.rmqReplicaTls != DISABLED:
                await within(self._secure(connected), TLS_S)
            broker_id = await self.handshake(connected) if self.handshake is not None else 0
        except (RmqError, OSError, asyncio.TimeoutError) as error:
            reason = str(error) or f"it says nothing in {TLS_S:g} s"
            quiet.warning(
                f"handshake {address}", "a slave at %s is not served: %s", address, reason
            )
            return
        self._adopt(connected, address, broker_id)

    async def _secure(self, connected: HASocket) -> None:
        """Begins TLS as master; the connection stays plain if that is allowed and the slave does
        not begin with TLS."""
        if await connected.says_hello():
            await connected.secure(replica_context(self._settings), serves=True)
        elif self._settings.rmqReplicaTls == ENFORCING:
            raise RmqError("it speaks no TLS, and rmqReplicaTls=enforcing asks for it")

    def _adopt(self, connected: HASocket, address: str, broker_id: int) -> None:
        try:
            self._core.adopt_slave(connected.detach(), broker_id, connected.tls)
        except (RmqError, OSError) as error:
            log.warning("a slave at %s cannot be served: %s", address, error)
            return
        log.info("a slave at %s is served", address)


def asks_both(settings: Settings) -> bool:
    """Whether replicas check each other's certificates."""
    asks = bool(getattr(settings, "tls.server.need.client.auth") == "require")
    return asks and bool(getattr(settings, "tls.client.authServer") == "true")


def networks(text: str) -> list[Network]:
    """The networks in a text like "10.0.0.7;10.0.1.0/24"; ConfigError if a part is none."""
    found = []
    for part in text.split(";"):
        if part.strip():
            try:
                found.append(network(part.strip()))
            except ValueError:
                raise ConfigError(
                    f"rmqReplicaAddresses={text}: {part.strip()} is no address and no network, "
                    "such as 10.0.0.7 or 10.0.1.0/24"
                ) from None
    return found


def is_replica(address: str, allowed: str, trusts_machine: bool = True) -> bool:
    """Whether this peer may be a replica: it is allowed, or on this machine, if all that is on it
    is trusted."""
    found = peer(address)
    is_trusted = trusts_machine and found.is_loopback
    return is_trusted or any(found in each for each in networks(allowed))


def not_a_replica(text: str, allowed: str) -> str:
    """Why a peer like "10.0.0.7:4711" gets no answers that are meant for replicas; empty: it may be
    a replica."""
    source = address_of(text)
    if source is not None and is_replica(str(source), allowed):
        return ""
    return f"this is for replicas: rmqReplicaAddresses={allowed} names no {source}"
