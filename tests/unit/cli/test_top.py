"""What `rmq top` shows of rows, and what it leaves out on a narrow terminal."""

import io

import pytest
from rich.console import Console

from rmq.cli.output import Output
from rmq.cli.top import COLUMNS, DISPENSABLE, EXTRA, LAST, NAME, TEXTS, _drawn, fitted, fitting
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
    assert lost == [*EXTRA, *DISPENSABLE, *LAST]
    assert shown == [NAME]
    assert {*EXTRA, *DISPENSABLE, *LAST, *TEXTS} <= {*ALL}


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_what_is_shown_fits(width: int) -> None:
    shown = names(width)
    assert sum(max(len(name), 9) + 3 for name in shown) < width
    assert {"BROKER", "IN/S", "OUT/S", "CPU", "APPEND p99"} <= {*shown}


def test_the_fullest_pool_of_all_time_is_told() -> None:
    sample = Sample(pools={"a": (1, 10, 5, 9, 0), "b": (1, 100, 70, 80, 3)})
    row = figures(None, sample)
    assert (row.pool, row.pool_most) == (0.7, 0.9)


NARROW = pytest.mark.parametrize(
    ("width", "headings"),
    [(80, "BROKER IN/S OUT/S CPU APPEND p99"), (60, "BROKER IN/S OUT/S CPU APPEND p99"),
     (40, "BROKER IN/S OUT/S CPU"), (30, "BROKER IN/S"), (20, "BROKER")],
)  # fmt: skip
ROWS = [figures(None, Sample(broker=name)) for name in ("broker-a", "broker-" + "x" * 60)]


@NARROW
def test_long_names_are_cut_and_numbers_are_whole(width: int, headings: str) -> None:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(_drawn(ROWS, width, False))
    assert isinstance(console.file, io.StringIO)
    title, _, head, _, first, second, *_ = console.file.getvalue().splitlines()
    assert title.startswith("rmq top") and " ".join(head.split()) == headings
    assert first.split()[0] == "broker-a" and "…" not in first
    assert second.split()[0].startswith("broker-") and second.split()[0].endswith("…")
    assert second.count("…") == 1 and len(second) <= width


@NARROW
@pytest.mark.parametrize("form", ["table", "wide"])
def test_a_table_that_is_printed_once_has_the_same(
    form: str, width: int, headings: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here without rich, which draws nothing into what is no terminal."""
    output = Output(form)
    output.rows(*fitted(ROWS, width, output.is_wide))
    head, first, second, total = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == headings
    assert first.split()[0] == "broker-a" and second.split()[0].endswith("…")
    assert total.split()[0] == "total"
    assert max(map(len, (head, first, second, total))) <= width
