"""Live replicas: which replicas were heard from lately, and how far they said their logs are.

This is what one controller remembers of heartbeats (904). Brokers send these to every controller,
so that the next leader knows the same. Heartbeats prove nothing: an election rests on who is in
sync, and on leases (leases.py); heartbeats only show who is worth a try.

Example: a heartbeat with heartbeatTimeoutMillis=3000 counts for three seconds. If its connection
closes before, the replica is gone at once, unless it was heard on another connection. A replica may
have several, if it knows this controller by several addresses, and may close all but one of them.

Anybody may send names, so there are limits, for one connection and for all.
"""

from __future__ import annotations

import msgspec

from rmq.base import clock
from rmq.errors import ProtocolError

TIMEOUT_MS = 10_000  # for a broker that names none
PRIORITY_LEAST = 2**31 - 1
REPLICAS_MAX = 20_000
OF_CONNECTION_MAX = 64  # several brokers of one process may share it
CONNECTIONS_MAX = 8  # of one replica; the one that was silent longest is forgotten


class LiveReplica(msgspec.Struct, frozen=True):
    """What a heartbeat said. `max_offset`: the end of the replica's log; `epoch`: the epoch of its
    last record; `has_lost`: it has lost the end of its log, or a whole epoch; `is_doubted`: it may
    have lost the end, as its machine was started again, and has found no master since."""

    address: str
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = PRIORITY_LEAST  # the smallest number is preferred
    timeout_ms: int = TIMEOUT_MS
    has_lost: bool = False
    is_doubted: bool = False

    @property
    def lacks(self) -> str:
        """In words, why it may lack messages that it acknowledged; empty: nothing says so."""
        if self.has_lost:
            return "has lost the end of its log"
        return "is empty" if self.epoch < 0 and self.max_offset <= 0 else ""


class _Heard(msgspec.Struct):
    replica: LiveReplica
    on: dict[object, float]  # connection -> when, by clock.monotonic()

    @property
    def at(self) -> float:
        return max(self.on.values())


Key = tuple[str, str, int]  # cluster, broker name, broker id


class LiveReplicas:
    """Owned by the event loop of the controller."""

    def __init__(self) -> None:
        self._heard: dict[Key, _Heard] = {}
        self._ids: dict[tuple[str, str], set[int]] = {}  # of each broker set
        self._said: dict[object, set[Key]] = {}  # on each connection

    def heard(self, key: Key, replica: LiveReplica, connection: object) -> bool:
        """Notes a heartbeat; returns whether the replica was not known to live before.
        ProtocolError: too many."""
        is_new = not self.is_alive(key)
        said = self._said.get(connection, set())
        if key not in said and len(said) >= OF_CONNECTION_MAX:
            raise ProtocolError(f"one connection speaks for {OF_CONNECTION_MAX} replicas at most")
        if key not in self._heard and len(self._heard) >= REPLICAS_MAX:
            raise ProtocolError(f"this controller hears of {REPLICAS_MAX} replicas at most")
        heard = self._heard.setdefault(key, _Heard(replica, {}))
        heard.replica = replica
        heard.on[connection] = clock.monotonic()
        self._ids.setdefault(key[:2], set()).add(key[2])
        self._said.setdefault(connection, set()).add(key)
        if len(heard.on) > CONNECTIONS_MAX:
            self._silent(key, min(heard.on, key=heard.on.__getitem__))
        return is_new

    def is_alive(self, key: Key) -> bool:
        heard = self._heard.get(key)
        return heard is not None and clock.monotonic() - heard.at <= heard.replica.timeout_ms / 1000

    def of_set(self, cluster: str, name: str) -> dict[int, LiveReplica]:
        """The living replicas of one broker set, by id."""
        return {
            broker_id: self._heard[key].replica
            for broker_id in self._ids.get((cluster, name), ())
            if self.is_alive(key := (cluster, name, broker_id))
        }

    def forget(self, key: Key) -> None:
        """Forgets a replica that has resigned: it lives, but must not be elected because of
        that."""
        heard = self._heard.get(key)
        for connection in list(heard.on) if heard is not None else ():
            self._silent(key, connection)

    def connection_closed(self, connection: object) -> list[Key]:
        """The replicas that are gone with this connection: they were not heard lately on
        another."""
        keys = list(self._said.get(connection, ()))
        for key in keys:
            self._silent(key, connection)
        gone = [key for key in keys if not self.is_alive(key)]
        for key in gone:
            self.forget(key)
        return gone

    def expire(self) -> list[Key]:
        """The replicas that have become silent for too long since the last call, and are gone."""
        gone = [key for key in self._heard if not self.is_alive(key)]
        for key in gone:
            self.forget(key)
        return gone

    def _silent(self, key: Key, connection: object) -> None:
        """Notes that the replica is not heard on that connection any more."""
        said, heard = self._said[connection], self._heard[key]
        said.discard(key)
        if not said:
            del self._said[connection]
        del heard.on[connection]
        if not heard.on:
            del self._heard[key]
            ids = self._ids[key[:2]]
            ids.discard(key[2])
            if not ids:
                del self._ids[key[:2]]
