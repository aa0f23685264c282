"""Siblings: the other shards of this machine, as the broker sees them. This class has none.

Several shards are one broker to their users: topics and groups that one shard makes by itself must
exist on all, run-time settings are the same on all, and a client that asks one shard for a group's
members must hear of those at the others. What a request asks for concerns only the shard that it is
sent to, as with RocketMQ's brokers. Tables and handlers call the methods below. A shard among
several uses a subclass that talks to the others (shards/bus_siblings.py); a broker alone uses this
class, which does nothing.

    table.put("t")                stamp = siblings.stamp(): (1763726400000, 1), or None when alone
                                  siblings.changed(TOPIC, "t"): sent at the end of this loop turn
    await file                    ..
    await siblings.shared()       prompt shards have it, the name servers know it; a slow or dead
                                  shard is not waited for
"""

from typing import Protocol

from rmq.format.remoting import Command

TOPIC, GROUP = "topic", "group"
ROUTE_WAIT_S = 0.5  # for name servers, so that they know the route when they are asked next
Stamp = tuple[int, int]  # (clock in ms that grows with each change, shard): the larger one wins
# How long stamps of deleted items are kept: a shard that was away longer may bring an item back.
TOMBSTONE_MS = 30 * 86_400_000


class NameServers(Protocol):
    """The part of the registration that siblings wait for."""

    async def settled(self, timeout_s: float) -> None: ...


class Siblings:
    """The siblings of a broker that is alone: none."""

    index = 0  # of this shard

    def __init__(self, registration: NameServers | None = None) -> None:
        self._registration = registration  # None: no name server hears of this broker

    async def start(self) -> None:
        """Called when the tables are loaded and clients do not know this broker yet. RmqError: the
        broker may not serve."""

    async def reopening(self) -> None:
        """Called before stop() when another Broker will replace this one in the same process,
        because the log is cut or begins elsewhere."""

    async def stop(self) -> None: ...

    def stamp(self) -> Stamp | None:
        """The version of a change made now at this shard; None: versions are not kept."""
        return None

    def changed(self, kind: str, name: str) -> None:
        """Called when this shard has made the item by itself, or deleted it on request; the item
        has a new stamp."""

    async def shared(self) -> None:
        """Waits, for a short time, until the others and the name servers have what changed here."""
        if self._registration is not None:
            await self._registration.settled(ROUTE_WAIT_S)

    def settings_changed(self, changes: dict[str, str]) -> None:
        """Called when a client of this shard has changed run-time settings."""

    def members_changed(self, group: str) -> None:
        """Called when a consumer of the group has come to or gone from this shard."""

    def role_changed(self) -> None:
        """Called when this broker has become master or slave: from now on its tables are its own,
        or its master's."""

    def client_ids(self, group: str) -> list[str]:
        """Consumers of the group that are connected to other shards."""
        return []

    async def ask(self, command: Command, client: str = "") -> list[Command]:
        """The answers of the other shards to this request of a client. For a reply to be pushed
        (324, 325) only the answers up to the one that has pushed it. client: the client's address,
        if the other shards must report it."""
        return []
