"""Table: rows under named columns: lines for people, objects for programs.

    COLUMNS = (Column("BROKER"), Column("DISK", "disk_used_percent", percent),
               moment("LAST STORED"), Column("PERM", is_wide=True))
    show_table(COLUMNS, rows, is_wide=False)
    records(COLUMNS, rows)      [{"broker": "broker-a", "disk_used_percent": 25.0, ..}, ..]

A row holds plain values. A column shows them to people as text and gives them to programs as they
are: a number stays a number, and its unit stands in the key. A moment (ms since 1970) becomes two
members, "stored" with UTC and "stored_ms". A column with is_wide is in the table of `-o wide` and
in all data, but not in the usual table.

A table is drawn by rich if rich is installed and standard output is a terminal that is wide enough;
otherwise the same rows are printed as columns padded with blanks, one line a row, so that `awk` and
`grep` work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
import msgspec

from rmq.operations.texts import printable, time_text
from rmq.operations.times import moment_members

Row = Sequence[Any]
LAST_WIDTH = 20  # least width of a last column that is longer, such as bodies and reasons


def plain(value: Any) -> str:
    """A cell as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def percent(value: float) -> str:
    return f"{value:.0f}%"


def whole(value: float) -> str:
    return f"{value:,.0f}"


class Column(msgspec.Struct, frozen=True):
    """`key`: the member's name in data; empty: the heading in small letters. `text` makes the cell
    of a value that is not None."""

    heading: str
    key: str = ""
    text: Callable[[Any], str | None] = plain
    is_moment: bool = False
    is_wide: bool = False

    def cell(self, value: Any) -> str:
        shown = None if value is None else self.text(value)
        return "-" if shown is None else printable(shown)

    def members(self, value: Any) -> dict[str, Any]:
        key = self.key or self.heading.lower().replace(" ", "_")
        return moment_members(key, value) if self.is_moment else {key: value}


def moment(heading: str, key: str = "", *, is_wide: bool = False) -> Column:
    """A column whose values are moments in ms since 1970; 0 and below mean never."""
    return Column(heading, key, time_text, is_moment=True, is_wide=is_wide)


def columns(*headings: str) -> tuple[Column, ...]:
    """Plain columns with these headings."""
    return tuple(map(Column, headings))


def records(columns: Sequence[Column], rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows as objects."""
    return [
        {key: each for column, value in zip(columns, row, strict=True)
         for key, each in column.members(value).items()}
        for row in rows
    ]  # fmt: skip


def show_table(
    columns: Sequence[Column], rows: Iterable[Row], *, is_wide: bool = False, has_head: bool = True
) -> None:
    """Prints the rows; has_head=False: as the next page of a table."""
    shown = [at for at, column in enumerate(columns) if is_wide or not column.is_wide]
    columns, rows = [columns[at] for at in shown], [[row[at] for at in shown] for row in rows]
    if sys.stdout.isatty() and _rich_table(columns, rows):
        return
    texts = [[column.heading for column in columns], *_cells(columns, rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
    for row in texts if has_head else texts[1:]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def _cells(columns: Sequence[Column], rows: Iterable[Row]) -> list[list[str]]:
    return [[column.cell(value) for column, value in zip(columns, row, strict=True)]
            for row in rows]  # fmt: skip


def _rich_table(columns: Sequence[Column], rows: Sequence[Row]) -> bool:
    """Draws the table with rich; returns False if it cannot, because rich is missing or the table
    is wider than the terminal. Only the last column may be folded, to LAST_WIDTH at least, because
    nobody can read ids and times that are cut into pieces."""
    try:
        from rich import box
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return False
    console, texts = Console(highlight=False), _cells(columns, rows)
    widths = [max(cell_len(each) for each in (column.heading, *(row[at] for row in texts)))
              for at, column in enumerate(columns)]  # fmt: skip
    if sum(widths[:-1]) + min(widths[-1], LAST_WIDTH) + 3 * len(widths) + 1 > console.width:
        return False
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for at, column in enumerate(columns):
        number = bool(rows) and all(isinstance(row[at], int | float | None) for row in rows)
        is_right = number and not column.is_moment
        justify = "right" if is_right else "left"
        table.add_column(
            column.heading, justify=justify, overflow="fold",  # type: ignore[arg-type]
            no_wrap=at < len(columns) - 1,
        )  # fmt: skip
    for cells in texts:
        table.add_row(*(cell.replace("[", "\\[") for cell in cells))
    console.print(table)
    return True
