"""Role harness: replicas led by a real controller with the file store, on a driven clock.

    @on_harness
    async def test_x(on: Harness) -> None:
        one, two = await on.two_in_sync()
        await on.die(one)
        await on.until(two, "lead", 2, [2])

The actions of a broker's role are noted and not done: a broker here has neither log nor streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from support.controllers import controller, seen
from support.driven_clock import DrivenClock
from support.name_server import in_loop

from rmq.base import clock as rmq_clock
from rmq.broker.replication.controlled_role import ControlledRole
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.controller_heartbeats import ControllerHeartbeats, ReplicaState
from rmq.broker.replication.controller_link import ControllerLink
from rmq.broker.replication.identity import IdentityFiles, identity_path
from rmq.broker.replication.sync_state import SyncState
from rmq.config import load_properties
from rmq.demo.ports import free_port


class Broker:
    """A replica without a log. It notes its actions, and those named in `fails` fail."""

    def __init__(self, folder: Path, controllers: str, port: int, **replica_state: int) -> None:
        texts = {
            "brokerClusterName": "c",
            "brokerName": "broker-a",
            "controllerAddr": controllers,
            "storePathRootDir": str(folder),
        }
        settings = load_properties(None, texts)
        addresses = ControllerAddresses(controllers)
        self.address = f"127.0.0.1:{port}"
        self.epoch = replica_state.get("epoch", -1)
        self.end = replica_state.get("end", 0)
        self.newest = replica_state.get("newest", self.epoch)
        self.is_covered = True
        self.has_lost_end = False
        self.is_poisoned = False
        self.standing_s = 0  # for so many seconds its reactor has been stuck
        self.can_copy = True  # the master that it follows is alive
        self.done: list[tuple[object, ...]] = []
        self.leases: list[int] = []
        self.fails: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = 0
        self.addresses = addresses
        self.role = ControlledRole(
            ControllerLink(addresses, "c", "broker-a"),
            ControllerHeartbeats(addresses, settings, self.address, self.replica_state),
            IdentityFiles(identity_path(settings), "c", "broker-a"),
            self.address,
            self.replica_state,
            self,
        )

    def replica_state(self) -> ReplicaState:
        newest = max(self.newest, self.epoch)
        if "replica_state" in self.fails:
            raise OSError("the disk is gone")
        return ReplicaState(
            self.epoch, self.end, self.end, self.is_covered, newest, self.has_lost_end,
            is_poisoned=self.is_poisoned, standing_s=self.standing_s,
        )  # fmt: skip

    @property
    def last(self) -> tuple[object, ...]:
        return self.done[-1] if self.done else ()

    async def _do(self, *what: object) -> None:
        assert self.running == 0, "one at a time"
        self.running += 1
        try:
            await self.gate.wait()
            if what[0] in self.fails:
                raise OSError("the disk is full")
            self.done.append(what)
        finally:
            self.running -= 1

    # ---- RoleActions

    async def lead(self, epoch: int, sync_state: SyncState) -> None:
        await self._do("lead", epoch, sorted(sync_state.members))
        self.epoch = epoch
        self.role.beat()

    async def follow(self, master_id: int, master_address: str, epoch: int) -> None:
        await self._do("follow", master_id, master_address, epoch)
        if self.can_copy:
            self.epoch = epoch
            self.role.beat()

    async def wait_without_master(self, epoch: int) -> None:
        await self._do("wait", epoch)

    async def sync_state_changed(self, sync_state: SyncState) -> None:
        await self._do("in sync", sorted(sync_state.members))

    async def lease(self, until_ms: int) -> None:
        assert self.running == 0
        self.leases.append(until_ms)

    async def retired(self, epoch: int) -> None:
        await self._do("retired", epoch)

    async def fenced(self) -> None:
        await self._do("fenced")

    # ---- what a broker does beside its role

    async def alter(self, *members: int) -> None:
        known = self.role.known
        assert known is not None and known.master_id is not None
        link = ControllerLink(self.addresses, "c", "broker-a")  # the sync watch has its own, too
        try:
            info = await link.alter_sync_state(
                known.master_id, known.master_epoch, frozenset(members), known.sync_state.epoch
            )
        finally:
            link.close()
        self.role.altered(info)

    async def die(self) -> None:
        """Ends like kill -9: the connections close, and the controller is not told."""
        if self.role._task is not None:
            self.role._task.cancel()
        if self.role.changes is not None and self.role.changes._task is not None:
            self.role.changes._task.cancel()
        await self.role._heartbeats.stop()
        self.role.link.close()

    def lease_left_ms(self) -> int:
        return self.leases[-1] - int(rmq_clock.boot() * 1000)


class Harness:
    """The brokers of one broker name. Those that run are stopped at the end."""

    def __init__(self, folder: Path, clock: DrivenClock, controllers: str) -> None:
        self.folder = folder
        self.clock = clock
        self.controllers = controllers
        self.running: list[Broker] = []
        self.is_waiting: Callable[[], bool] = lambda: False  # for a thing that no test clock drives

    def start(self, number: int, **replica_state: int) -> Broker:
        made = Broker(self.folder / str(number), self.controllers, 20000 + number, **replica_state)
        made.role.start()
        self.running.append(made)
        return made

    async def die(self, broker: Broker) -> None:
        self.running.remove(broker)
        await broker.die()

    async def until(self, broker: Broker, *what: object) -> None:
        """Lets time pass until this is the broker's last action."""
        await self.passing(lambda: broker.last == what)

    async def passing(self, condition: object) -> None:
        """Lets time pass until the condition holds; it stands still while a file is written."""

        async def look() -> object:
            await asyncio.to_thread(int)  # waits for earlier work of the only thread
            if not self.is_waiting():
                self.clock.advance(0.02)
            return condition()  # type: ignore[operator]

        await seen(look)

    async def in_sync(self, master: Broker, *members: int) -> None:
        altering = asyncio.ensure_future(master.alter(*members))
        await self.passing(altering.done)
        await altering
        await self.until(master, "in sync", list(members))

    async def two_in_sync(self) -> tuple[Broker, Broker]:
        """Starts two brokers: 1 leads epoch 1, and 2 follows it and is in sync."""
        one = self.start(1)
        await self.until(one, "lead", 1, [1])
        two = self.start(2)
        await self.until(two, "follow", 1, one.address, 1)
        await self.in_sync(one, 1, 2)
        return one, two


@asynccontextmanager
async def harness(clock: DrivenClock, folder: Path) -> AsyncIterator[Harness]:
    """A controller on a fixed port, which no longer waits for leases of an earlier leader."""
    port = free_port()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    made = Harness(folder, clock, f"127.0.0.1:{port}")
    async with controller(folder, listenPort=port):
        clock.advance(5.3)
        try:
            yield made
        finally:
            await asyncio.gather(*(each.role.stop() for each in made.running))


def on_harness(test: Callable[[Harness], Awaitable[None]]) -> Callable[[DrivenClock, Path], None]:
    """Gives the test a Harness."""

    @in_loop
    async def run(clock: DrivenClock, tmp_path: Path) -> None:
        async with harness(clock, tmp_path) as on:
            await test(on)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
