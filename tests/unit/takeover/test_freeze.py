"""Freeze: it is renewed in time, and an interruption is noticed. The clock is moved by hand."""

import pytest

from rmq.errors import RmqError
from rmq.takeover.freeze import FREEZE_S, RENEW_S, Freeze


class Old:
    """The parts of the old master that a freeze uses."""

    address = "10.0.0.5:10911"

    def __init__(self) -> None:
        self.freezes: list[float] = []
        self.refuses, self.released = True, False

    def freeze(self, seconds: float) -> None:
        self.freezes.append(seconds)

    def refuses_sends(self) -> bool:
        return self.refuses

    def release(self) -> None:
        self.released = True


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def old() -> Old:
    return Old()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def freeze(old: Old, clock: Clock) -> Freeze:
    freeze = Freeze(old, clock)  # type: ignore[arg-type]
    freeze.begin()
    return freeze


def test_it_is_renewed_before_it_ends(freeze: Freeze, old: Old, clock: Clock) -> None:
    clock.now += RENEW_S - 1
    freeze.renew()
    assert old.freezes == [FREEZE_S]
    clock.now += 1
    freeze.renew()
    assert old.freezes == [FREEZE_S, FREEZE_S]
    clock.now += FREEZE_S
    freeze.check_covers()
    freeze.release()
    assert old.released


def test_one_that_was_over_in_between_counts_for_nothing(freeze: Freeze, clock: Clock) -> None:
    clock.now += FREEZE_S + 1
    with pytest.raises(RmqError, match="it may have taken sends"):
        freeze.check_covers()
    with pytest.raises(RmqError, match="could not be reached for too long"):
        freeze.renew()


def test_a_master_that_takes_sends_all_the_same_is_noticed(old: Old, clock: Clock) -> None:
    old.refuses = False
    with pytest.raises(RmqError, match="takes sends although it was told not to"):
        Freeze(old, clock).begin()  # type: ignore[arg-type]
