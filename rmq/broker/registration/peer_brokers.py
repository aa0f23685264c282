"""Peer brokers: requests of this broker to other brokers that have a part of a static topic.

    peers.call("broker-b", "t", Command(code=31, ..))  ->  the reply of broker-b's master

The address of a broker comes from the topic's route. An address is used for 5 s, and looked up anew
after a call that failed. Each call has a connection for itself, which is kept for the next call; at
most LINKS_MAX calls to a broker run at the same time, further ones wait.

These requests are for old messages, and come in batches: messages from before a mapping moved, and
the ends and commits of the queues they are in. No send waits for another broker.
"""

import asyncio
import functools
import logging
from typing import Any

import msgspec

from rmq.base import clock
from rmq.broker.registration.route_lookup import first_route
from rmq.config import Settings
from rmq.errors import ProtocolError, RemoteError, RmqError
from rmq.format.remoting import Command
from rmq.serving.remoting_client import CallError, RemotingClient

log = logging.getLogger("rmq.broker.peer_brokers")

KEPT_S = 5.0
LINKS_MAX = 8  # calls at a time to one broker
PEERS_MAX = 1024


class _Peer(msgspec.Struct):
    address: str = ""
    known_s: float = -KEPT_S
    idle: list[RemotingClient] = []
    places: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(LINKS_MAX))


class PeerError(RmqError):
    """The other broker is not found, or did not answer in time."""


class PeerBrokers:
    """Owned by the control thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._peers: dict[str, _Peer] = {}

    async def call(self, broker: str, topic: str, command: Command) -> Command:
        """The answer of the broker of this name; PeerError when there is none within
        forwardTimeout."""
        peer = self._peers.get(broker)
        if peer is None:
            if len(self._peers) >= PEERS_MAX:
                raise PeerError(f"{broker}: one broker more than {PEERS_MAX}")
            peer = self._peers[broker] = _Peer()
        async with peer.places:
            await self._locate(peer, broker, topic)
            link = peer.idle.pop() if peer.idle else RemotingClient(peer.address)
            try:
                reply = await link.call(command, self._settings.forwardTimeout / 1000)
            except CallError as error:
                peer.known_s = -KEPT_S
                raise PeerError(str(error)) from None
            if link.address == peer.address:
                peer.idle.append(link)
            else:
                link.close()
            return reply

    def stop(self) -> None:
        for peer in self._peers.values():
            _close(peer)

    async def _locate(self, peer: _Peer, broker: str, topic: str) -> None:
        if clock.monotonic() - peer.known_s < KEPT_S:
            return
        address = await self._ask(broker, topic)
        if address != peer.address:
            _close(peer)
            peer.address = address
        peer.known_s = clock.monotonic()

    async def _ask(self, broker: str, topic: str) -> str:
        reasons = ["no name server is set (namesrvAddr)"]

        def failed(server: str, error: RmqError) -> None:
            is_refused = isinstance(error, RemoteError)
            reasons.append(f"{server}: {error}" if is_refused else str(error))

        read = functools.partial(read_address, broker)
        found = await first_route(self._settings.namesrvAddr, topic, read, failed)
        if found is None:
            raise PeerError(f"broker {broker} is not found: {reasons[-1]}")
        return found


def read_address(broker: str, route: dict[Any, Any]) -> str:
    """The address of the broker's master, or of its replica with the smallest id; ProtocolError if
    the route has neither."""
    rows = route.get("brokerDatas")
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or row.get("brokerName") != broker:
            continue
        addresses = row.get("brokerAddrs")
        table = addresses if isinstance(addresses, dict) else {}
        ids = [each for each in table if str(each).isdecimal()]
        if ids:
            return str(table[min(ids, key=int)])
    raise ProtocolError(f"the route has no broker {broker}")


def _close(peer: _Peer) -> None:
    while peer.idle:
        peer.idle.pop().close()
