"""What `rmq top` shows of rows, and what it leaves out on a narrow terminal."""

import pytest

from rmq.cli.top import COLUMNS, DISPENSABLE, fitting
from rmq.observe.rates import figures
from rmq.observe.sample import Sample

WIDE = [list(COLUMNS), ["x" * 9 for _ in COLUMNS]]


def names(width: int) -> list[str]:
    return [COLUMNS[at] for at in fitting(WIDE, width)]


def test_a_wide_terminal_shows_everything() -> None:
    assert names(400) == list(COLUMNS)


def test_a_narrower_one_loses_what_matters_least_in_turn() -> None:
    shown = list(COLUMNS)
    lost = []
    for width in range(400, 0, -1):
        now = names(width)
        lost += [name for name in shown if name not in now]
        shown = now
    assert lost == list(DISPENSABLE)
    assert shown == [name for name in COLUMNS if name not in DISPENSABLE]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_what_is_shown_fits(width: int) -> None:
    shown = fitting(WIDE, width)
    assert sum(max(len(row[at]) for row in WIDE) + 3 for at in shown) <= width
    assert {"BROKER", "IN/S", "OUT/S", "CPU", "APPEND p99"} <= {COLUMNS[at] for at in shown}


def test_the_fullest_pool_of_all_time_is_told() -> None:
    sample = Sample(pools={"a": (1, 10, 5, 9, 0), "b": (1, 100, 70, 80, 3)})
    row = figures(None, sample)
    assert (row.pool, row.pool_most) == (0.7, 0.9)
