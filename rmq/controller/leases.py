"""Leases: until when a master may acknowledge without asking the controller again.

A master renews its lease with each question (1004), and counts the lease from the moment at which
it sent the question. So for the master the lease always ends before it ends for the controller.
Nobody else becomes master before that, with one exception: where each acknowledgement needs the
next master's own confirmation (`covered`), the old master cannot acknowledge anything once the new
one has taken its epoch, whatever the old one believes.

    Only the leader grants leases, each time after the store said that it still leads. So all leases
    of an earlier leader end at most one lease after the present leader began, and until then it
    treats every broker set as leased: begin(). An earlier leader's leases may have been longer: the
    longest length granted to a mastership is stored in its broker set before it is granted.

Both sides count by the clock that goes on while a machine is suspended: a master that was suspended
finds its lease over. A machine that a hypervisor pauses, whose clocks stand still meanwhile, does
not notice that. Such a master is kept from acknowledging only by the members of its set, whose
confirmation it needs (`covered`) and who follow the next master by then.

DRIFT is by how much a master's clock may be slower than the controller's: 1 part in 20, a thousand
times more than real clocks differ.

Example, with leases of 5 s: the master's last question was granted at 100.0, then it is silent.
Nobody else becomes master before 105.25. If it resigns (a clean stop), its lease ends at once.
"""

from __future__ import annotations

import msgspec

from rmq.base import clock

DRIFT = 0.05


class _Lease(msgspec.Struct, frozen=True):
    master_epoch: int
    ends_s: float  # clock.boot()
    covered: bool


class Leases:
    """Owned by the event loop of the controller, and valid only while it leads."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.leadership = 0  # how often it began to lead
        self._leases: dict[str, _Lease] = {}  # by broker name
        self._stopped: set[str] = set()  # names that get no more leases until the master changes
        self._began_s = clock.boot()

    def begin(self) -> None:
        """Begins a leadership; leases granted by the leader before are not known."""
        self.leadership += 1
        self._leases.clear()
        self._stopped.clear()
        self._began_s = clock.boot()

    def grant(self, name: str, master_epoch: int, covered: bool, longest_ms: int) -> int:
        """Grants a lease; returns it in milliseconds, 0 for none. To be called after the store said
        that this controller leads. longest_ms: the longest lease that this mastership was granted,
        perhaps by an earlier leader; a shorter new lease does not end it."""
        if name in self._stopped:
            return 0
        ends_s = clock.boot() + _length_s(self.lease_ms)
        ends_s = max(ends_s, self._began_s + _length_s(longest_ms))
        self._leases[name] = _Lease(master_epoch, ends_s, covered)
        return self.lease_ms

    def resign(self, name: str, master_epoch: int) -> None:
        """Ends the lease of a master that says that it acknowledges nothing any more, unless a
        lease of a later epoch is known."""
        lease = self._leases.get(name)
        if lease is None or lease.master_epoch <= master_epoch:
            self._leases[name] = _Lease(master_epoch, clock.boot(), True)

    def stop(self, name: str) -> None:
        """Grants the present master no more leases, because another one must become master; its
        last lease runs out."""
        self._stopped.add(name)

    def go_on(self, name: str) -> None:
        self._stopped.discard(name)

    def left_s(self, name: str, master_epoch: int, is_in_sync: bool, longest_ms: int) -> float:
        """How many seconds nobody else may become master; 0.0: now somebody may.

        `is_in_sync`: the next master would be a member of the sync state set, whose confirmation a
        covered master needs; `longest_ms`: as for grant(). A lease of an older epoch runs until its
        end, because it says nothing of the master after it, nor of that master's set."""
        lease = self._leases.get(name)
        if lease is None:
            ends_s = self._began_s + _length_s(max(self.lease_ms, longest_ms))
        elif lease.covered and is_in_sync and lease.master_epoch == master_epoch:
            return 0.0
        else:
            ends_s = lease.ends_s
        return max(0.0, ends_s - clock.boot())


def _length_s(lease_ms: int) -> float:
    """How long the lease may last by the slowest allowed clock of a master."""
    return lease_ms / 1000 * (1 + DRIFT)
