"""Which replicas are in sync, as the master decides it.

Goal: the rules as a table. And the controller never has a member whose acknowledgement the master
does not need, whichever questions and answers are lost, late or refused. Method for the second
goal: a controller with the real rules (rmq/controller/decisions.py), and a network that hypothesis
delays.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.volume import volume

from rmq.broker.replication.role import acks_of_whole_set, in_sync_min
from rmq.broker.replication.sync_state import LogSnapshot, Slave, SyncChange, SyncState, wanted
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.controller.broker_set import BrokerSet, Replica
from rmq.controller.decisions import Alteration, alter_sync_state_set
from rmq.controller.live_replicas import LiveReplica

NOW, BEGAN = 100_000, 50_000
LOOK = LogSnapshot(end=500, confirm=400, epoch_start=300)


def at_end(broker_id: int = 2, acked: int = 500, ago_ms: int = 0, **more: object) -> Slave:
    return Slave(broker_id, acked, NOW - ago_ms, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "slaves", "look", "expected"),
    [
        # --- joins
        ({1}, [], LOOK, {1}),
        ({1}, [at_end()], LOOK, {1, 2}),
        ({1}, [at_end(), at_end(3)], LOOK, {1, 2, 3}),
        ({1}, [at_end(acked=499)], LOOK, {1}),
        ({1}, [at_end(acked=510)], LOOK, {1, 2}),
        ({1}, [at_end(is_learner=True)], LOOK, {1}),
        ({1}, [at_end(closed_ms=NOW)], LOOK, {1}),
        ({1}, [at_end(has_tables=False)], LOOK, {1}),
        ({1}, [at_end(acked=500)], LogSnapshot(450, 510, 300), {1}),  # below the confirmed offset
        # Has nothing of the last epoch.
        ({1}, [at_end(acked=500)], LogSnapshot(450, 400, 501), {1}),
        ({1}, [at_end(1)], LOOK, {1}),
        ({1}, [at_end(acked=0)], LogSnapshot(0, 0, 0), {1, 2}),
        # --- stays, and leaves
        ({1, 2}, [at_end(acked=450, ago_ms=15_000)], LOOK, {1, 2}),
        ({1, 2}, [at_end(acked=450, ago_ms=15_001)], LOOK, {1}),
        ({1, 2}, [at_end(acked=399)], LOOK, {1}),  # came back with less than the confirmed offset
        ({1, 2}, [at_end(acked=-1)], LOOK, {1, 2}),  # has reported nothing yet
        ({1, 2}, [at_end(has_tables=False)], LOOK, {1, 2}),  # its connection was lost
        ({1, 2}, [at_end(has_tables=False, lacks_tables_ms=NOW - 60_000)], LOOK, {1, 2}),
        ({1, 2}, [at_end(has_tables=False, lacks_tables_ms=NOW - 60_001)], LOOK, {1}),
        ({1, 2}, [at_end(closed_ms=NOW - 1000)], LOOK, {1, 2}),
        ({1, 2}, [at_end(closed_ms=NOW - 1001)], LOOK, {1}),
        ({1, 2}, [], LOOK, {1}),
        ({1, 2}, [at_end(is_learner=True)], LOOK, {1}),
        ({2}, [at_end()], LOOK, {1, 2}),
        # --- both at once
        ({1, 2}, [at_end(closed_ms=NOW - 5000), at_end(3)], LOOK, {1, 3}),
    ],
)
def test_who_is_to_be_in_sync(
    members: set[int], slaves: list[Slave], look: LogSnapshot, expected: set[int]
) -> None:
    found = wanted(1, frozenset(members), slaves, look, NOW, behind_ms=15_000, began_ms=BEGAN)
    assert found == expected


@pytest.mark.parametrize(
    ("slave", "goes_on"),
    [
        (at_end(acked=100, ago_ms=1000), True),
        (at_end(acked=100, ago_ms=1001), False),
        (at_end(closed_ms=NOW), False),
        (at_end(is_learner=True), False),
        (at_end(has_tables=False), False),
    ],
)
def test_one_whose_acks_count_goes_on_joining(slave: Slave, goes_on: bool) -> None:
    found = wanted(
        1, frozenset((1,)), [slave], LOOK, NOW, behind_ms=15_000, began_ms=BEGAN,
        joining=frozenset((2,)),
    )  # fmt: skip
    assert (2 in found) is goes_on


def test_a_new_mastership_gives_time() -> None:
    """A new mastership must give members time that have not connected yet, or that reached the end
    of the log before this mastership."""
    for slaves in ([], [Slave(2, 450, 0)]):
        found = wanted(
            1, frozenset((1, 2)), slaves, LOOK, NOW, behind_ms=15_000, began_ms=NOW - 900
        )
        assert found == {1, 2}


def test_acks_need_both_sets_until_the_answer() -> None:
    change = SyncChange(SyncState(frozenset((1, 2)), 7))
    assert change.ask(frozenset((1, 3))) == {1, 2, 3}
    assert not change.take(SyncState(frozenset((1, 2)), 7)) and change.acks == {1, 2, 3}
    assert change.take(SyncState(frozenset((1, 3)), 8)) and change.acks == {1, 3}
    assert not change.take(SyncState(frozenset((1, 2)), 7)) and change.acks == {1, 3}


def test_a_refusal_ends_a_question_unless_another_is_open() -> None:
    change = SyncChange(SyncState(frozenset((1,)), 7))
    change.ask(frozenset((1, 2)))
    change.refused()
    assert change.acks == {1}
    change.ask(frozenset((1, 2)))
    change.lost(0)
    change.ask(frozenset((1, 3)))
    change.refused()
    assert change.is_open and change.acks == {1, 2, 3}
    assert change.take(SyncState(frozenset((1,)), 8))
    assert not change.is_open and change.acks == {1}


IDS = (1, 2, 3, 4)


class Changes(RuleBasedStateMachine):
    """Replica 1 is the master. A question that got no answer may reach the controller at any later
    time."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = BrokerSet(
            "c", "b", replicas={each: Replica(f"h:{each}", "x") for each in IDS}, master_id=1,
            master_epoch=1, sync_state_set=frozenset((1,)), sync_state_set_epoch=1, next_id=5,
        )  # fmt: skip
        self.change = SyncChange(SyncState(frozenset((1,)), 1))
        self.on_the_way: list[Alteration] = []
        self.late: list[SyncState] = []  # late answers to 1004

    def _decide(self, asked: Alteration) -> tuple[int, SyncState]:
        live = {each: LiveReplica("h:1") for each in IDS}
        decision = alter_sync_state_set(self.controller, asked, live)
        self.controller = decision.after or self.controller
        return decision.code, self._state()

    def _state(self) -> SyncState:
        found = self.controller
        return SyncState(found.sync_state_set, found.sync_state_set_epoch)

    @rule(
        others=st.frozensets(st.sampled_from(IDS[1:])),
        fate=st.sampled_from(["answered", "answer lost", "asked twice", "late"]),
    )
    def ask(self, others: frozenset[int], fate: str) -> None:
        members = others | {1}
        if members == self.change.state.members and not self.change.is_open:
            return
        self.change.ask(members)
        asked = Alteration(1, 1, members, self.change.state.epoch, is_new_epoch=self.change.is_open)
        if fate == "late":
            self.on_the_way.append(asked)
            self.change.lost(0)
            return
        code, state = self._decide(asked)
        if fate == "asked twice":  # the controller repeats it, because its store did not answer
            code, state = self._decide(asked)
        if fate == "answer lost":
            self.change.lost(0)
        elif code == ResponseCode.SUCCESS:
            assert self.change.take(state)
            assert self.change.acks == members
        else:
            self.change.refused()

    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        if self.on_the_way:
            number = data.draw(st.integers(0, len(self.on_the_way) - 1))
            self._decide(self.on_the_way.pop(number))

    @rule()
    def look(self) -> None:
        self.late.append(self._state())

    @rule(data=st.data())
    def hear(self, data: st.DataObject) -> None:
        if self.late:
            number = data.draw(st.integers(0, len(self.late) - 1))
            self.change.take(self.late.pop(number))

    @rule()
    def settle(self) -> None:
        """After whatever was lost, one answered question, or a look at the set before it, must
        settle the change."""
        if self.change.is_open and not self.change.take(self._state()):
            members = self.change.state.members
            self.change.ask(members)
            code, state = self._decide(Alteration(1, 1, members, self.change.state.epoch, True))
            assert code == ResponseCode.SUCCESS and self.change.take(state)
        if not self.change.is_open:
            assert self.change.acks >= self.controller.sync_state_set

    @invariant()
    def who_may_be_elected_is_needed(self) -> None:
        assert self.controller.sync_state_set <= self.change.acks


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=volume(60, 200), stateful_step_count=30, deadline=None)


def test_defaults_lose_nothing() -> None:
    given = Settings()
    assert acks_of_whole_set(given) and in_sync_min(given) == 2
    given.set("allAckInSyncStateSet", "false")
    given.set("minInSyncReplicas", "1")
    assert not acks_of_whole_set(given) and in_sync_min(given) == 1
