"""Role changes: what the controller decided is done here, one thing after the other.

    changes.learn(info)     what the controller says; only what is newer counts
    changes.run()           does it, by RoleActions, until this replica is what it is to be

An action that fails is tried again, and said once; what was learned meanwhile counts then. So none
waits without end: it fails instead, as where a full disk keeps a core from its new role. Leases
are kept here too: of each one that is granted the actions are told, and before the last one ends
they are fenced.

Example: learn(master 2 of epoch 5) at replica 2: lead(5, {2}), then lease(until); a second later
lease(until) again. The controller is silent: fenced(), half a second before a lease of 5 s ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from rmq.base import clock
from rmq.base.deadline import within
from rmq.broker.replication.controller_link import ReplicaInfo
from rmq.broker.replication.sync_state import SyncState

RETRY_S = 0.5
STOP_S = 5.0
FENCE_SHARE = 0.1  # of a lease, before its end

log = logging.getLogger("rmq.broker.role_changes")


class RoleActions(Protocol):
    """What a change of role is, at the broker. None of these runs while another one does. They
    return when it is done, and do not wait for other brokers; any exception has them called again.
    """

    async def lead(self, epoch: int, sync_state: SyncState) -> None:
        """It is master of this epoch. If RoleChanges.is_leased it acknowledges nothing before
        lease(); at a controller that grants none that is never called."""

    async def follow(self, master_id: int, master_address: str, epoch: int) -> None:
        """Another one is, at this address: the log comes from there."""

    async def wait_without_master(self, epoch: int) -> None:
        """Nobody is: it takes nothing, and serves what is confirmed."""

    async def sync_state_changed(self, sync_state: SyncState) -> None:
        """As master: these are in sync from now on."""

    async def lease(self, until_ms: int) -> None:
        """As master: it may acknowledge until then, in milliseconds of the monotonic clock; again
        after fenced(), too."""

    async def fenced(self) -> None:
        """As master: it acknowledges nothing until lease(), or it leads anew; other than when a
        lease ends, also at the end of this replica."""

    async def retired(self, epoch: int) -> None:
        """It is nothing any more until it is started again: its log takes nothing."""


class _Role(NamedTuple):
    kind: str  # "lead" | "follow" | "wait"
    epoch: int
    address: str = ""  # of whom it follows


class RoleChanges:
    """Owned by one event loop."""

    def __init__(self, actions: RoleActions, broker_id: int) -> None:
        self.known: ReplicaInfo | None = None
        self.is_leased = False  # the controller grants leases
        self._actions = actions
        self._id = broker_id
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stops = False
        self.problem = ""  # why the last action failed; empty: it did not
        # what was done
        self._role: _Role | None = None
        self._sync_state = SyncState()
        self._given_ms = 0  # the end of the lease that the actions know
        self._is_fenced = False
        # the newest lease of the mastership that is known
        self._until_ms = 0
        self._length_ms = 0

    @property
    def is_master(self) -> bool:
        """As the controller says; it may not lead yet."""
        return self.known is not None and self.known.master_id == self._id

    @property
    def is_done(self) -> bool:
        """Whether it is what it is to be."""
        return self.known is not None and self._role == self._target(self.known)

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> bool:
        """Ends after the action that runs; whether this replica was master and is fenced now."""
        self._stops = True
        self._wake.set()
        if (task := self._task) is not None:
            await asyncio.wait((task,), timeout=STOP_S)
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        leads = self._role is not None and self._role.kind == "lead"
        if not self.is_master and not leads:
            return False
        try:
            await self._actions.fenced()
        except Exception as error:
            log.error("it stays master until its lease ends: fenced: %r", error)
            return False
        return True

    def learn(self, info: ReplicaInfo) -> bool:
        """What the controller says; whether it is of no older epoch than what is known. An older
        sync state set is overlooked, and the lease that comes with it counts."""
        before = self.known
        if before is not None and info.master_epoch < before.master_epoch:
            return False
        if before is None or _age(info) > _age(before) or self._has_moved(info, before):
            if before is None or info.master_epoch > before.master_epoch:
                self._until_ms = 0
            self.known = info
            self._wake.set()
        if info.lease_ms is not None:
            self.is_leased = True
            if info.lease_ms > 0 and info.master_id == self._id:
                self._length_ms = info.lease_ms
                self._until_ms = max(self._until_ms, info.lease_until_ms)
                self._wake.set()
        return True

    def _has_moved(self, info: ReplicaInfo, before: ReplicaInfo) -> bool:
        """The same master, at another address."""
        is_same = _age(info) == _age(before) and info.master_id not in (None, self._id)
        return is_same and info.master_address != before.master_address

    async def _run(self) -> None:
        while not self._stops:
            self._wake.clear()
            step = self._next()
            if step is None:
                await self._wait(self._fence_in_s())
                continue
            what, action = step
            try:
                await action
                self.problem = ""
            except Exception as error:  # whatever it is, the role is what the controller says
                if (text := f"{what}: {error!r}") != self.problem:
                    self.problem = text
                    log.error("%s; it is tried again and again", text)
                await self._wait(RETRY_S)

    async def _wait(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            await self._wake.wait()
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._wake.wait(), timeout_s)

    def _next(self) -> tuple[str, Awaitable[None]] | None:
        """What is to be done first."""
        known = self.known
        if known is None:
            return None
        role = self._target(known)
        if self._role != role:
            return f"{role.kind} in epoch {role.epoch}", self._change(role, known)
        if role.kind != "lead":
            return None
        in_s = self._fence_in_s()
        if in_s is not None and in_s <= 0:
            return "fenced", self._fence()
        if self._until_ms > self._given_ms:
            return "lease", self._lease(self._until_ms)
        if known.sync_state != self._sync_state:
            return "sync state set", self._alter(known.sync_state)
        return None

    def _target(self, known: ReplicaInfo) -> _Role:
        if known.master_id is None:
            return _Role("wait", known.master_epoch)
        if known.master_id == self._id:
            return _Role("lead", known.master_epoch)
        return _Role("follow", known.master_epoch, known.master_address)

    def _fence_in_s(self) -> float | None:
        """Until when it may go on; None: for ever, or it does not."""
        if self._role is None or self._role.kind != "lead" or not self.is_leased:
            return None
        if self._is_fenced and self._until_ms <= self._given_ms:
            return None
        ends_ms = self._until_ms - self._length_ms * FENCE_SHARE
        in_s = ends_ms / 1000 - clock.monotonic()
        return None if self._is_fenced and in_s <= 0 else in_s

    # ---- the actions, and what they make of us

    async def _change(self, role: _Role, known: ReplicaInfo) -> None:
        if role.kind == "lead":
            await self._actions.lead(role.epoch, known.sync_state)
        elif known.master_id is not None:
            await self._actions.follow(known.master_id, known.master_address, role.epoch)
        else:
            await self._actions.wait_without_master(role.epoch)
        self._role, self._sync_state = role, known.sync_state
        self._given_ms, self._is_fenced = 0, False

    async def _lease(self, until_ms: int) -> None:
        await self._actions.lease(until_ms)
        self._given_ms, self._is_fenced = until_ms, False

    async def _fence(self) -> None:
        await self._actions.fenced()
        self._is_fenced = True
        log.warning("the lease ends: nothing is acknowledged until the controller renews it")

    async def _alter(self, sync_state: SyncState) -> None:
        await self._actions.sync_state_changed(sync_state)
        self._sync_state = sync_state


def _age(info: ReplicaInfo) -> tuple[int, int]:
    return info.master_epoch, info.sync_state.epoch
