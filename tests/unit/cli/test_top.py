"""What `rmq top` shows of rows, and what it leaves out on a narrow terminal."""

import pytest

from rmq.cli.top import COLUMNS, DISPENSABLE, EXTRA, TEXTS, fitting
from rmq.observe.rates import figures
from rmq.observe.sample import Sample

ALL = [column.heading for column in COLUMNS]
SHOWN = [column.heading for column in COLUMNS if not column.is_wide]


def names(width: int, headings: list[str] = SHOWN) -> list[str]:
    return [headings[at] for at in fitting(headings, [["x" * 9 for _ in headings]], width)]


def test_a_wide_terminal_shows_everything() -> None:
    assert names(400) == SHOWN
    assert names(600, ALL) == ALL


def test_a_narrower_one_loses_what_matters_least_in_turn() -> None:
    shown = ALL
    lost = []
    for width in range(600, 0, -1):
        now = names(width, ALL)
        lost += [name for name in shown if name not in now]
        shown = now
    assert lost == [*EXTRA, *DISPENSABLE]
    assert shown == [name for name in SHOWN if name not in DISPENSABLE]
    assert {*EXTRA, *DISPENSABLE, *TEXTS} <= {*ALL}


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_what_is_shown_fits(width: int) -> None:
    shown = names(width)
    assert sum(max(len(name), 9) + 3 for name in shown) <= width
    assert {"BROKER", "IN/S", "OUT/S", "CPU", "APPEND p99"} <= {*shown}


def test_the_fullest_pool_of_all_time_is_told() -> None:
    sample = Sample(pools={"a": (1, 10, 5, 9, 0), "b": (1, 100, 70, 80, 3)})
    row = figures(None, sample)
    assert (row.pool, row.pool_most) == (0.7, 0.9)
