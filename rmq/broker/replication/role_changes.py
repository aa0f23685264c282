"""Role changes: carries out what the controller decided, one action after the other.

    changes.learn(info)     takes what the controller says; only newer information counts
    changes.run()           acts on it, by RoleActions, until this replica has its role

An action that fails is logged once and tried again, with what was learned meanwhile. So an action
must not wait without end but must fail, for example when a full disk keeps the core from its new
role. Leases are handled here too: RoleActions.lease() is called for each lease that is granted, and
RoleActions.fenced() before the last one ends.

Example: learn(master 2 of epoch 5) at replica 2: lead(5, {2}), then lease(until); a second later
lease(until) again. When the controller is silent: fenced(), half a second before a lease of 5 s
ends.
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
FENCE_SHARE = 0.1  # the share of a lease that is left when the master is fenced

log = logging.getLogger("rmq.broker.role_changes")


class RoleActions(Protocol):
    """What the broker does when its role changes. Only one of these runs at a time. Each returns
    when it is done, and does not wait for other brokers; after any exception it is called again.
    """

    async def lead(self, epoch: int, sync_state: SyncState) -> None:
        """Makes this broker master of the epoch. If RoleChanges.is_leased, it acknowledges nothing
        before lease(); a controller without leases never causes a call of lease()."""

    async def follow(self, master_id: int, master_address: str, epoch: int) -> None:
        """Makes it a slave of the master at this address, from which the log comes."""

    async def wait_without_master(self, epoch: int) -> None:
        """Nobody is master: this broker takes nothing, and serves what is confirmed."""

    async def sync_state_changed(self, sync_state: SyncState) -> None:
        """As master: these replicas are in sync from now on."""

    async def lease(self, until_ms: int) -> None:
        """As master: it may acknowledge until then, in milliseconds of clock.boot(), even after
        fenced()."""

    async def fenced(self) -> None:
        """As master: it must acknowledge nothing until lease() or until it leads anew. Called when
        a lease ends, and when this replica stops."""

    async def retired(self, epoch: int) -> None:
        """It has no role any more until it is started again: its log takes nothing."""


class _Role(NamedTuple):
    kind: str  # "lead" | "follow" | "wait"
    epoch: int
    address: str = ""  # of the master that it follows


class RoleChanges:
    """Owned by one event loop."""

    def __init__(self, actions: RoleActions, broker_id: int) -> None:
        self.known: ReplicaInfo | None = None
        self.is_leased = False  # the controller grants leases
        # Whether the controller may hold a lease by which acks need the whole sync state set.
        self.is_covered = True
        self._actions = actions
        self._id = broker_id
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stops = False
        self.problem = ""  # why the last action failed; empty: it did not
        # What was done so far.
        self._role: _Role | None = None
        self._sync_state = SyncState()
        self._given_ms = 0  # the end of the lease that the actions were told
        self._is_fenced = False
        # The newest lease of the mastership that is known.
        self._until_ms = 0
        self._length_ms = 0

    @property
    def is_master(self) -> bool:
        """Whether the controller says that this broker is master; it may not lead yet."""
        return self.known is not None and self.known.master_id == self._id

    @property
    def is_done(self) -> bool:
        """Whether this broker has the role that the controller has decided."""
        return self.known is not None and self._role == self._target(self.known)

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> bool:
        """Ends after the action that runs now; returns whether this replica was master and is
        fenced."""
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
        """Takes what the controller says; returns whether its epoch is not older than the known
        one. An older sync state set is ignored, but the lease that comes with it counts."""
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
        """Whether it is the same master at another address."""
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
            except Exception as error:  # after any error the role must be what the controller says
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
        """The action that must be done first, with its name; None: there is none."""
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
        """In how many seconds it must be fenced; None: never, or it does not lead."""
        if self._role is None or self._role.kind != "lead" or not self.is_leased:
            return None
        if self._is_fenced and self._until_ms <= self._given_ms:
            return None
        ends_ms = self._until_ms - self._length_ms * FENCE_SHARE
        in_s = ends_ms / 1000 - clock.boot()
        return None if self._is_fenced and in_s <= 0 else in_s

    # ---- the actions, and the state after them

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
