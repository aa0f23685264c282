"""Sync state: which replicas are in sync, on the master: they have everything acknowledged.

The controller keeps the set and elects only its members. The master asks for another set (1001)
when a slave has caught up, or does not keep up:

    joins    a slave whose log reaches the confirmed offset, the beginning of the master's last
             epoch, and the end of the log at the last look; and that has copied the tables, which
             are in no log (exchange.py), unless it is RocketMQ's. Never a learner.
             Once its acks count it goes on joining if it was at the end within the last second
    leaves   a member that was not at the end for haMaxTimeSlaveNotCatchup, or had no connection for
             1 s, or has less than is confirmed, or has lacked the tables for a minute: as the next
             master it would give all consumers old offsets. If too few would be left, it stays
             until others have joined (sync_state_proposal.py)

From before the question until its answer, acknowledgements need the members of both sets, because
the controller may already have taken the new set and elect from it. A question whose answer was
lost stays open: it may still be taken, until the set has a newer epoch. So the master asks again,
if need be for the present set (rmqNewEpoch): otherwise a dead slave that was joining would be
waited for without end.

Example: 1 is master, in sync {1, 2}; 3 catches up.
    wanted(..) -> {1, 2, 3}; change.ask({1, 2, 3}); acks need {1, 2, 3}
    the controller answers, set epoch 8: change.take(SyncState({1, 2, 3}, 8))
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

GONE_MS = 1000  # without a connection; a slave that lives connects again within this time
LOST_MS = 30_000  # after this time a question without an answer was done, or is lost itself
COPY_MS = 60_000  # without the tables; enough to copy all of them after a lost connection
AT_END_MS = 1000  # a slave that was at the end this recently lacks only what is on its way


class SyncState(msgspec.Struct, frozen=True):
    """The set as the controller has it. `epoch` counts its changes."""

    members: frozenset[int] = frozenset()
    epoch: int = 0


class Slave(msgspec.Struct, frozen=True):
    """What the master knows of a slave. Times are monotonic milliseconds.

    `caught_up_ms`: when its log last reached the end that the master's had one look earlier."""

    broker_id: int
    acked: int  # the end of its log, as it said
    caught_up_ms: int
    closed_ms: int | None = None  # since when it has no connection; None: it has one
    is_learner: bool = False
    has_tables: bool = True
    lacks_tables_ms: int | None = None  # since when; None: it has them, or that is not checked


class LogSnapshot(msgspec.Struct, frozen=True):
    """The master's log at the last look."""

    end: int
    confirm: int  # up to where all replicas in sync have it
    epoch_start: int  # of the last epoch


def wanted(
    own_id: int,
    members: frozenset[int],
    slaves: Iterable[Slave],
    look: LogSnapshot,
    now_ms: int,
    *,
    behind_ms: int,
    began_ms: int,
    joining: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """The set as it should be. `behind_ms`: haMaxTimeSlaveNotCatchup; `began_ms`: when this
    mastership began: a member that has not connected since counts as gone from then on; `joining`:
    slaves whose acks count already, or did until the controller refused them just now."""
    known = {each.broker_id: each for each in slaves if each.broker_id != own_id}
    stay = {
        each
        for each in members
        if _stays(known.get(each), look.confirm, now_ms, behind_ms, began_ms)
    }
    join = {
        each.broker_id
        for each in known.values()
        if (_goes_on(each, now_ms) if each.broker_id in joining else _joins(each, look))
    }
    return frozenset({own_id} | stay | (join - members))


def _stays(slave: Slave | None, confirm: int, now_ms: int, behind_ms: int, began_ms: int) -> bool:
    if slave is None:
        return now_ms - began_ms <= GONE_MS
    if slave.is_learner:
        return False
    if has_less(slave, confirm):
        return False
    if slave.closed_ms is not None:
        return now_ms - slave.closed_ms <= GONE_MS
    if lacks_tables_long(slave, now_ms):
        return False
    return now_ms - max(slave.caught_up_ms, began_ms) <= behind_ms


def has_less(slave: Slave, confirm: int) -> bool:
    """Whether it came back with less than it had: after a power cut, wiped, or with an older
    store."""
    return slave.closed_ms is None and 0 <= slave.acked < confirm


def lacks_tables_long(slave: Slave, now_ms: int) -> bool:
    return slave.lacks_tables_ms is not None and now_ms - slave.lacks_tables_ms > COPY_MS


def _joins(slave: Slave, look: LogSnapshot) -> bool:
    if slave.is_learner or slave.closed_ms is not None or not slave.has_tables:
        return False
    return slave.acked >= max(look.end, look.confirm, look.epoch_start)


def _goes_on(slave: Slave, now_ms: int) -> bool:
    """Whether a joining slave goes on joining: a look at which it is not quite at the end is no
    reason to begin anew."""
    if slave.is_learner or slave.closed_ms is not None or not slave.has_tables:
        return False
    return now_ms - slave.caught_up_ms <= AT_END_MS


class SyncChange:
    """The present set, and the sets that were asked for. Used for one mastership; owned by one
    thread, which asks one question after the other."""

    def __init__(self, state: SyncState) -> None:
        self.state = state
        self._asked: frozenset[int] = frozenset()  # asked for at this epoch, and perhaps taken
        self.is_open = False  # an answer was lost: ask again, with is_new_epoch for the same set
        self._lost_ms = 0  # when the last answer was lost

    @property
    def acks(self) -> frozenset[int]:
        """Whose acknowledgements are needed now."""
        return self.state.members | self._asked

    def ask(self, members: AbstractSet[int]) -> frozenset[int]:
        """Returns whose acks are needed now. Must be called, and acted on, before the controller is
        asked."""
        self._asked |= members
        return self.acks

    def take(self, state: SyncState) -> bool:
        """Takes the set that the controller says; returns whether it is new. A set of the present
        epoch decides nothing, because a question may still be on its way; an older one is out of
        date."""
        if state.epoch <= self.state.epoch:
            return False
        self.state, self._asked, self.is_open = state, frozenset(), False
        return True

    def refused(self) -> None:
        """Called when the controller has refused."""
        if not self.is_open:
            self._asked = frozenset()

    def lost(self, now_ms: int) -> None:
        """Called when there was no answer: the controller may have changed the set, or may yet."""
        self.is_open, self._lost_ms = True, now_ms

    def same(self, now_ms: int) -> None:
        """Called when RocketMQ's controller says that the set is unchanged; it does not give the
        same set a newer epoch. A question that was lost long ago cannot arrive any more."""
        if now_ms - self._lost_ms > LOST_MS:
            self.is_open = False
        self.refused()
