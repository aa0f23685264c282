"""Sync state: who is in sync, on the master: each of them has all that was acknowledged.

The set is the controller's, which elects none but its members; the master asks for another one
(1001) when a slave has caught up, or does not keep up:

    joins    its log reaches what is confirmed, and the beginning of the master's last epoch, and
             the end of the log at the last look; and it has copied the tables, which are in no
             log (exchange.py), unless it is RocketMQ's. Never a learner
             When its acks count: it was at the end within the last second
    leaves   it was not at the end for haMaxTimeSlaveNotCatchup, or has had no connection for 1 s,
             or has less than is confirmed, or has not had the tables for a minute: as the next
             master it would give everybody old offsets

From before the question until its answer acknowledgements need the members of both sets: the
controller may have taken the new one already, and elect by it. A question whose answer was lost
stays open: it may be taken yet, until the set has a newer epoch. So the master asks again, if need
be for the set that is (rmqNewEpoch): or a dead slave that was to join would be waited for without
end.

Example: 1 is master, in sync {1, 2}; 3 catches up.
    wanted(..) -> {1, 2, 3}; change.ask({1, 2, 3}); acks need {1, 2, 3}
    the controller answers, set epoch 8: change.take(SyncState({1, 2, 3}, 8))
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

GONE_MS = 1000  # without a connection; a slave connects again within that
LOST_MS = 30_000  # a question that no answer came to: by then it is done, or lost itself
COPY_MS = 60_000  # without the tables: who lost a connection has copied all of them anew by then
AT_END_MS = 1000  # since a slave's log was last at the end: it is there but for what is on its way


class SyncState(msgspec.Struct, frozen=True):
    """The set as the controller has it. `epoch` counts its changes."""

    members: frozenset[int] = frozenset()
    epoch: int = 0


class Slave(msgspec.Struct, frozen=True):
    """What the master knows of one. Times are monotonic milliseconds.

    `caught_up_ms`: when its log last reached the end that the master's had at the look before."""

    broker_id: int
    acked: int  # the end of its log, as it said
    caught_up_ms: int
    closed_ms: int | None = None  # since when it has no connection; None: it has one
    is_learner: bool = False
    has_tables: bool = True
    lacks_tables_ms: int | None = None  # since when; None: it has them, or this is not looked at


class LogSnapshot(msgspec.Struct, frozen=True):
    """The master's log at the last look."""

    end: int
    confirm: int  # up to there all that are in sync have it
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
    mastership did: a member that has not come since counts as gone from then on; `joining`: whose
    acks count already, or did until the controller refused them just now."""
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
    if slave.closed_ms is None and 0 <= slave.acked < confirm:
        return False  # it came back with less than it had: after a power cut, or wiped
    if slave.closed_ms is not None:
        return now_ms - slave.closed_ms <= GONE_MS
    if lacks_tables_long(slave, now_ms):
        return False
    return now_ms - max(slave.caught_up_ms, began_ms) <= behind_ms


def lacks_tables_long(slave: Slave, now_ms: int) -> bool:
    return slave.lacks_tables_ms is not None and now_ms - slave.lacks_tables_ms > COPY_MS


def _joins(slave: Slave, look: LogSnapshot) -> bool:
    if slave.is_learner or slave.closed_ms is not None or not slave.has_tables:
        return False
    return slave.acked >= max(look.end, look.confirm, look.epoch_start)


def _goes_on(slave: Slave, now_ms: int) -> bool:
    """One look at which it is not quite at the end is no reason to begin anew."""
    if slave.is_learner or slave.closed_ms is not None or not slave.has_tables:
        return False
    return now_ms - slave.caught_up_ms <= AT_END_MS


class SyncChange:
    """The set that is, and those that were asked for. Of one mastership; owned by one thread, which
    asks one question after the other."""

    def __init__(self, state: SyncState) -> None:
        self.state = state
        self._asked: frozenset[int] = frozenset()  # at this epoch of the set, and perhaps taken
        self.is_open = False  # an answer was lost: ask again, with is_new_epoch for the same set
        self._lost_ms = 0  # when the last one was

    @property
    def acks(self) -> frozenset[int]:
        """Whose acknowledgements are needed now."""
        return self.state.members | self._asked

    def ask(self, members: AbstractSet[int]) -> frozenset[int]:
        """To be called, and acted on, before the controller is asked: whose acks are needed now."""
        self._asked |= members
        return self.acks

    def take(self, state: SyncState) -> bool:
        """What the controller says the set is; whether that is news. One of the present epoch
        settles nothing, as a question may still be on its way; an older one was overtaken."""
        if state.epoch <= self.state.epoch:
            return False
        self.state, self._asked, self.is_open = state, frozenset(), False
        return True

    def refused(self) -> None:
        """The controller said no."""
        if not self.is_open:
            self._asked = frozenset()

    def lost(self, now_ms: int) -> None:
        """There was no answer: the controller may have done it, or may yet."""
        self.is_open, self._lost_ms = True, now_ms

    def same(self, now_ms: int) -> None:
        """RocketMQ's controller says that the set is what it was, and takes no newer epoch of it.
        What was lost long ago is on no way any more."""
        if now_ms - self._lost_ms > LOST_MS:
            self.is_open = False
        self.refused()
