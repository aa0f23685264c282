"""The pace grows while everything keeps up, falls back when something does not, and settles."""

import pytest

from rmq.load.workload.sustainable_rate import SustainableRate

PERIOD_S = 3.0


class Load:
    """Producers and consumers that manage so many messages a second, and keep the rest for
    later."""

    def __init__(self, produced: float, consumed: float) -> None:
        self.produced, self.consumed = produced, consumed
        self.sent = self.received = 0.0

    def go(self, rate: float) -> None:
        self.sent += min(rate, self.produced) * PERIOD_S
        self.received += min(self.sent - self.received, self.consumed * PERIOD_S)


def rates(load: Load, periods: int) -> list[float]:
    rate, found = SustainableRate(10_000.0), []
    for _ in range(periods):
        load.go(rate.rate)
        found.append(rate.after(PERIOD_S, rate.rate * PERIOD_S, int(load.sent), int(load.received)))
    return found


def test_it_doubles_while_all_keep_up() -> None:
    assert rates(Load(1e9, 1e9), 4) == [20_000, 40_000, 80_000, 160_000]


@pytest.mark.parametrize(
    ("produced", "consumed"), [(100_000, 1e9), (1e9, 100_000)], ids=["producers", "consumers"]
)
def test_it_settles_at_what_the_slower_ones_do(produced: float, consumed: float) -> None:
    found = rates(Load(produced, consumed), 200)
    late = found[100:]
    assert 0.9 * 100_000 < sum(late) / len(late) < 1.05 * 100_000
    assert max(late) < 1.3 * 100_000


def test_it_is_never_nothing() -> None:
    assert all(1 <= rate <= 10_000 for rate in rates(Load(0, 0), 50))


def test_a_few_outstanding_messages_are_none() -> None:
    rate = SustainableRate(10_000.0)
    assert rate.after(PERIOD_S, 30_000, 30_000, 29_000) == 20_000
    assert rate.after(PERIOD_S, 60_000, 90_000, 88_999) < 20_000


def test_a_pace_that_was_taken_up_late_is_no_lack() -> None:
    rate = SustainableRate(500_000.0)
    assert rate.after(PERIOD_S, 1_500_000, 1_500_000, 1_500_000) == 1_000_000
    # In the first 20 ms the old pace was still used.
    due = int(0.02 * 500_000 + (PERIOD_S - 0.02) * 1_000_000)
    sent = 1_500_000 + due
    assert rate.after(PERIOD_S, due, sent, sent) == 2_000_000
