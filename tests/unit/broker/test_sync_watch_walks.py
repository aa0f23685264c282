"""The master's watch of the replicas in sync, with a controller that decides as rmq's or as
RocketMQ's does, whatever happens to replicas, connections and answers.

Goal: at no moment is an answer given without a replica that the controller may elect. A set that is
too small for answers never takes the place of a larger one. When it is calm again, no replica that
is gone is waited for, and all living ones are in sync if they are enough. Method: random walks with
a driven clock; the decisions are the controller's own (rmq/controller/decisions.py). Not shown
here: what a slave's log really has (tests/ha).
"""

from __future__ import annotations

from random import Random

import pytest
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.sync_harness import THREE, Harness, Link
from support.volume import seeds, volume

from rmq.broker.replication.controller_link import ControllerError, ReplicaInfo
from rmq.broker.replication.sync_state import LOST_MS, SyncState
from rmq.broker.replication.sync_watch import POLL_S
from rmq.codes import ResponseCode
from rmq.controller.broker_set import BrokerSet, Replica
from rmq.controller.decisions import Alteration, alter_sync_state_set
from rmq.controller.live_replicas import LiveReplica

pytestmark = pytest.mark.still_clock

MASTER = 1
HEARD = LiveReplica("h")
STORM_STEPS, CALM_STEPS = 300, 200
SAME = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED


class Controller(Link):
    """A controller that hears of the replicas in `alive`. Some questions to it, or its answers, are
    lost, or it decides later."""

    def __init__(
        self, clock: DrivenClock, maker: Random, count: int, members: set[int], is_apache: bool
    ) -> None:
        super().__init__()
        ids = range(MASTER, count + 1)
        self.clock, self.maker, self.is_apache = clock, maker, is_apache
        self.alive, self.is_up, self.losses = set(ids), True, 0.0
        self.least = 1  # minInSyncReplicas
        self.answers_after_s = maker.choice((0.0, 0.02, 0.1, 0.3))
        self._found = BrokerSet(
            "c", "n", {each: Replica("h", "x") for each in ids}, count + 1, MASTER, 4,
            frozenset(members), 8,
        )  # fmt: skip
        self._late: list[tuple[float, Alteration]] = []

    @property
    def members(self) -> frozenset[int]:
        return self._found.sync_state_set

    @property
    def present(self) -> SyncState:
        return SyncState(self.members, self._found.sync_state_set_epoch)

    async def alter_sync_state(
        self, master_id: int, epoch: int, members: frozenset[int], set_epoch: int, *,
        is_new_epoch: bool,
    ) -> ReplicaInfo:  # fmt: skip
        is_new_epoch &= not self.is_apache
        asked = Alteration(master_id, epoch, members, set_epoch, is_new_epoch)
        self.clock.advance(self.answers_after_s)
        if not self.is_up:
            raise ControllerError(None, "nobody answers")
        if self.maker.random() < self.losses:
            self._lose(asked)
            raise ControllerError(self.maker.choice((None, None, 1)), "the answer is lost")
        code = self._decide(asked)
        if code != ResponseCode.SUCCESS:
            raise ControllerError(code, "no")
        return ReplicaInfo(MASTER, "h:1", 4, self.present)

    def _lose(self, asked: Alteration) -> None:
        what = self.maker.randrange(3)
        if what == 1:
            self._decide(asked)
        elif what == 2:
            self._late.append((self.clock.monotonic() + self.maker.uniform(0, 20), asked))

    def decide_late(self) -> None:
        now = self.clock.monotonic()
        due = [asked for until, asked in self._late if until <= now]
        self._late = [each for each in self._late if each[0] > now]
        for asked in due:
            self._decide(asked)

    def _decide(self, asked: Alteration) -> ResponseCode:
        if self.is_apache and asked.wanted == self.members:
            return SAME
        found = alter_sync_state_set(self._found, asked, dict.fromkeys(self.alive, HEARD))
        if found.after is not None:
            least = min(self.least, len(self.members))
            assert self.is_apache or len(asked.wanted) >= least, "it locks others out"
            self._found = found.after
        return found.code


class Walk:
    def __init__(self, clock: DrivenClock, seed: int, least: int, is_apache: bool) -> None:
        self.clock, self.maker = clock, Random(seed)
        self.slaves = range(MASTER + 1, MASTER + self.maker.choice((2, 3, 4, 5)))
        members = {MASTER, *(each for each in self.slaves if self.maker.random() < 0.6)}
        self.controller = Controller(clock, self.maker, len(self.slaves) + 1, members, is_apache)
        self.least = self.controller.least = least
        self.on = Harness(self.controller, **{**THREE, "minInSyncReplicas": least})
        self.on.says_no_losses = frozenset(self.slaves if is_apache else ())
        self.on.watch.take(self.controller.present)
        self.on.watch.apply()
        self.connected = set(self.slaves)

    def happen(self) -> None:
        """Perhaps lets something happen: a connection, a heartbeat, the controller or answers come
        or go."""
        maker, controller = self.maker, self.controller
        if maker.random() < 0.06:
            self.connected ^= {maker.choice(self.slaves)}
        if maker.random() < 0.05:
            controller.alive ^= {maker.choice((MASTER, *self.slaves))}
        if maker.random() < 0.02:
            controller.is_up = not controller.is_up
        if maker.random() < 0.05:
            controller.losses = maker.choice((0, 0, 0.2, 0.6))

    def calm_down(self) -> None:
        """Brings the controller back. It hears of the master and of all that are connected, and
        loses nothing."""
        self.controller.is_up, self.controller.losses = True, 0.0
        self.controller.alive = {MASTER, *self.connected}

    async def step(self) -> None:
        self.on.core.acked = dict.fromkeys(self.connected, 1000)
        self.controller.decide_late()
        await self.on.passing(self.clock, POLL_S)
        if self.maker.random() < 0.1 and self.controller.is_up:
            self.on.watch.take(self.controller.present)  # as the answer to a lease brings it
        waited_for = {MASTER, *(self.on.core.others or ())}
        assert self.controller.members <= waited_for, "one may lead without what was answered"


@pytest.mark.parametrize("is_apache", [False, True])
@pytest.mark.parametrize("least", [1, 2, 3])
@pytest.mark.parametrize("seed", seeds(volume(10, 40))[::10])
@in_loop
async def test_whatever_happens_the_set_becomes_what_it_should_be(
    clock: DrivenClock, seed: int, least: int, is_apache: bool
) -> None:
    for each in range(seed, seed + 10):
        await walk_of(clock, each, least, is_apache)


async def walk_of(clock: DrivenClock, seed: int, least: int, is_apache: bool) -> None:
    walk = Walk(clock, seed, least, is_apache)
    for _ in range(STORM_STEPS):
        walk.happen()
        await walk.step()
    walk.calm_down()
    for _ in range(CALM_STEPS + round(LOST_MS / 1000 / POLL_S)):
        await walk.step()
    left, on = {MASTER, *walk.connected}, walk.on
    assert on.watch.members == walk.controller.members
    assert on.core.is_short is (len(left) < least)
    if len(left) >= least or is_apache:
        assert on.watch.members == left
        assert set(on.core.others or ()) == walk.connected
