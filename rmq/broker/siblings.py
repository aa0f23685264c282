"""Siblings: the other shards of this machine, as the broker sees them. Here there are none.

Several shards are one broker to their users: what one makes by itself (topics, groups) must be
there on all, run-time settings are those of all, and who asks one for a group's members must hear
of those on the others. What a request asks for concerns the shard that it is sent to, as with
RocketMQ's brokers. The tables and handlers call what stands here; a shard among several puts in a
class that speaks to the others (shards/bus_siblings.py), a broker alone keeps this one and pays
nothing.

    table.put("t")                stamp = siblings.stamp(): (1763726400000, 1), or None when alone
                                  siblings.changed(TOPIC, "t"): sent at the end of this loop turn
    await file                    ..
    await siblings.shared()       the prompt ones have it, the name servers know it; a slow or dead
                                  one is not waited for
"""

from typing import Protocol

from rmq.format.remoting import Command

TOPIC, GROUP = "topic", "group"
ROUTE_WAIT_S = 0.5  # for name servers, so that the next question for a route is answered right
Stamp = tuple[int, int]  # (clock in ms that never stands still, shard): the larger one wins
# Stamps of what was deleted are kept so long: a shard that was away for longer may bring it back.
TOMBSTONE_MS = 30 * 86_400_000


class NameServers(Protocol):
    """The registration, as far as siblings wait for it."""

    async def settled(self, timeout_s: float) -> None: ...


class Siblings:
    """A broker alone."""

    index = 0  # of this shard

    def __init__(self, registration: NameServers | None = None) -> None:
        self._registration = registration  # None: no name server hears of this broker

    async def start(self) -> None:
        """Tables are loaded, clients do not know this broker yet. RmqError: it may not serve."""

    async def reopening(self) -> None:
        """This broker ends in a moment, and another one takes its place in this process, when its
        log is cut or begins elsewhere; before stop()."""

    async def stop(self) -> None: ...

    def stamp(self) -> Stamp | None:
        """The version of a change made here and now; None: versions are not kept."""
        return None

    def changed(self, kind: str, name: str) -> None:
        """This shard has made the item by itself, or deleted it on request; it has a new stamp."""

    async def shared(self) -> None:
        """Waits, shortly, until the others and the name servers have what changed here so far."""
        if self._registration is not None:
            await self._registration.settled(ROUTE_WAIT_S)

    def settings_changed(self, changes: dict[str, str]) -> None:
        """Run-time settings were changed by a client of ours."""

    def members_changed(self, group: str) -> None:
        """A consumer of the group has come or gone here."""

    def role_changed(self) -> None:
        """This broker is master or slave from now on: the tables are its own, or its master's."""

    def client_ids(self, group: str) -> list[str]:
        """Consumers of the group that are connected to other shards."""
        return []

    async def ask(self, command: Command, client: str = "") -> list[Command]:
        """What the other shards answer to this request of a client, each for itself; of a reply to
        be pushed (324, 325) up to the one that has pushed it. client: its address, where they tell
        of it."""
        return []
