"""Story: what is told about a cluster: which broker died, the new master, how long sends stopped.

    broker 1 (master of epoch 3) died; 0.40 s later broker 2 is master of epoch 4; sends stood
    still for 0.90 s; nothing lost so far: 4200 sent, 4180 received, 20 on their way, 1 twice

look() gets the state of the cluster again and again, and tells what is new. A failover is told when
sends go on. Times are those of time.monotonic().
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from rmq.client.blocking.replicas import ReplicaSet

SETTLE_S = 1.0  # after an election, because the last answer may still be the old master's
FLOWS_S = 0.1  # sends go on if the last answer is no older than this
LONG_S = 5.0  # after so long without a master, that is told


class Counts(Protocol):
    """The part of Traffic that is used here."""

    sent: int
    received: int
    twice: int
    last_sent_s: float

    @property
    def gaps(self) -> Iterable[tuple[float, float]]:
        """(when it ended, seconds) of each gap that people notice."""

    def on_the_way(self) -> int: ...


class _Switch(msgspec.Struct):
    """A change of masters, until sends go on."""

    text: str  # how it began
    began_s: float
    elected_s: float | None = None
    is_told: bool = False  # it was told that the change takes long


class Story:
    """Used by the main thread."""

    def __init__(self, counts: Counts, tell: Callable[[str], None]) -> None:
        self.master_id: int | None = None
        self.epoch = 0
        self.failovers = 0
        self._counts = counts
        self._tell = tell
        self._switch: _Switch | None = None
        self._returning: dict[int, float] = {}  # broker: when it was started again

    def is_calm(self, found: ReplicaSet | None) -> bool:
        """Whether all replicas are in sync, and everything was told."""
        if found is None or self._switch is not None or self._returning or found.master_id is None:
            return False
        return all(each.alive and each.in_sync for each in found.replicas)

    def broker_died(self, number: int, now_s: float) -> None:
        if number != self.master_id:
            self._tell(f"broker {number} (a slave) died; sends go on while enough are in sync")
            return
        self._switch = _Switch(f"broker {number} (master of epoch {self.epoch}) died", now_s)

    def broker_started(self, number: int, now_s: float) -> None:
        self._returning[number] = now_s

    def other_died(self, name: str) -> None:
        self._tell(f"{name} died; brokers go on without it for a while")

    def look(self, found: ReplicaSet | None, now_s: float) -> None:
        """found: the replicas as the controller sees them; None: it does not answer just now."""
        if found is not None:
            self._look_at_master(found, now_s)
            self._look_at_returns(found, now_s)
        switch = self._switch
        if switch is None:
            return
        if switch.elected_s is not None and self._go_on(switch.elected_s, now_s):
            self._tell(f"{switch.text}; {self._stood_still(switch)}; {self.balance()}")
            self._switch = None
        elif not switch.is_told and now_s - switch.began_s > LONG_S:
            switch.is_told = True
            why = "it takes no sends" if switch.elected_s is not None else "there is no master"
            self._tell(f"{switch.text}; {why} after {LONG_S:.0f} s")

    def _go_on(self, elected_s: float, now_s: float) -> bool:
        return now_s - elected_s >= SETTLE_S and now_s - self._counts.last_sent_s < FLOWS_S

    def _look_at_master(self, found: ReplicaSet, now_s: float) -> None:
        epoch = found.master_epoch or 0
        if found.master_id is None or (found.master_id, epoch) == (self.master_id, self.epoch):
            return
        first, self.master_id, self.epoch = self.master_id is None, found.master_id, epoch
        if first:
            self._tell(f"broker {found.master_id} is master of epoch {epoch}")
            return
        text = f"broker {found.master_id} is master of epoch {epoch}"
        if self._switch is None:
            self._switch = _Switch(f"a planned switch: {text}", now_s, now_s)
            return
        self.failovers += self._switch.elected_s is None
        later_s = now_s - self._switch.began_s
        self._switch.text += f"; {later_s:.2f} s later {text}"
        self._switch.elected_s = now_s

    def _look_at_returns(self, found: ReplicaSet, now_s: float) -> None:
        for number, began_s in list(self._returning.items()):
            replica = found.replica(number)
            if replica is not None and replica.alive and replica.in_sync:
                del self._returning[number]
                after_s = now_s - began_s
                self._tell(f"broker {number} is back, and in sync {after_s:.1f} s after its start")

    def _stood_still(self, switch: _Switch) -> str:
        gaps_s = sum(length_s for end_s, length_s in self._counts.gaps if end_s >= switch.began_s)
        if not gaps_s:
            return "sends went on without a noticeable gap"
        return f"sends stood still for {gaps_s:.2f} s"

    def balance(self, *, is_end: bool = False) -> str:
        """The counts of sent, received and lost messages, as text."""
        counts, missing = self._counts, self._counts.on_the_way()
        if is_end:
            lost = f"{missing} LOST" if missing else "nothing lost"
            way = ""
        else:
            lost, way = "nothing lost so far", f"{missing} on their way, "
        return f"{lost}: {counts.sent} sent, {counts.received} received, {way}{counts.twice} twice"
