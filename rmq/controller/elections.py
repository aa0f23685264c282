"""Elections: makes decisions from heartbeats, leases and requests, and stores the broker sets.

    change()    reads a broker set, gets a decision about it, and stores the result
    clean()     the same where the master may be removed
    elect()     the same for an election, which leases may hold back for a while
    resign()    an election without the present master, which asks for it
    grant()     grants a lease to a master
    start()     in the background, replaces masters that are silent or whose connection closed

_rank() of decisions.py says which of the candidates is elected.

Only the leader decides; on another controller all calls raise NotLeaderError. Besides the stored
set, an election needs to know who lives (live_replicas.py) and whose lease runs (leases.py).

    A lease is granted when a read has shown who is master. So all calls but change() run one after
    another; otherwise a grant could rest on a read from before an election, and that election on
    leases from before the grant. change() is for registrations and for who is in sync, and does not
    make a master wait for its lease while the store is slow. An election does make it wait, because
    one of the two would fail.

    A write that failed may still take effect: etcd has it, and its answer is late. If it names
    another master, a read proves nothing as long as it shows the revision that this write compares,
    or an older one. Then grant() writes, too, and one of the two writes fails.

Example: the connection of master 1 closes (kill -9). Master 1 had said that each of its acks needs
the whole sync state set, {1, 2}: so 2 becomes master at once, because 1 cannot acknowledge without
2. Had it not said so, 2 would have to wait for the end of 1's lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from rmq.base import clock
from rmq.base.background_tasks import BackgroundTasks
from rmq.codes import ResponseCode
from rmq.controller import decisions
from rmq.controller.broker_set import BrokerSet
from rmq.controller.decisions import NOBODY, Decision, Election, Live
from rmq.controller.leases import Leases
from rmq.controller.live_replicas import Key, LiveReplica, LiveReplicas
from rmq.controller.state_store import NotLeaderError, StateStore, StateStoreError
from rmq.errors import BusyError, StoreCorruptError

ATTEMPTS = 5
SCAN_S = 0.5
SWEEP_S = 5.0
CHANGED = "broker {} is changed by others all the time; try again"
AGAIN_S = 0.05  # after the end of a lease, until the election is tried again

_log = logging.getLogger("rmq.controller.elections")

Decide = Callable[["BrokerSet | None"], Decision]


class _Wait(NamedTuple):
    """Members in doubt wait for those that are away."""

    since_s: float  # clock.monotonic()
    leadership: int  # as Leases counts them
    away: frozenset[int]


class Elections:
    """Owned by the event loop of the controller."""

    def __init__(self, store: StateStore, live: LiveReplicas, leases: Leases) -> None:
        self.store = store
        self.live = live
        self.leases = leases
        self.unclean: Callable[[], bool] = lambda: False  # enableElectUncleanMaster
        self.elected: Callable[[BrokerSet], None] = lambda _: None  # called for each new master
        self._changes = _Locks()
        self._masterships = _Locks()
        # Names for which a failed write may still store another master -> revision it compares.
        self._doubtful: dict[str, int] = {}
        self._is_sweeping = False
        self._waiting: dict[str, _Wait] = {}  # by broker name
        self._held_back: dict[str, asyncio.TimerHandle] = {}
        self._tasks = BackgroundTasks()
        self._stopped = False  # connections that close because of a stop do not count as deaths

    def start(self) -> None:
        self._tasks.start(self._watch())

    def stop(self) -> None:
        self._stopped = True
        self._tasks.cancel()
        for timer in self._held_back.values():
            timer.cancel()
        self._held_back.clear()

    # ---- decisions

    async def change(self, name: str, decide: Decide) -> tuple[Decision, BrokerSet | None]:
        """Makes and stores a decision that does not concern who is master; returns it and the set
        after it. Changes of this controller come one after another; those of others are noticed by
        the revision."""
        async with self._changes.of(name):
            return await self._change(name, decide)

    async def clean(self, name: str, decide: Decide) -> tuple[Decision, BrokerSet | None]:
        """Like change(), where the master may be among the replicas that are removed."""
        async with self._masterships.of(name), self._changes.of(name):
            return await self._change(name, decide)

    async def _change(self, name: str, decide: Decide) -> tuple[Decision, BrokerSet | None]:
        for _ in range(ATTEMPTS):
            found, revision = await self.store.read(name)
            decision = decide(found)
            if not decision.changes:
                return decision, found
            if await self._write(name, found, decision.after, revision):
                return decision, decision.after
        raise BusyError(CHANGED.format(name))

    async def _write(
        self, name: str, found: BrokerSet | None, after: BrokerSet | None, revision: int
    ) -> bool:
        try:
            return await self.store.write(name, after, revision)
        except BaseException:
            if found is not None and _mastership(after) != _mastership(found):
                self._doubtful[name] = max(revision, self._doubtful.get(name, revision))
            raise

    async def grant(
        self, name: str, master_id: int, epoch: int, covered: bool
    ) -> tuple[BrokerSet | None, int | None]:
        """(the set, the lease in milliseconds if this is the master of that epoch). It waits while
        an election of the set is being decided."""
        async with self._masterships.of(name):
            for _ in range(ATTEMPTS):
                found, revision = await self.store.read(name)
                if found is None or _mastership(found) != (master_id, epoch):
                    return found, None
                after = self._with_our_leases(found, found.lease_ms)
                is_doubtful = revision <= self._doubtful.get(name, revision - 1)
                is_settled = after == found and not is_doubtful
                if is_settled or await self._write(name, found, after, revision):
                    self._doubtful.pop(name, None)
                    granted_ms = self.leases.grant(name, epoch, covered, after.lease_ms)
                    return after, granted_ms or None
        raise BusyError(CHANGED.format(name))

    def _with_our_leases(self, found: BrokerSet, before_ms: int) -> BrokerSet:
        """The set with the length of the leases, which the next leader must know."""
        return msgspec.structs.replace(found, lease_ms=max(before_ms, self.leases.lease_ms))

    def living(self, found: BrokerSet | None) -> dict[int, LiveReplica]:
        """The replicas of the set that live, by id."""
        return self.live.of_set(found.cluster, found.name) if found is not None else {}

    async def elect(self, name: str, asked: Election) -> tuple[Decision, BrokerSet | None]:
        """Holds an election. CONTROLLER_MASTER_STILL_EXIST also while the last master's lease runs:
        then the election is tried again when that is over, unless `at_once` was asked for."""

        def decide(found: BrokerSet | None) -> Decision:
            return self._decide(found, asked, self.living(found))

        return await self._elect(name, decide)

    async def resign(self, name: str, master_id: int, master_epoch: int) -> None:
        """Elects another master, or nobody, because this one acknowledges nothing any more. It is
        one decision, in which this master is no candidate although it may live and send
        heartbeats."""
        asked = Election(NOBODY, unclean=self.unclean())

        def decide(found: BrokerSet | None) -> Decision:
            if found is None or _mastership(found) != (master_id, master_epoch):
                return Decision()  # that mastership is already over
            self.leases.resign(name, master_epoch)
            self.live.forget((found.cluster, name, master_id))
            living = self.living(found)
            living.pop(master_id, None)
            return self._decide(found, asked, living)

        await self._elect(name, decide)

    def _decide(self, found: BrokerSet | None, asked: Election, living: Live) -> Decision:
        asked = msgspec.structs.replace(asked, has_waited=self._have_waited(found, living))
        decision = decisions.elect(found, asked, living)
        if found is None or not decision.changes:
            return decision
        decision = self._within_leases(found, asked, decision)
        after = decision.after
        if after is None or after.master_id is None:
            return decision
        # Leases of the last mastership are over, or covered, so they need not be remembered.
        return msgspec.structs.replace(decision, after=self._with_our_leases(after, 0))

    def _have_waited(self, found: BrokerSet | None, living: Live) -> bool:
        """Whether members in doubt have waited for long enough. They ask again and again. The wait
        begins anew when one more member goes away, which may be back soon, and with each
        leadership: only who leads notices whether somebody was back meanwhile."""
        if found is None:
            return False
        if not decisions.is_waiting(found, living):
            if decisions.electable(found, living):
                self._waiting.pop(found.name, None)
            return False
        now, away = clock.monotonic(), found.sync_state_set.difference(living)
        wait = self._waiting.get(found.name)
        if wait is None or wait.leadership != self.leases.leadership or not away <= wait.away:
            wait = _Wait(now, self.leases.leadership, away)
        self._waiting[found.name] = wait._replace(away=away)
        return now - wait.since_s >= decisions.DOUBT_S

    async def _elect(self, name: str, decide: Decide) -> tuple[Decision, BrokerSet | None]:
        async with self._masterships.of(name), self._changes.of(name):
            decision, after = await self._change(name, decide)
        if decision.after is not None and decision.after.master_id is not None:
            self._waiting.pop(name, None)
            self.leases.go_on(name)
            _log.info("broker %s: master %d of epoch %d", name, decision.after.master_id,
                      decision.after.master_epoch)  # fmt: skip
            self.elected(decision.after)
        elif decision.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE:
            _log.warning("%s", decision.remark)
        return decision, after

    def _within_leases(self, found: BrokerSet, asked: Election, decision: Decision) -> Decision:
        after = decision.after
        if found.master_epoch == 0 or after is None:
            return decision  # no lease was ever granted
        is_in_sync = after.master_id in found.sync_state_set
        left_s = self.leases.left_s(found.name, found.master_epoch, is_in_sync, found.lease_ms)
        if left_s == 0.0:
            return decision
        if not asked.at_once:
            if asked.designated:
                self.leases.stop(found.name)  # the present master lives and would renew for ever
            self._try_again(found.name, asked, left_s + AGAIN_S)
        return Decision(
            ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
            f"the lease of master {found.master_id} of {found.name} may run for "
            f"{left_s * 1000:.0f} ms more",
        )

    def _try_again(self, name: str, asked: Election, after_s: float) -> None:
        def begin() -> None:
            self._held_back.pop(name, None)
            self._start(partial(self._elect_again, name, asked))

        if (before := self._held_back.pop(name, None)) is not None:
            before.cancel()
        self._held_back[name] = asyncio.get_running_loop().call_later(after_s, begin)

    async def _elect_again(self, name: str, asked: Election) -> None:
        try:
            decision, _ = await self.elect(name, asked)
        except BaseException:
            self.leases.go_on(name)
            raise
        if not decision.changes and name not in self._held_back:
            self.leases.go_on(name)  # the designated replica is gone: the present master stays

    # ---- masters that are gone

    def connection_closed(self, connection: object) -> None:
        self._gone(self.live.connection_closed(connection))

    def _gone(self, keys: list[Key]) -> None:
        for cluster, name, broker_id in keys:
            _log.warning("replica %d of broker %s (%s) is gone", broker_id, name, cluster)
            if self.store.is_leader() and not self._stopped:
                self._start(partial(self.replace, name))

    async def replace(self, name: str) -> None:
        """Holds an election if the master does not live any more."""
        found, _ = await self.store.read(name)
        if found is None or found.master_id is None:
            return
        if not self.live.is_alive((found.cluster, name, found.master_id)):
            await self.elect(name, Election(NOBODY, unclean=self.unclean()))

    async def _watch(self) -> None:
        swept_s = clock.monotonic()
        while True:
            await asyncio.sleep(SCAN_S)
            self._gone(self.live.expire())
            is_due = clock.monotonic() - swept_s >= SWEEP_S
            if is_due and self.store.is_leader() and not self._is_sweeping:
                swept_s = clock.monotonic()
                self._is_sweeping = True
                self._start(self._sweep)

    async def _sweep(self) -> None:
        """Replaces masters that went while another controller led, or none. One sweep at a time:
        with many names and a slow store it takes a while, and several would slow the store."""
        try:
            for name in await self.store.names():
                try:
                    await self.replace(name)
                except (StateStoreError, StoreCorruptError, BusyError) as error:
                    _log.error("%s", error)  # the other names are nevertheless looked at
        finally:
            self._is_sweeping = False

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            except NotLeaderError:
                pass  # another controller leads and will do it
            except (StateStoreError, StoreCorruptError, BusyError, msgspec.MsgspecError) as error:
                _log.error("%s", error)

        self._tasks.start(run())


class _Locks:
    """A lock for each name. It exists only while somebody holds it or waits for it, because names
    may come from anybody."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock


def _mastership(found: BrokerSet | None) -> tuple[int | None, int] | None:
    """(who is master, master epoch); None: there is no such set."""
    return (found.master_id, found.master_epoch) if found is not None else None
