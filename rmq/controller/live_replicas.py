"""Live replicas: who of a broker set was heard of lately, and how far it said its log is.

What one controller remembers of heartbeats (904). Brokers send these to every controller, so that
the next leader knows it too. Nothing of it is a proof: an election rests on who is in sync, and on
leases (leases.py); this only says who is worth a try.

Example: a heartbeat with heartbeatTimeoutMillis=3000 counts for three seconds. Its connection may
close before: then the replica is gone at once, unless it was heard of on another one since.
"""

from __future__ import annotations

import msgspec

from rmq.base import clock

TIMEOUT_MS = 10_000  # of a broker that names none
PRIORITY_LEAST = 2**31 - 1


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
    at: float  # clock.monotonic()
    connection: object


Key = tuple[str, str, int]  # cluster, broker name, broker id


class LiveReplicas:
    """Owned by the event loop of the controller."""

    def __init__(self) -> None:
        self._heard: dict[Key, _Heard] = {}

    def heard(self, key: Key, replica: LiveReplica, connection: object) -> bool:
        """Notes a heartbeat; whether the replica was not known to live."""
        is_new = not self.is_alive(key)
        self._heard[key] = _Heard(replica, clock.monotonic(), connection)
        return is_new

    def is_alive(self, key: Key) -> bool:
        heard = self._heard.get(key)
        return heard is not None and clock.monotonic() - heard.at <= heard.replica.timeout_ms / 1000

    def of_set(self, cluster: str, name: str) -> dict[int, LiveReplica]:
        """Those of one broker set that live, by id."""
        return {
            key[2]: heard.replica
            for key, heard in self._heard.items()
            if key[:2] == (cluster, name) and self.is_alive(key)
        }

    def forget(self, key: Key) -> None:
        """It resigned: it lives, and is not to be master by that."""
        self._heard.pop(key, None)

    def connection_closed(self, connection: object) -> list[Key]:
        """Who was last heard of on it, and is gone."""
        gone = [key for key, heard in self._heard.items() if heard.connection is connection]
        for key in gone:
            del self._heard[key]
        return gone

    def expire(self) -> list[Key]:
        """Who has been silent for too long since the last call, and is gone."""
        gone = [key for key in self._heard if not self.is_alive(key)]
        for key in gone:
            del self._heard[key]
        return gone
