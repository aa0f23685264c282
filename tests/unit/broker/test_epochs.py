"""The epochs of a log, and where two logs part.

Goal: after a cut at the consistent point, a slave's log is the beginning of its master's, whichever
masters there were, wherever they died, and whatever was lost of a log's end. Method: a table of
cases, and replicas that hypothesis elects, has write, has follow and lets lose their ends. Here a
log is a list of records, each of them unique; offsets count records.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.volume import volume

from rmq.broker.replication.epochs import ENTRIES_MAX, NO_EPOCH, Epochs, consistent_point
from rmq.errors import StoreError

A, B = [(1, 0), (2, 800)], [(1, 0), (2, 800), (4, 850)]


@pytest.mark.parametrize(
    ("own", "own_end", "theirs", "their_end", "point"),
    [
        ([], 0, [], 0, 0),
        ([], 0, A, 900, 0),
        ([(7, 0)], 0, A, 900, 0),  # an empty log is equal to any
        ([], 10, A, 900, None),  # written without a controller
        (A, 900, [], 900, None),
        (A, 900, B, 2000, 850),
        (B, 2000, A, 900, 850),
        (A, 820, B, 2000, 820),
        (A, 900, A, 900, 900),
        (A, 900, A, 860, 860),
        # The master has no epoch 2, and its epoch 1 ends at 800.
        (A, 900, [(1, 0), (3, 800)], 2000, 800),
        (A, 900, [(1, 0), (2, 700)], 2000, 700),
        (A, 900, [(5, 100)], 2000, None),
        (A, 900, [(2, 800), (5, 1000)], 2000, 900),  # the master removed the oldest part of its log
        ([(1, 0), (5, 100)], 100, [(1, 0), (6, 100)], 200, 100),  # nothing was written in epoch 5
        ([(1, 0), (2, 100), (3, 100)], 100, [(1, 0), (2, 100), (4, 150)], 200, 100),
        ([(1, 0), (2, 50), (3, 50)], 80, [(1, 0), (2, 50), (3, 50), (4, 70)], 90, 70),
        # Epoch 2 begins beyond the end of the log, which was lost.
        ([(1, 0), (2, 950)], 900, A, 900, 800),
        (A, 900, [(1, 0), (2, 800), (3, 990)], 850, 850),
    ],
)
def test_the_point_up_to_which_two_logs_are_equal(
    own: list[tuple[int, int]],
    own_end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    point: int | None,
) -> None:
    assert consistent_point(Epochs.of(own), (0, own_end), Epochs.of(theirs), their_end) == point


@pytest.mark.parametrize("own", [[], [(1, 0)], [(1, 0), (7, 850)], [(9, 2000)]])
def test_a_log_without_a_byte_is_equal_where_it_begins(own: list[tuple[int, int]]) -> None:
    """A log without a byte must count as equal to its master's up to its own beginning, whatever it
    once held: the master has removed its oldest segments."""
    assert consistent_point(Epochs.of(own), (850, 850), Epochs.of(B), 2000) == 850


def test_the_example_of_the_page() -> None:
    assert Epochs.of(A).truncated(850).taught(Epochs.of(B), 850) == Epochs.of(B)


def test_ends_and_the_last() -> None:
    epochs = Epochs.of(B)
    assert [epochs.end_of(each, 2000) for each in (1, 2, 3, 4)] == [800, 850, None, 2000]
    assert (epochs.last_epoch, epochs.last_start) == (4, 850)
    assert (Epochs().last_epoch, Epochs().last_start) == (NO_EPOCH, 0)


def test_a_cut_takes_what_begins_at_the_point() -> None:
    assert Epochs.of(B).truncated(850) == Epochs.of(A)
    assert Epochs.of(B).truncated(851) == Epochs.of(B)
    assert Epochs.of(B).truncated(0) == Epochs()


def test_only_what_begins_within_the_log_is_taught() -> None:
    theirs = Epochs.of([(1, 0), (3, 100), (4, 100), (5, 101)])
    assert Epochs.of([(1, 0)]).taught(theirs, 100) == Epochs.of([(1, 0), (3, 100), (4, 100)])
    assert Epochs.of([(3, 100)]).taught(theirs, 100) == Epochs.of([(3, 100), (4, 100)])
    assert Epochs().taught(theirs, 0) == Epochs.of([(1, 0)])


def test_a_new_mastership() -> None:
    epochs = Epochs.of([(1, 0), (2, 10), (3, 25)])
    assert epochs.begun(4, 20) == Epochs.of([(1, 0), (2, 10), (4, 20)])
    assert epochs.begun(4, 25) == Epochs.of([(1, 0), (2, 10), (3, 25), (4, 25)])
    assert epochs.begun(3, 30) == epochs  # the same epoch goes on
    with pytest.raises(StoreError, match="epoch 1 of the controller is older than epoch 3"):
        epochs.begun(1, 30)


def test_what_is_below_the_first_epoch_is_of_it() -> None:
    epochs = Epochs.of([(5, 100), (7, 300)])
    assert epochs.covering(0) == epochs.covering(99) == Epochs.of([(5, 0), (7, 300)])
    assert epochs.covering(100) == epochs.covering(4096) == epochs
    assert Epochs().covering(0) == Epochs()


def test_only_the_newest_are_kept() -> None:
    epochs = Epochs.of((each, each) for each in range(1, ENTRIES_MAX + 1))
    grown = epochs.begun(5000, 5000)
    assert len(grown.entries) == ENTRIES_MAX
    assert (grown.entries[0], grown.last_epoch) == ((2, 2), 5000)


@pytest.mark.parametrize(
    "pairs", [[(1, 0), (1, 5)], [(2, 0), (1, 5)], [(1, 5), (2, 4)], [(-1, 0)], [(2**31, 0)],
              [(1, -1)], [(1, 2**63)]]
)  # fmt: skip
def test_what_cannot_be_is_refused(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError):
        Epochs.of(pairs)


REPLICAS = range(3)


class Replicas(RuleBasedStateMachine):
    """Masters are elected at will, old masters do not notice, and slaves follow any newer
    master."""

    def __init__(self) -> None:
        super().__init__()
        # Of each record: the epoch, a unique number.
        self.logs: list[list[tuple[int, int]]] = [[] for _ in REPLICAS]
        self.epochs = [Epochs() for _ in REPLICAS]
        self.masters: list[int | None] = [None for _ in REPLICAS]  # the epoch of each's mastership
        self.seen = [0 for _ in REPLICAS]  # the newest epoch that each has heard of
        self.epoch = 0
        self.numbers = itertools.count()

    @rule(who=st.sampled_from(REPLICAS))
    def elect(self, who: int) -> None:
        self.epoch += 1
        self.masters[who] = self.seen[who] = self.epoch
        begun = self.epochs[who].begun(self.epoch, len(self.logs[who]))
        self.epochs[who] = begun.covering(0)

    @rule(who=st.sampled_from(REPLICAS), count=st.integers(1, 4))
    def write(self, who: int, count: int) -> None:
        epoch = self.masters[who]
        if epoch is not None:
            self.logs[who] += [(epoch, next(self.numbers)) for _ in range(count)]

    @rule(who=st.sampled_from(REPLICAS), master=st.sampled_from(REPLICAS), count=st.integers(0, 9))
    def follow(self, who: int, master: int, count: int) -> None:
        epoch = self.masters[master]
        if who == master or epoch is None or epoch < self.seen[who] or epoch == self.masters[who]:
            return
        self.masters[who], self.seen[who] = None, epoch
        log, theirs = self.logs[who], self.logs[master]
        point = consistent_point(self.epochs[who], (0, len(log)), self.epochs[master], len(theirs))
        if point is None:  # an operator empties such a log
            point = 0
        assert log[:point] == theirs[:point], "equal up to the point"
        del log[point:]
        self.epochs[who] = self.epochs[who].truncated(point).taught(self.epochs[master], point)
        for record in theirs[point : point + count]:
            self._take(who, master, record)

    def _take(self, who: int, master: int, record: tuple[int, int]) -> None:
        """Appends a record together with the epoch of its place, as the master labels it."""
        at = len(self.logs[who])
        label = [each for each in self.epochs[master].entries if each.start <= at][-1]
        if label.epoch > self.epochs[who].last_epoch:
            self.epochs[who] = self.epochs[who].begun(label.epoch, label.start)
        self.logs[who].append(record)

    @rule(who=st.sampled_from(REPLICAS), count=st.integers(1, 5))
    def lose_the_end(self, who: int, count: int) -> None:
        """A power cut takes the end of a log, and no mastership goes on after it."""
        self.masters[who] = None
        del self.logs[who][-count:]

    @rule(who=st.sampled_from(REPLICAS))
    def restart(self, who: int) -> None:
        self.masters[who] = None

    @invariant()
    def labels_are_true(self) -> None:
        """Each record lies within its own epoch."""
        for log, epochs in zip(self.logs, self.epochs, strict=True):
            for epoch, start in epochs.within(len(log)).entries:
                end = epochs.within(len(log)).end_of(epoch, len(log))
                assert {each[0] for each in log[start:end]} <= {epoch}

    @precondition(lambda self: self.epoch > 0)
    @invariant()
    def all_pairs_part_where_they_say(self) -> None:
        for one, two in itertools.permutations(REPLICAS, 2):
            logs = self.logs[one], self.logs[two]
            point = consistent_point(
                self.epochs[one], (0, len(logs[0])), self.epochs[two], len(logs[1])
            )
            if point is not None:
                assert logs[0][:point] == logs[1][:point]


class ForgetfulReplicas(Replicas):
    """Epoch files are lost as well: two logs must still part where their epochs say, whoever wrote
    them."""

    @rule(who=st.sampled_from(REPLICAS))
    def forget(self, who: int) -> None:
        self.masters[who] = None
        self.epochs[who] = Epochs()

    def labels_are_true(self) -> None:
        """Not checked here: after a lost file, older records count as the next epoch's."""


TestForgetfulReplicas = ForgetfulReplicas.TestCase
TestForgetfulReplicas.settings = settings(
    max_examples=volume(50, 200), stateful_step_count=40, deadline=None
)  # fmt: skip

TestReplicas = Replicas.TestCase
TestReplicas.settings = TestForgetfulReplicas.settings
