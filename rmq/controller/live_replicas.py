"""Live replicas: who of a broker set was heard of lately, and how far it said its log is.

What one controller remembers of heartbeats (904). Brokers send these to every controller, so that
the next leader knows it too. Nothing of it is a proof: an election rests on who is in sync, and on
leases (leases.py); this only says who is worth a try.

Example: a heartbeat with heartbeatTimeoutMillis=3000 counts for three seconds. Its connection may
close before: then the replica is gone at once, unless it was heard of on another one. It may have
several, where it knows this controller by several addresses, and give all but one of them up.

Names are what anybody says, so there are limits: of one connection, and of all.
"""

from __future__ import annotations

import msgspec

from rmq.base import clock
from rmq.errors import ProtocolError

TIMEOUT_MS = 10_000  # of a broker that names none
PRIORITY_LEAST = 2**31 - 1
REPLICAS_MAX = 20_000
OF_CONNECTION_MAX = 64  # several brokers of one process may share it
CONNECTIONS_MAX = 8  # of one replica; the one that was silent longest is forgotten


class LiveReplica(msgspec.Struct, frozen=True):
    """What a heartbeat said. `max_offset`: the end of its log; `epoch`: that of its last record;
    `has_lost`: the end of its log, or a whole epoch, which it had."""

    address: str
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = PRIORITY_LEAST  # the least is preferred
    timeout_ms: int = TIMEOUT_MS
    has_lost: bool = False

    @property
    def lacks(self) -> str:
        """What says that it may not have what it acknowledged, in words; empty: nothing does."""
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
        """Notes a heartbeat; whether the replica was not known to live. ProtocolError: too many."""
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
        """Those of one broker set that live, by id."""
        return {
            broker_id: self._heard[key].replica
            for broker_id in self._ids.get((cluster, name), ())
            if self.is_alive(key := (cluster, name, broker_id))
        }

    def forget(self, key: Key) -> None:
        """It resigned: it lives, and is not to be master by that."""
        heard = self._heard.get(key)
        for connection in list(heard.on) if heard is not None else ():
            self._silent(key, connection)

    def connection_closed(self, connection: object) -> list[Key]:
        """Who was heard of on it alone, or not lately on another one, and is gone."""
        keys = list(self._said.get(connection, ()))
        for key in keys:
            self._silent(key, connection)
        gone = [key for key in keys if not self.is_alive(key)]
        for key in gone:
            self.forget(key)
        return gone

    def expire(self) -> list[Key]:
        """Who has been silent for too long since the last call, and is gone."""
        gone = [key for key in self._heard if not self.is_alive(key)]
        for key in gone:
            self.forget(key)
        return gone

    def _silent(self, key: Key, connection: object) -> None:
        """The replica is not heard of on that connection any more."""
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
