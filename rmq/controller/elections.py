"""Elections: one controller's part in deciding, from heartbeats and requests to stored broker sets.

    change()    reads a broker set, has a decision made of it, and stores that
    clean()     the same where the master may be taken off
    elect()     the same for an election, which leases may hold back for a while
    resign()    an election without the present master, who asks for it
    grant()     a lease for a master
    start()     in the background: masters that are silent, or whose connection closed, are replaced

Which of those who may become master is elected says _rank() of decisions.py.

Only the leader decides; on another controller all of it raises NotLeaderError. What an election
needs beside the set is who lives (live_replicas.py) and whose lease runs (leases.py).

    A lease is granted when a read has shown who is master. So all but change() come one after
    another, or a grant could rest on a read from before an election, and that on leases from before
    the grant. change() is of registrations and of who is in sync, and keeps no master waiting for
    its lease where the store takes its time. An election keeps it waiting: it would lose to it.

    A write that failed may be done yet: etcd has it, and its answer is late. If it names another
    master, a read proves nothing as long as it shows the revision that this write compares, or an
    older one; grant() writes then, and one of the two comes to nothing.

Example: the connection of master 1 closes (kill -9). It said that each of its acks needs the whole
sync state set, {1, 2}: so 2 is master at once, as without 2 there is none. Had it not said so, 2
would have to wait for the end of its lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
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
AGAIN_S = 0.05  # beyond the end of a lease

_log = logging.getLogger("rmq.controller.elections")

Decide = Callable[["BrokerSet | None"], Decision]


class Elections:
    """Owned by the event loop of the controller."""

    def __init__(self, store: StateStore, live: LiveReplicas, leases: Leases) -> None:
        self.store = store
        self.live = live
        self.leases = leases
        self.unclean: Callable[[], bool] = lambda: False  # enableElectUncleanMaster
        self.elected: Callable[[BrokerSet], None] = lambda _: None  # hears of each new master
        self._changes = _Locks()
        self._masterships = _Locks()
        # Names whose next master may be stored yet: the revision that the write of it compares.
        self._doubtful: dict[str, int] = {}
        self._is_sweeping = False
        self._held_back: dict[str, asyncio.TimerHandle] = {}
        self._tasks = BackgroundTasks()
        self._stopped = False  # connections that close at a stop are nobody's end

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
        """The decision, which says nothing of who is master, and the set after it. Ours come one
        after another, all others are seen by the revision."""
        async with self._changes.of(name):
            return await self._change(name, decide)

    async def clean(self, name: str, decide: Decide) -> tuple[Decision, BrokerSet | None]:
        """As change(), where the master may be among those who are taken off."""
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
        """The set, and a lease in milliseconds if this is the master of that epoch. Not while an
        election of the set is decided on."""
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
        """The next leader is to know how long the leases of this mastership are."""
        return msgspec.structs.replace(found, lease_ms=max(before_ms, self.leases.lease_ms))

    def living(self, found: BrokerSet | None) -> dict[int, LiveReplica]:
        """Who of the set lives, by id."""
        return self.live.of_set(found.cluster, found.name) if found is not None else {}

    async def elect(self, name: str, asked: Election) -> tuple[Decision, BrokerSet | None]:
        """CONTROLLER_MASTER_STILL_EXIST also while the last master's lease runs: then it is tried
        again when that is over, unless `at_once` was asked for."""

        def decide(found: BrokerSet | None) -> Decision:
            return self._decide(found, asked, self.living(found))

        return await self._elect(name, decide)

    async def resign(self, name: str, master_id: int, master_epoch: int) -> None:
        """This master acknowledges nothing any more: another one is elected, or nobody is master.
        One decision: it may be alive and say so at any time, and is no candidate in this one."""
        asked = Election(NOBODY, unclean=self.unclean())

        def decide(found: BrokerSet | None) -> Decision:
            if found is None or _mastership(found) != (master_id, master_epoch):
                return Decision()  # of a mastership that is over
            self.leases.resign(name, master_epoch)
            self.live.forget((found.cluster, name, master_id))
            living = self.living(found)
            living.pop(master_id, None)
            return self._decide(found, asked, living)

        await self._elect(name, decide)

    def _decide(self, found: BrokerSet | None, asked: Election, living: Live) -> Decision:
        decision = decisions.elect(found, asked, living)
        if found is None or not decision.changes:
            return decision
        decision = self._within_leases(found, asked, decision)
        after = decision.after
        if after is None or after.master_id is None:
            return decision
        # The leases of the mastership before are over, or covered: they matter no more.
        return msgspec.structs.replace(decision, after=self._with_our_leases(after, 0))

    async def _elect(self, name: str, decide: Decide) -> tuple[Decision, BrokerSet | None]:
        async with self._masterships.of(name), self._changes.of(name):
            decision, after = await self._change(name, decide)
        if decision.after is not None and decision.after.master_id is not None:
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
            return decision  # nobody was ever granted one
        is_in_sync = after.master_id in found.sync_state_set
        left_s = self.leases.left_s(found.name, found.master_epoch, is_in_sync, found.lease_ms)
        if left_s == 0.0:
            return decision
        if not asked.at_once:
            if asked.designated:
                self.leases.stop(found.name)  # it lives, and would renew for ever
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
            self.leases.go_on(name)  # the designated one is gone: the present one stays

    # ---- masters that are gone

    def connection_closed(self, connection: object) -> None:
        self._gone(self.live.connection_closed(connection))

    def _gone(self, keys: list[Key]) -> None:
        for cluster, name, broker_id in keys:
            _log.warning("replica %d of broker %s (%s) is gone", broker_id, name, cluster)
            if self.store.is_leader() and not self._stopped:
                self._start(partial(self.replace, name))

    async def replace(self, name: str) -> None:
        """Elects where the master does not live any more."""
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
        """Masters that went while another controller led, or nobody. One at a time: of many names
        it takes its while where the store is slow, and several would slow the store."""
        try:
            for name in await self.store.names():
                try:
                    await self.replace(name)
                except (StateStoreError, StoreCorruptError, BusyError) as error:
                    _log.error("%s", error)  # the others are looked at all the same
        finally:
            self._is_sweeping = False

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            except NotLeaderError:
                pass  # then it is another one's matter
            except (StateStoreError, StoreCorruptError, BusyError, msgspec.MsgspecError) as error:
                _log.error("%s", error)

        self._tasks.start(run())


class _Locks:
    """One of each name. A name that anybody said is kept no longer than it is decided on: who holds
    the lock, or waits for it, keeps it."""

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
    """Who is master, and of which epoch; None: there is no such set."""
    return (found.master_id, found.master_epoch) if found is not None else None
