"""Output: a table for people, JSON for programs, errors with a way out.

A table is drawn by rich when standard output is a terminal and rich is there; otherwise the same
rows come as columns padded with blanks, one line a row, so that `awk` and `grep` work. With
`--json` the rows come as one JSON array of objects under the same names. Example:

    BROKER    QUEUE  MIN  MAX
    broker-a  0      0    12

Exit codes: 0 done; 1 refused or failed; 2 wrong usage or configuration; 3 nobody answers at the
address; 4 the store is held by another process; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from rmq.errors import (
    ConfigError,
    NoControllerError,
    NotBuiltError,
    RemoteError,
    RmqError,
    StoreLockedError,
    UnreachableError,
)
from rmq.operations.texts import printable

_EXIT_CODES: list[tuple[type[RmqError], int]] = [
    (ConfigError, 2),
    (UnreachableError, 3),
    (StoreLockedError, 4),
    (NotBuiltError, 2),
]
# What to do about an answer, by its code.
_ANSWER_HINTS = {
    14: "the broker takes no writes now: see its log for the reason (disk full, stopping)",
    16: "the topic or broker forbids it: see `rmq topic describe`",
    17: "list topics with `rmq topic list`, create one with `rmq topic create NAME`",
    26: "list groups with `rmq group list`",
}


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Prints the rows under these column names, in the form the reader wants."""
    if as_json:
        keys = [column.lower().replace(" ", "_") for column in columns]
        show_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif sys.stdout.isatty() and _rich_table(columns, rows):
        pass
    else:
        texts = [list(columns), *([_text(cell) for cell in row] for row in rows)]
        widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
        for row in texts:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            click.echo(line.rstrip())


def show_json(value: Any) -> None:
    """Prints one line of JSON."""
    import msgspec

    click.echo(msgspec.json.encode(value).decode())


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return False
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for at, column in enumerate(columns):
        number = bool(rows) and all(isinstance(row[at], int | float) for row in rows)
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell).replace("[", "\\[") for cell in row))
    Console(highlight=False).print(table)
    return True


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    return printable(str(cell))


# The same where it is about who asks: rmq.errors.ACCESS_REMEDIES in the words of commands.
ACCESS_HINTS = {
    "username cannot be null.": "say who asks: --user NAME, --credentials FILE, or RMQ_ACCESS_KEY "
    "and RMQ_SECRET_KEY",
    "is not found.": "there is no such account there: see `rmq user list`",
    "is disabled.": "let it in with `rmq user update NAME --enable`",
    "check signature failed.": "the password (secretKey) is another one",
    "no matched policies.": "whoever is Super can allow it: `rmq acl allow`",
    "the decision is deny.": "an entry forbids it: see `rmq acl list`",
}


def describe_error(error: RmqError) -> tuple[str, int]:
    """(what to print, exit code): the cause first, then the way out."""
    code = next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)
    if isinstance(error, RemoteError):
        hint = error.of_access(ACCESS_HINTS) or _ANSWER_HINTS.get(error.code)
        text = f"refused with code {error.code}: {error.remark.strip()}"
        return (f"{text}\n  {hint}" if hint else text), code
    if isinstance(error, NoControllerError):
        return (
            f"{error}\n  Start one with `rmq controller`, or say where it is: "
            "--controller HOST:PORT"
        ), code
    if isinstance(error, UnreachableError):
        return (
            f"{error}\n  Start one with `rmq standalone`, or say where it is: -n HOST:PORT "
            "(or NAMESRV_ADDR)"
        ), code
    return str(error), code
