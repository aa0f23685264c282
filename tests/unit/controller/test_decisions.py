"""Decisions of the controller: the rules about which replica is master, and which are in sync.

Goal: each rule of Apache's controller, with the code that its brokers expect. And, by random
requests: no sequence of them breaks what elections rely on. Not shown here: that Apache's running
brokers agree (tests/compat).
"""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.volume import volume

from rmq.controller import broker_set
from rmq.controller.broker_set import BrokerSet, Replica
from rmq.controller.decisions import (
    NOBODY,
    Alteration,
    Clean,
    Decision,
    Election,
    alter_sync_state_set,
    apply_broker_id,
    clean,
    elect,
    is_waiting,
    next_broker_id,
    register,
)
from rmq.controller.live_replicas import LiveReplica
from rmq.errors import StoreCorruptError

THREE = {each: Replica(f"h{each}:10911", f"h{each}:10911;170000000{each}") for each in (1, 2, 3)}
LIVE = {each: LiveReplica(f"h{each}:10911", epoch=4, max_offset=1000) for each in (1, 2, 3)}
# 1 is master in epoch 4; 3 is behind.
SET = BrokerSet("c", "b", THREE, 4, 1, 4, frozenset((1, 2)), 7)


def living(*ids: int) -> dict[int, LiveReplica]:
    return {each: LIVE[each] for each in ids}


def code(decision: Decision) -> int:
    assert (decision.code == 0) == (decision.remark is None)
    return int(decision.code)


# ------------------------------------------------------------------- ids


def test_ids_are_given_from_one_on_and_never_twice() -> None:
    assert next_broker_id(None) == 1
    assert code(apply_broker_id(None, "c", "b", 2, "h:1;5")) == 2014
    first = apply_broker_id(None, "c", "b", 1, "h:1;5").after
    assert first is not None and first.replicas == {1: Replica("h:1", "h:1;5")}
    assert next_broker_id(first) == 2
    again = apply_broker_id(first, "c", "b", 1, "h:1;5")
    assert code(again) == 0 and again.after is None  # as if its answer was lost
    assert code(apply_broker_id(first, "c", "b", 1, "h:2;6")) == 2014
    assert code(apply_broker_id(first, "c", "b", 3, "h:2;6")) == 2014
    assert code(apply_broker_id(first, "other", "b", 2, "h:2;6")) == 2014
    second = apply_broker_id(first, "c", "b", 2, "h:2;6").after
    assert second is not None and next_broker_id(second) == 3
    cleaned = clean(second, Clean(frozenset((2,))), {}).after
    assert cleaned is not None and next_broker_id(cleaned) == 3
    # The replica has the id in its file.
    assert code(apply_broker_id(cleaned, "c", "b", 2, "h:2;6")) == 0


def test_no_more_replicas_than_the_limit() -> None:
    found = None
    for each in range(1, broker_set.REPLICAS_MAX + 1):
        found = apply_broker_id(found, "c", "b", each, f"h:{each};5").after
    assert code(apply_broker_id(found, "c", "b", broker_set.REPLICAS_MAX + 1, "h:9;5")) == 2014
    assert code(apply_broker_id(None, "c", "b", 1, "h" * 300)) == 2014


def test_registration_moves_an_address_and_needs_an_id() -> None:
    assert code(register(None, "c", 1, "h1:10911")) == 2010
    assert code(register(SET, "c", 9, "h9:10911")) == 2010
    assert register(SET, "c", 1, "h1:10911") == Decision()
    moved = register(SET, "c", 1, "new:10911").after
    assert moved is not None and moved.replicas[1] == Replica("new:10911", THREE[1].check_code)
    assert code(register(SET, "c", 1, "")) == 2005


# ------------------------------------------------------------------- who is in sync


@pytest.mark.parametrize(
    ("asked", "live", "expected"),
    [
        (Alteration(1, 4, frozenset((2, 1)), 7), LIVE, 2013),  # the same set
        (Alteration(2, 4, frozenset((2, 3)), 7), LIVE, 2002),
        (Alteration(1, 3, frozenset((1,)), 7), LIVE, 2000),
        (Alteration(1, 4, frozenset((1,)), 6), LIVE, 2001),
        (Alteration(1, 4, frozenset((1, 9)), 7), LIVE, 2003),
        (Alteration(1, 4, frozenset((1, 3)), 7), living(1, 2), 2006),
        (Alteration(1, 4, frozenset((2, 3)), 7), LIVE, 2013),  # without the master itself
        (Alteration(1, 4, frozenset(), 7), LIVE, 2013),
        # Three rows with several faults each: the codes show the order of the checks.
        (Alteration(2, 3, frozenset((2, 9)), 6), LIVE, 2002),
        (Alteration(1, 3, frozenset((1, 9)), 6), LIVE, 2000),
        (Alteration(1, 4, frozenset((2, 9)), 6), LIVE, 2001),
        (Alteration(1, 4, frozenset((1, 2, 3)), 7), LIVE, 0),
        (Alteration(1, 4, frozenset((1,)), 7), living(1), 0),
    ],
)
def test_only_the_present_master_changes_the_set(
    asked: Alteration, live: dict[int, LiveReplica], expected: int
) -> None:
    decision = alter_sync_state_set(SET, asked, live)
    assert code(decision) == expected
    if expected == 0:
        assert decision.after == msgspec.structs.replace(
            SET, sync_state_set=asked.wanted, sync_state_set_epoch=8
        )
    else:
        assert not decision.changes
    assert code(alter_sync_state_set(None, asked, live)) == 2013


@pytest.mark.parametrize("is_new_epoch", [False, True])
def test_a_change_of_the_set_that_was_made_is_a_success_again(is_new_epoch: bool) -> None:
    """A change that was made must be a success when it is repeated: the controller repeats it if
    the store's answer was lost."""
    asked = Alteration(1, 4, frozenset((1, 3)), 7, is_new_epoch)
    made = alter_sync_state_set(SET, asked, LIVE).after
    assert made is not None
    again = alter_sync_state_set(made, asked, LIVE)
    assert code(again) == 0 and not again.changes
    for other, expected in (
        ({"master_id": 2}, 2002), ({"master_epoch": 5}, 2000), ({"sync_state_set_epoch": 9}, 2001)
    ):  # fmt: skip
        found = msgspec.structs.replace(made, **other)  # type: ignore[arg-type]
        expected = expected if is_new_epoch else 2013
        assert code(alter_sync_state_set(found, asked, LIVE)) == expected


# ------------------------------------------------------------------- who is master


def test_the_first_who_asks_is_the_first_master() -> None:
    new = BrokerSet("c", "b", THREE, 4)
    chosen = elect(new, Election(2), {}).after
    assert chosen is not None
    assert (chosen.master_id, chosen.master_epoch) == (2, 1)
    assert (chosen.sync_state_set, chosen.sync_state_set_epoch) == ({2}, 1)
    assert code(elect(None, Election(2), {})) == 2010
    nobody = elect(BrokerSet("c", "b"), Election(NOBODY), {})
    assert code(nobody) == 2004 and not nobody.changes


LONG, TORN = LiveReplica("", -1, 9000), LiveReplica("", -1, 5000, has_lost=True)


@pytest.mark.parametrize(
    ("asked", "live", "expected"),
    [
        (Election(1), {1: LiveReplica("", -1, 0), 2: LONG}, None),
        (Election(1, designated=True), {1: LiveReplica("", -1, 0), 2: LONG}, None),
        (Election(1), {1: LiveReplica("", -1, 0), 2: TORN}, None),
        (Election(1), {1: TORN, 2: LONG}, None),
        (Election(2), {1: LiveReplica("", -1, 0), 2: LONG}, 2),
        (Election(2), {1: TORN, 2: TORN}, 2),  # neither waits for the other
        (Election(NOBODY), {1: LiveReplica("", -1, 0), 2: LONG}, 2),
        (Election(1), {1: LiveReplica("", -1, 0), 2: LiveReplica("", -1, 0)}, 1),
        (Election(1), {1: LiveReplica("", -1, 0), 9: LONG}, 1),  # 9 is none of its replicas
        (Election(1, unclean=True), {1: LiveReplica("", -1, 0), 2: LONG}, 1),
    ],
)
def test_who_has_nothing_is_not_the_first_master_while_another_has_a_log(
    asked: Election, live: dict[int, LiveReplica], expected: int | None
) -> None:
    """An empty replica must not become the first master while another one has a log: a broker that
    ran without a controller would be told to throw its log away, if an empty one beside it had
    asked before."""
    decision = elect(BrokerSet("c", "b", THREE, 4), asked, live)
    if expected is None:
        assert code(decision) == 2012 and not decision.changes
        assert "[2] has more than 1 (its log " in (decision.remark or "")
    else:
        assert decision.after is not None and decision.after.master_id == expected


def test_a_living_master_stays_unless_another_is_designated() -> None:
    assert code(elect(SET, Election(2), LIVE)) == 2011
    assert code(elect(SET, Election(NOBODY), LIVE)) == 2011
    assert code(elect(SET, Election(1, designated=True), LIVE)) == 2011
    chosen = elect(SET, Election(2, designated=True), LIVE).after
    assert chosen is not None
    assert (chosen.master_id, chosen.master_epoch, chosen.sync_state_set) == (2, 5, {2})


def test_who_is_behind_is_no_master_unless_somebody_chose_to_lose() -> None:
    assert code(elect(SET, Election(3, designated=True), LIVE)) == 2012
    assert code(elect(SET, Election(3), living(3))) == 2012
    gone = elect(SET, Election(NOBODY), living(3))
    assert code(gone) == 2004 and gone.after is not None
    assert (gone.after.master_id, gone.after.master_epoch) == (None, 5)
    assert gone.after.sync_state_set == SET.sync_state_set  # its members have what was acknowledged
    again = elect(gone.after, Election(NOBODY), living(3))
    assert code(again) == 2004 and not again.changes
    back = elect(gone.after, Election(2), living(2, 3)).after
    assert back is not None and (back.master_id, back.master_epoch) == (2, 6)
    lost = elect(SET, Election(NOBODY, unclean=True), living(3)).after
    assert lost is not None and lost.master_id == 3
    clean_one = elect(SET, Election(NOBODY, unclean=True), living(2, 3)).after
    assert clean_one is not None and clean_one.master_id == 2


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (LiveReplica("", 5, 10), LiveReplica("", 4, 9999), 2),
        (LiveReplica("", 4, 10), LiveReplica("", 4, 9999), 3),
        (LiveReplica("", 4, 2**33), LiveReplica("", 4, 5), 2),  # compared with more than 32 bits
        (LiveReplica("", 4, 10, priority=2), LiveReplica("", 4, 10, priority=1), 3),
        (LiveReplica("", 4, 10), LiveReplica("", 4, 10), 2),
    ],
)
def test_the_newest_epoch_then_the_longest_log_then_the_preferred(
    first: LiveReplica, second: LiveReplica, expected: int
) -> None:
    found = msgspec.structs.replace(SET, sync_state_set=frozenset((1, 2, 3)))
    chosen = elect(found, Election(NOBODY), {2: first, 3: second}).after
    assert chosen is not None and chosen.master_id == expected


EMPTY, CUT = LiveReplica("", -1, 0), LiveReplica("", 3, 90, has_lost=True)
ALONE = msgspec.structs.replace(SET, sync_state_set=frozenset((1,)))


@pytest.mark.parametrize("short", [EMPTY, CUT])
@pytest.mark.parametrize(
    ("found", "there", "asked", "expected"),
    [
        # A member of {1, 2} came back with less than it had acknowledged.
        (SET, {2: "short"}, Election(2), None),
        (SET, {2: "short", 3: "whole"}, Election(2), None),
        (SET, {2: "short"}, Election(2, designated=True), None),
        (SET, {1: "short"}, Election(1), None),  # even if it is the present master
        (SET, {1: "short", 2: "whole"}, Election(NOBODY), 2),
        (SET, {1: "whole", 2: "short"}, Election(2, designated=True), None),
        (SET, {1: "whole", 2: "short"}, Election(NOBODY), 1),
        # All replicas that may have more are there, or there is no other.
        (SET, {1: "short", 2: "short"}, Election(NOBODY), 1),
        (ALONE, {1: "short", 2: "whole"}, Election(1), 1),
        # An operator chose to lose messages.
        (SET, {2: "short"}, Election(2, unclean=True), 2),
        (SET, {2: "short", 3: "whole"}, Election(2, unclean=True), 3),
        (SET, {2: "short", 3: "whole"}, Election(2, designated=True, unclean=True), 2),
    ],
)
def test_who_lacks_what_it_acknowledged_is_no_master_while_another_one_may_have_it(
    short: LiveReplica, found: BrokerSet, there: dict[int, str], asked: Election,
    expected: int | None,
) -> None:  # fmt: skip
    live = {each: short if what == "short" else LIVE[each] for each, what in there.items()}
    decision = elect(found, asked, live)
    chosen = decision.after.master_id if decision.after is not None else found.master_id
    if expected is not None:
        assert code(decision) in (0, 2011) and chosen == expected
        return
    assert code(decision) == 2012 and "lacks what was acknowledged" in (decision.remark or "")
    assert ("Start [" in (decision.remark or "")) == (live.keys() < {1, 2} or 3 in live)
    # A master that lacks it must not stay master, whatever it was told before.
    assert chosen == (None if there.get(1) == "short" else 1)


@pytest.mark.parametrize(
    ("there", "expected", "after_a_while"),
    [
        # Members of {1, 2}: 1 was master.
        ({2: "doubted"}, None, 2),
        ({2: "doubted", 3: "whole"}, None, 2),
        ({1: "doubted"}, None, 1),
        ({1: "doubted", 2: "whole"}, 2, 2),
        ({1: "whole", 2: "doubted"}, 1, 1),
        ({1: "short", 2: "doubted"}, 2, 2),
        ({1: "doubted", 2: "doubted"}, 1, 1),  # a power cut of both
        ({1: "doubted", 2: "longer"}, 2, 2),
        ({2: "short"}, None, None),
    ],
)
def test_who_may_have_lost_its_end_waits_a_while_for_those_who_may_have_it(
    there: dict[int, str], expected: int | None, after_a_while: int | None
) -> None:
    kinds: dict[str, dict[str, object]] = {
        "whole": {}, "short": {"has_lost": True}, "doubted": {"is_doubted": True},
        "longer": {"is_doubted": True, "max_offset": 2000},
    }  # fmt: skip
    live = {
        each: msgspec.structs.replace(LIVE[each], **kinds[what]) for each, what in there.items()
    }
    found = msgspec.structs.replace(SET, master_id=None, master_epoch=5)
    for has_waited, chosen in ((False, expected), (True, after_a_while)):
        decision = elect(found, Election(2, has_waited=has_waited), live)
        assert is_waiting(found, live) is (expected is None and after_a_while is not None)
        assert (decision.after.master_id if decision.after is not None else None) == chosen
        if is_waiting(found, live) and not has_waited:
            assert "for 120 s [" in (decision.remark or "")


# ------------------------------------------------------------------- who is gone for good


def test_clean_spares_who_lives_and_who_alone_holds_what_was_acknowledged() -> None:
    assert code(clean(None, Clean(), {})) == 2009
    assert code(clean(SET, Clean(), {})) == 2009  # because it has a master
    assert code(clean(SET, Clean(frozenset((3,))), LIVE)) == 2009
    without = clean(SET, Clean(frozenset((3,))), living(1, 2)).after
    assert without is not None and sorted(without.replicas) == [1, 2]
    assert without.sync_state_set_epoch == 7
    assert code(clean(SET, Clean(frozenset((1, 2))), living(3))) == 2009
    headless = clean(SET, Clean(frozenset((1,)), living=True), LIVE).after
    assert headless is not None
    assert (headless.master_id, headless.master_epoch, headless.sync_state_set) == (None, 5, {2})
    assert clean(SET, Clean(living=True), LIVE).removed
    assert clean(SET, Clean(frozenset((1, 2, 3))), {}).removed


# ------------------------------------------------------------------- what a store keeps


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"replicas": {0: THREE[1]}},
        {"replicas": THREE | {4: THREE[1]}},
        {"master_id": 9},
        {"master_id": 3},
        {"master_epoch": 0},
        {"master_epoch": 2**31},
        {"sync_state_set": frozenset((1, 9))},
        {"sync_state_set_epoch": -1},
        {"lease_ms": -1},
        {"lease_ms": 2**31},
        {"next_id": 2**63},
    ],
)
def test_a_set_that_cannot_be_is_not_believed(wrong: dict[str, object]) -> None:
    assert broker_set.decode(SET.encode(), "here") == SET
    kept = msgspec.structs.replace(SET, **wrong).encode()
    with pytest.raises(StoreCorruptError, match="here: "):
        broker_set.decode(kept, "here")


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_a_set_or_an_error_of_ours(noise: bytes, at: int) -> None:
    for content in (noise, SET.encode()[:at] + noise + SET.encode()[at + 1 :]):
        with contextlib.suppress(StoreCorruptError):
            assert broker_set.fault_of(broker_set.decode(content, "x")) == ""


# ------------------------------------------------------------------- whatever comes

ids = st.integers(1, 4)
some = st.frozensets(ids)


class Requests(RuleBasedStateMachine):
    """Any requests, in any order. `logs`: how much of what was acknowledged each replica has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: BrokerSet | None = None
        self.masters: dict[int, int] = {}  # epoch -> its master
        self.before = (0, 0)

    def take(self, decision: Decision) -> None:
        if decision.removed:
            self.found, self.before, self.masters = None, (0, 0), {}
        elif decision.after is not None:
            after = decision.after
            self.found = after
            if after.master_id is not None:
                assert self.masters.setdefault(after.master_epoch, after.master_id) \
                    == after.master_id, "two masters of an epoch"  # fmt: skip

    @rule(broker_id=ids)
    def apply(self, broker_id: int) -> None:
        self.take(apply_broker_id(self.found, "c", "b", broker_id, f"h{broker_id};1"))

    @rule(broker_id=st.integers(-1, 4), designated=st.booleans(), live=some)
    def election(self, broker_id: int, designated: bool, live: frozenset[int]) -> None:
        before = self.found
        alive = {each: LiveReplica("", max_offset=each) for each in live}
        decision = elect(before, Election(broker_id, designated), alive)
        after = decision.after
        if before is not None and after is not None and after.master_id is not None:
            in_sync = before.sync_state_set or before.replicas.keys()
            assert before.master_epoch == 0 or after.master_id in in_sync
        self.take(decision)

    @rule(master=ids, wanted=some, live=some, late=st.booleans())
    def alteration(
        self, master: int, wanted: frozenset[int], live: frozenset[int], late: bool
    ) -> None:
        found = self.found
        epoch = found.master_epoch - late if found is not None else 0
        set_epoch = found.sync_state_set_epoch if found is not None else 0
        alive = {each: LiveReplica("") for each in live}
        asked = Alteration(master, epoch, wanted, set_epoch)
        decision = alter_sync_state_set(found, asked, alive)
        assert not (late and decision.changes)
        self.take(decision)

    @rule(gone=some, live=some, living=st.booleans())
    def cleaning(self, gone: frozenset[int], live: frozenset[int], living: bool) -> None:
        alive = {each: LiveReplica("") for each in live}
        self.take(clean(self.found, Clean(gone, living), alive))

    @invariant()
    def is_sound(self) -> None:
        if self.found is None:
            return
        assert broker_set.fault_of(self.found) == ""
        assert broker_set.decode(self.found.encode(), "x") == self.found
        epochs = (self.found.master_epoch, self.found.sync_state_set_epoch)
        assert epochs[0] >= self.before[0] and epochs[1] >= self.before[1]
        self.before = epochs
        if self.found.master_epoch > 0:
            assert self.found.sync_state_set, "nobody could ever be master again"


Requests.TestCase.settings = settings(
    max_examples=volume(60, 200), stateful_step_count=30, deadline=None
)
TestRequests = Requests.TestCase
