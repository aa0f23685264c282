"""Sync harness: a master's watch over the sync state set, without a core, slaves or a controller.

    on = Harness()
    on.core.acked = {2: 1000}           # slave 2 has the whole log
    await on.look()
    on.core.others == [2]               # slave 2's acks count now
    on.link.asked == [([1, 2], 7, False)]

The controller here answers as the test says; the core only notes what it is told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import pytest
from support.driven_clock import DrivenClock

from rmq.broker.replication.controller_link import ControllerError, ReplicaInfo
from rmq.broker.replication.role import acks_of_whole_set
from rmq.broker.replication.sync_state import SyncState
from rmq.broker.replication.sync_watch import POLL_S, Mastership, SyncWatch
from rmq.broker.replication.waiting_sends import WaitingSends
from rmq.codes import ResponseCode
from rmq.config import Settings, load_properties


class Core:
    """A log that ends at `end`, and slaves that have it up to `acked`."""

    def __init__(self) -> None:
        self.end = 1000
        self.acked: dict[int, int] = {}
        self.others: list[int] | None = []  # slaves for whose acks an answer waits
        self.dispatched = 0  # what log_dispatched is at least
        self.answered = 1000  # the offset up to which was answered without the newest members
        self.is_short = False  # too few answer: nothing is taken or promised

    def log_range(self) -> tuple[int, int, int]:
        return 0, self.end, self.end

    def stats(self) -> dict[str, int]:
        found = (self.acked.get(each, 0) for each in self.others or ())
        return {"log_dispatched": max(self.dispatched, min(found, default=self.end))}

    def ha_connections(self) -> list[tuple[int, bytes, int, int, int, int]]:
        return [(0, b"", 0, acked, 0, each) for each, acked in self.acked.items()]

    def set_sync_state(self, others: list[int] | None, short: int, wait: int) -> int:
        self.others, self.is_short = others, bool(short)
        return self.answered


class Link:
    """A controller that accepts each change, or fails with the codes in `fails`."""

    def __init__(self) -> None:
        self.state = SyncState(frozenset((1,)), 7)
        self.fails: list[int | None] = []
        self.is_away = False
        self.refused: frozenset[int] = frozenset()  # refuses sets with one of these members
        self.take_time: Callable[[], None] = lambda: None  # called before it answers
        self.asked: list[tuple[list[int], int, bool]] = []

    async def alter_sync_state(
        self, master_id: int, epoch: int, members: frozenset[int], set_epoch: int, *,
        is_new_epoch: bool,
    ) -> ReplicaInfo:  # fmt: skip
        self.asked.append((sorted(members), set_epoch, is_new_epoch))
        self.take_time()
        if self.is_away:
            raise ControllerError(None, "nobody answers")
        if members & self.refused:
            raise ControllerError(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, "it is not alive")
        if self.fails:
            code = self.fails.pop(0)
            raise ControllerError(code, f"the controller answers {code}")
        self.state = SyncState(members, self.state.epoch + 1)
        return ReplicaInfo(1, "h:1", 4, self.state)


class Copies:
    """The slaves' copies of tables that have had `count` changes. `had`: slaves with fewer."""

    def __init__(self) -> None:
        self.count = 7
        self.had: dict[int, int] = {}

    def counts(self) -> dict[str, int]:
        return {"topics": self.count}

    def has(self, slave: int, least: Mapping[str, int]) -> bool:
        return self.had.get(slave, self.count) >= least["topics"]


class Acks:
    """The rule of the settings, which the controller knows."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def of_whole_set(self) -> bool:
        return acks_of_whole_set(self._settings)

    def count(self) -> None: ...


class Harness:
    """A master with id 1, which begins as the only member in sync."""

    def __init__(self, link: Link | None = None, **given: object) -> None:
        self.core, self.link = Core(), link or Link()
        self.copies = Copies()
        self.says_no_losses: frozenset[int] = frozenset()  # for example RocketMQ's slaves
        self.learners: frozenset[int] = frozenset()
        self.settings = load_properties(None, {key: str(value) for key, value in given.items()})
        self.watch = SyncWatch(
            Mastership(1, 4, 0), self.link.state, self.settings,
            self.core, self.link,  # type: ignore[arg-type]
            lambda _: None, lambda each: each in self.learners,
            lambda each: each not in self.says_no_losses, self.copies,
            Acks(self.settings), WaitingSends(), lambda: None,
        )  # fmt: skip

    def learn(self, *members: int, epoch: int = 8) -> None:
        """The controller announces this set."""
        self.link.state = SyncState(frozenset(members), epoch)
        self.watch.take(self.link.state)

    async def look(self) -> None:
        await self.watch._look()

    async def fail(self, code: int | None) -> None:
        """The master looks, asks the controller, and that fails with the code."""
        self.link.fails.append(code)
        with pytest.raises(ControllerError):
            await self.look()

    async def unheard(self, clock: DrivenClock, seconds: float, *ids: int) -> None:
        """For that long the controller takes these brokers for dead; then no longer."""
        self.link.refused = frozenset(ids)
        await self.passing(clock, seconds)
        self.link.refused = frozenset()

    async def away(self, clock: DrivenClock, seconds: float) -> None:
        """For that long the controller does not answer; then it does again."""
        self.link.is_away = True
        await self.passing(clock, seconds)
        self.link.is_away = False

    def sets_asked(self) -> list[list[int]]:
        return [members for members, _, _ in self.link.asked]

    async def passing(self, clock: DrivenClock, seconds: float) -> None:
        for _ in range(round(seconds / POLL_S)):
            clock.advance(POLL_S)
            with contextlib.suppress(ControllerError):
                await self.look()


ONE = {"minInSyncReplicas": 1}
THREE = {"minInSyncReplicas": 3, "enableControllerMode": True, "controllerAddr": "127.0.0.1:9878"}


async def in_sync(clock: DrivenClock, *others: int, **given: object) -> Harness:
    """A harness whose set is 1 and these others, which all have the whole log."""
    on = Harness(**given)
    on.learn(1, *others)
    on.core.acked = dict.fromkeys(others, 1000)
    await on.passing(clock, 0.3)
    return on
