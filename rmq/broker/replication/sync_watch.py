"""Sync watch: on the master, watches which slaves have caught up, and asks the controller.

The slaves' acks are looked at every POLL_S (sync_state.py says what follows from them). When a
slave will join, first its acks are needed; then it must have everything that was answered without
it, messages and changes of tables; then the controller is asked. When a slave will leave, its acks
are needed until the controller has agreed. A question without a decision is asked again, more and
more seldom (retry_backoff.py).

    look -> acks need {1, 2}; everything below 5000 was answered by 1 alone
    look -> 2 has 5200: the controller is asked for {1, 2}
         -> yes, set epoch 8: whoever is elected has all that is acknowledged from now on

If fewer than minInSyncReplicas of the members answer, and no others are about to take the place of
those who do not, the set counts as short: the core refuses sends, and answers those that wait. That
needs no controller, and the members stay: sync_state_proposal.py says when.

Example: {1, 2, 3} are in sync, and 2 is killed: a second later the controller is asked for {1, 3},
and requests that wait are answered. 3 is killed, too: now the set is short, and stays {1, 3}.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from rmq.base import clock
from rmq.broker.core_seam import HACalls, LogCalls, StatCalls
from rmq.broker.replication.controller_link import ControllerError, ControllerLink, ReplicaInfo
from rmq.broker.replication.retry_backoff import RetryBackoff
from rmq.broker.replication.role import in_sync_min
from rmq.broker.replication.sync_state import (
    AT_END_MS,
    LogSnapshot,
    Slave,
    SyncChange,
    SyncState,
    has_less,
    lacks_tables_long,
    wanted,
)
from rmq.broker.replication.sync_state_proposal import SyncStateProposal
from rmq.broker.replication.waiting_sends import WaitingSends
from rmq.codes import ResponseCode
from rmq.config import Settings

POLL_S = 0.1
WITHOUT_TABLES_MS = 5000  # a slave at the log's end that lacks tables this long has trouble
LATE_TABLES_MS = 60_000  # the same if its copy is this old; a million offsets take seconds

# Codes that say that the controller has surely not changed the set. After other failures its store
# may have taken the change, for example when an answer of etcd was lost (1).
REFUSALS = (
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_INVALID_MASTER,
    ResponseCode.CONTROLLER_INVALID_REPLICAS,
    ResponseCode.CONTROLLER_INVALID_REQUEST,
    ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
)

log = logging.getLogger("rmq.broker.sync_watch")


class Mastership(msgspec.Struct, frozen=True):
    broker_id: int
    epoch: int
    start: int  # the log offset at which it began


class Needed(msgspec.Struct, frozen=True):
    """What a joining slave must have: everything that was answered before its acks counted."""

    log_end: int
    tables: Mapping[str, int]  # number of changes of each table


class CoreCalls(HACalls, LogCalls, StatCalls, Protocol):
    """What is used here of the core."""


class AckRule(Protocol):
    """Whose acks an answer needs."""

    @property
    def of_whole_set(self) -> bool:
        """Whether all members of the sync state set must acknowledge, not only a number."""

    def count(self) -> None:
        """Otherwise: tells the core how many slaves must."""


class TableCopies(Protocol):
    """What slaves have of the tables, which are not in the log. A slave that never says what it has
    counts as having them."""

    def counts(self) -> Mapping[str, int]:
        """How many changes each table has seen so far."""

    def has(self, slave: int, least: Mapping[str, int]) -> bool:
        """Whether the slave has the tables with at least so many changes."""


class SyncWatch:
    """Used for one mastership. Owned by the control thread."""

    def __init__(
        self,
        mastership: Mastership,
        state: SyncState,
        settings: Settings,
        core: CoreCalls,
        link: ControllerLink,
        altered: Callable[[ReplicaInfo], None],
        is_learner: Callable[[int], bool],
        says_losses: Callable[[int], bool],
        copies: TableCopies,
        acks: AckRule,
        sends: WaitingSends,
        answers_changed: Callable[[], None],
    ) -> None:
        """altered: called with the controller's answer; says_losses: whether the replica says when
        it has lost something of its log, to a controller that does not elect it then; sends: those
        that wait while too few are in sync; answers_changed: called when other members answer than
        before."""
        self._mastership = mastership
        self._settings = settings
        self._core = core
        self._link = link
        self._altered = altered
        self._is_learner = is_learner
        self._says_losses = says_losses
        self._copies = copies
        self._acks = acks
        self._is_of_whole_set = acks.of_whole_set  # as the core was told last
        self._sends = sends
        self._answers_changed = answers_changed
        self._change = SyncChange(state)
        self._slaves: dict[int, Slave] = {}
        self._end = core.log_range()[1]  # the end of the log at the last look
        self._began_ms = now_ms()
        self._counts: deque[tuple[int, Mapping[str, int]]] = deque()  # recent ones, oldest first
        self._joining: dict[int, Needed] = {}  # joining slaves, whose acks count -> what they need
        self._proposal = SyncStateProposal(mastership.broker_id, settings, self._has_all)
        self._with_less: set[int] = set()  # slaves that came back with less than is confirmed
        self._answering = state.members  # as of the last look, and those who have joined since
        self._backoff = RetryBackoff()
        self._said = ""
        self._waits_since: dict[int, int] = {}  # slaves that have the log but not the tables: since
        self.problem = ""  # which of these slaves wait for too long

    @property
    def members(self) -> frozenset[int]:
        return self._change.state.members

    @property
    def others(self) -> frozenset[int]:
        """The slaves whose acks an answer waits for now."""
        return self._change.acks - {self._mastership.broker_id}

    @property
    def answering(self) -> frozenset[int]:
        """The members that answer, or whose place others are about to take."""
        return self._answering & self.members

    @property
    def is_short(self) -> bool:
        """Whether fewer members answer than must have each stored message."""
        return len(self.answering) < in_sync_min(self._settings)

    def take(self, state: SyncState) -> None:
        """Takes the set that the controller says. Slaves that are joining go on joining: their acks
        have counted all the time."""
        before = self.members
        if self._change.take(state):
            self._answering |= state.members - before
            self._backoff.decided()
            log.info("in sync: %s", sorted(state.members))
            self._go_on(self._joining.keys() - state.members)

    def apply(self) -> int:
        """Tells the core whose acks count; returns the offset that a new slave must reach."""
        short, wait = int(self.is_short), int(self._sends.is_on)
        self._is_of_whole_set = self._acks.of_whole_set
        if self._is_of_whole_set:
            return self._core.set_sync_state(sorted(self.others), short, wait)
        self._core.set_sync_state(None, short, wait)
        self._acks.count()
        return 0

    def acks_changed(self) -> None:
        """To be called when the rule whose acks are needed may have changed."""
        if self._acks.of_whole_set != self._is_of_whole_set:
            self.apply()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self._look()
            except ControllerError as error:
                self._say(str(error))
            except Exception as error:  # after any error slaves must go on joining and leaving
                self._say(repr(error))

    async def _look(self) -> None:
        now = now_ms()
        confirmed = self._confirmed()  # read before the acks, so that these are not below it
        self._note_counts(now)
        self._note_slaves(now, confirmed)
        self._note_tables(now)
        look = LogSnapshot(self._end, confirmed, self._mastership.start)
        self._end = self._core.log_range()[1]
        wish = wanted(
            self._mastership.broker_id, self.members, self._slaves.values(), look, now,
            behind_ms=self._settings.haMaxTimeSlaveNotCatchup, began_ms=self._began_ms,
            joining=frozenset(self._joining) | self._proposal.turned_down(self.members),
        )  # fmt: skip
        goal = self._proposal.allowed(wish, self.members, now)
        if not self._joining.keys() <= goal:  # a joining slave did not keep up
            self._go_on(self._joining.keys() & goal)
        self._proposal.note(wish, self.members, self._change.acks, now)
        self._note_answering(wish, goal, now)
        if goal == self.members and not self._change.is_open:
            return
        if joining := goal - self.members - self._joining.keys():
            self._change.ask(joining)
            needed = Needed(self.apply(), self._copies.counts())
            self._joining |= dict.fromkeys(joining, needed)
        late = {each for each in self._joining if not self._has_needed(each, confirmed)}
        asked = self._proposal.nearest(
            goal - late, self.members, now, wish=wish, late=late, is_open=self._change.is_open
        )
        if asked is not None and self._backoff.is_due(asked, now):
            await self._ask(asked)

    def _go_on(self, joining: AbstractSet[int]) -> None:
        """Keeps only these slaves as joining; the acks of the others count no more, as far as that
        is allowed."""
        self._joining = {each: self._joining[each] for each in joining}
        self._change.refused()
        self._change.ask(joining)
        self.apply()

    def _has_needed(self, joining: int, confirmed: int) -> bool:
        """Whether the joining slave has everything that was answered without it. Changes of tables
        count like messages: those from now on wait for it, too. It also has what was confirmed
        since, unless it came back with less."""
        needed = self._joining[joining]
        has_log = self._slaves[joining].acked >= max(needed.log_end, confirmed)
        return has_log and self._copies.has(joining, needed.tables)

    def _note_counts(self, now: int) -> None:
        """Notes the counts of changes now: a joining slave must have those of LATE_TABLES_MS
        ago."""
        if not self._counts or now - self._counts[-1][0] >= AT_END_MS:
            self._counts.append((now, self._copies.counts()))
        while now - self._counts[0][0] > LATE_TABLES_MS and len(self._counts) > 1:
            self._counts.popleft()

    def _note_answering(self, wish: frozenset[int], goal: frozenset[int], now: int) -> None:
        """Notes which members answer, and tells the core and those who wait if these are others.

        Sends wait for a moment where the wanted set is large enough, as it has others who join. If
        the controller refuses all sets without those who are gone, nobody counts as answering."""
        found, least = wish & self.members, in_sync_min(self._settings)
        if len(found) >= least:
            if self._proposal.is_stuck(goal, self.members, now, self._change.is_open):
                found = frozenset((self._mastership.broker_id,))
        elif len(goal) >= least and not self._proposal.is_pressed(now):
            found = self.answering
        if found != self.answering:
            self._answering = found
            self.apply()
            self._answers_changed()

    def _has_all(self, member: int) -> bool:
        """Whether this member is sure to have everything that was answered, if it is elected."""
        if not self._acks.of_whole_set or member in self._with_less or self._is_learner(member):
            return False
        return self._says_losses(member)

    def _note_slaves(self, now: int, confirmed: int) -> None:
        rows = {row[5]: row for row in self._core.ha_connections() if row[5] > 0}
        for broker_id, row in rows.items():
            known = self._slaves.get(broker_id)
            caught_up_ms = known.caught_up_ms if known is not None else self._began_ms
            if row[3] >= self._end:
                caught_up_ms = now
            has_tables = self._copies.has(broker_id, self._counts[0][1])
            lacks_ms = known.lacks_tables_ms if known is not None else None
            self._slaves[broker_id] = Slave(
                broker_id, row[3], caught_up_ms, is_learner=self._is_learner(broker_id),
                has_tables=has_tables,
                lacks_tables_ms=None if has_tables else now if lacks_ms is None else lacks_ms,
            )  # fmt: skip
            if has_less(self._slaves[broker_id], confirmed):
                self._with_less.add(broker_id)
            elif row[3] >= confirmed:
                self._with_less.discard(broker_id)
        for broker_id, known in self._slaves.items():
            if broker_id not in rows and known.closed_ms is None:
                self._slaves[broker_id] = msgspec.structs.replace(known, closed_ms=now)

    def _note_tables(self, now: int) -> None:
        """Logs slaves whose copies of tables fail: otherwise nobody would know why they leave or
        never join."""
        waiting = {
            each.broker_id
            for each in self._slaves.values()
            if not (each.has_tables or each.is_learner)
            and each.closed_ms is None
            and now - each.caught_up_ms <= AT_END_MS
            and (each.broker_id not in self.members or lacks_tables_long(each, now))
        }
        self._waits_since = {each: self._waits_since.get(each, now) for each in waiting}
        late = sorted(
            each for each, since in self._waits_since.items() if now - since >= WITHOUT_TABLES_MS
        )
        problem = (
            f"replicas {late} have the log and are not to be in the sync state set: they have not "
            "copied the tables of topics, groups and offsets; their logs say why"
            if late
            else ""
        )
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem

    def _confirmed(self) -> int:
        """The confirmed offset. If this master is alone in the set, that is its log's end, and the
        end at the last look stands for it. Where a single ack is enough nothing counts as
        confirmed."""
        if not self._acks.of_whole_set:
            return 0
        return self._core.stats()["log_dispatched"] if self.others else self._end

    async def _ask(self, goal: frozenset[int]) -> None:
        change, mastership = self._change, self._mastership
        asked_epoch = change.state.epoch
        change.ask(goal)
        self.apply()
        try:
            info = await self._link.alter_sync_state(
                mastership.broker_id, mastership.epoch, goal, asked_epoch,
                is_new_epoch=change.is_open,
            )  # fmt: skip
        except ControllerError as error:
            now = now_ms()
            if error.code in REFUSALS:
                self._backoff.decided()
                self._proposal.refuse(goal, now)
            elif change.state.epoch > asked_epoch:
                return  # the answer to another question has meanwhile shown a newer set
            elif self._is_same(error.code, goal):
                self._backoff.undecided(goal, now)
                change.same(now)
            else:
                self._backoff.undecided(goal, now)
                change.lost(now)
                self._proposal.lost()
                raise
            if len(goal - self.members) == 1:  # if several were joining, the others may go on
                self._go_on(self._joining.keys() - goal)
            else:
                self._go_on(self._joining.keys())
            raise
        self._said = ""
        self._proposal.taken()
        self.take(info.sync_state)
        self._altered(info)

    def _is_same(self, code: int | None, goal: frozenset[int]) -> bool:
        """Whether the controller's answer (2013) says that the set is already the one that was
        asked for, which may be new to this master."""
        is_said = code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        return is_said and goal == self.members

    def _say(self, text: str) -> None:
        """Logs a text, but not the same one twice in a row."""
        if text != self._said:
            self._said = text
            log.warning("who is in sync cannot be changed: %s; it is tried again and again", text)


def now_ms() -> int:
    return int(clock.monotonic() * 1000)
