"""Leases: until when a master may acknowledge without asking the controller again.

A master renews its lease with each question (1004), and counts from the moment it sent that: so its
lease always ends before the leader of the controllers takes it to end. Nobody else becomes
master before, except where acknowledging needs the next master's own yes (`covered`): then the old
one cannot acknowledge anything once the new one has taken its epoch, whatever it believes.

    The leader alone grants, each time after the store said that it leads still. So all that an
    earlier leader granted ends at most a lease after our beginning, and until then we hold every
    broker set for leased: begin(). Its leases may have been longer than ours: how long the longest
    of a mastership is stands in its broker set, before it is granted.

DRIFT is how much slower than ours a master's clock may go: 1 part in 20, a thousand times more
than clocks do.

Example, leases of 5 s: the master's last question was granted at 100.0; it is silent. Nobody else
is master before 105.25. It resigns (a clean stop): its lease ends at once.
"""

from __future__ import annotations

import msgspec

from rmq.base import clock

DRIFT = 0.05


class _Lease(msgspec.Struct, frozen=True):
    master_epoch: int
    ends_s: float  # clock.monotonic()
    covered: bool


class Leases:
    """Owned by the event loop of the controller, and meaningful while it leads."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._leases: dict[str, _Lease] = {}  # by broker name
        self._stopped: set[str] = set()  # no more grants, until somebody else is master
        self._began_s = clock.monotonic()

    def begin(self) -> None:
        """We lead from now on; what the leader before granted is not known."""
        self._leases.clear()
        self._stopped.clear()
        self._began_s = clock.monotonic()

    def grant(self, name: str, master_epoch: int, covered: bool, longest_ms: int) -> int:
        """The lease in milliseconds, 0 for none. To be called after the store said that we lead.
        longest_ms: of what this mastership was granted, before us perhaps, and does not give up for
        a shorter one."""
        if name in self._stopped:
            return 0
        ends_s = clock.monotonic() + _length_s(self.lease_ms)
        ends_s = max(ends_s, self._began_s + _length_s(longest_ms))
        self._leases[name] = _Lease(master_epoch, ends_s, covered)
        return self.lease_ms

    def resign(self, name: str, master_epoch: int) -> None:
        """The master acknowledges nothing any more, and says so; not if we know a later one."""
        lease = self._leases.get(name)
        if lease is None or lease.master_epoch <= master_epoch:
            self._leases[name] = _Lease(master_epoch, clock.monotonic(), True)

    def stop(self, name: str) -> None:
        """Another one is to be master: the present one gets no more, and what it has runs out."""
        self._stopped.add(name)

    def go_on(self, name: str) -> None:
        self._stopped.discard(name)

    def left_s(self, name: str, master_epoch: int, is_in_sync: bool, longest_ms: int) -> float:
        """How long nobody else may become master; 0.0: it may be now.

        `is_in_sync`: it would be one of the sync state set, whose yes a covered master needs;
        `longest_ms`: as of grant(). A lease of an older epoch runs as long as it does, and says
        nothing of the master after it, nor of its set."""
        lease = self._leases.get(name)
        if lease is None:
            ends_s = self._began_s + _length_s(max(self.lease_ms, longest_ms))
        elif lease.covered and is_in_sync and lease.master_epoch == master_epoch:
            return 0.0
        else:
            ends_s = lease.ends_s
        return max(0.0, ends_s - clock.monotonic())


def _length_s(lease_ms: int) -> float:
    """As the slowest clock of a master has it."""
    return lease_ms / 1000 * (1 + DRIFT)
