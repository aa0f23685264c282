"""Broker figures: the columns of `rmq top` and `rmq broker status`, which show the same figures.

    columns(("broker", "state", "cpu_percent"))     these in every table, the others with -o wide
    values(row)                                     of Figures, in the order of the columns
    show_problems(rows)                             on standard error, of the rows that have one

Keys end with the unit: in_messages_per_second, rss_mb (MB are millions of bytes), append_p99_ms. A
percentage of 100 is all there is; a cpu_percent of 100 is one processor that is always busy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from rmq.cli.errors import ACCESS_HINTS
from rmq.cli.table import Column, percent, plain, whole
from rmq.errors import RemoteError
from rmq.observe.rates import Figures
from rmq.operations.texts import printable, span


def _named(name: str) -> Callable[[Figures], Any]:
    """A function that gets this field of a row; None for an empty text."""

    def value(row: Figures) -> Any:
        found = getattr(row, name)
        return None if found == "" else found

    return value


def _share(name: str) -> Callable[[Figures], float | None]:
    def value(row: Figures) -> float | None:
        found = getattr(row, name)
        return None if found is None else round(found * 100, 1)

    return value


def _megabytes(value: float) -> str:
    return f"{value:.1f} MB"


def _milliseconds(value: float) -> str:
    return f"{value * 1000:.0f} us" if value < 1 else f"{value:.1f} ms"


# Heading, key, function that gets the value of a row, function that makes a table's cell of it.
_ROWS: tuple[tuple[str, str, Callable[[Figures], Any], Callable[[Any], str | None]], ...] = (
    ("BROKER", "broker", _named("broker"), plain),
    ("ADDRESS", "address", _named("address"), plain),
    ("STATE", "state", _named("state"), plain),
    ("ROLE", "role", _named("role"), plain),
    ("EPOCH", "epoch", _named("epoch"), whole),
    ("IN SYNC", "in_sync", _named("in_sync"), whole),
    ("VERSION", "version", _named("version"), plain),
    ("PID", "pid", lambda row: row.pid or None, plain),
    ("UP", "up_s", _named("uptime_s"), span),
    ("BEHIND", "behind_mb", _named("behind_mb"), _megabytes),
    ("IN/S", "in_messages_per_second", _named("in_rate"), whole),
    ("IN MB/S", "in_mb_per_second", _named("in_mb"), plain),
    ("OUT/S", "out_messages_per_second", _named("out_rate"), whole),
    ("OUT MB/S", "out_mb_per_second", _named("out_mb"), plain),
    ("CPU", "cpu_percent", _share("cpu"), percent),
    ("RSS MB", "rss_mb", _named("rss_mb"), whole),
    ("POOL", "pool_used_percent", _share("pool"), percent),
    ("POOL MOST", "pool_most_percent", _share("pool_most"), percent),
    ("REFUSED", "refusals", _named("refusals"), whole),
    ("LAG", "lag", _named("lag"), whole),
    ("UNSYNCED", "unsynced_mb", _named("unsynced_mb"), _megabytes),
    ("CACHE", "cached_percent", _share("cached"), percent),
    ("APPEND p99", "append_p99_ms", _named("append_p99_ms"), _milliseconds),
    ("FLUSH p99", "flush_p99_ms", _named("flush_p99_ms"), _milliseconds),
    ("CONN", "connections", _named("connections"), whole),
    ("DISK", "disk_used_percent", _share("disk"), percent),
    ("PROBLEM", "problem", _named("problem"), plain),
)
_SUMS = ("in_rate", "in_mb", "out_rate", "out_mb", "cpu", "rss_mb", "refusals", "lag",
         "unsynced_mb", "connections")  # fmt: skip


def columns(shown: Sequence[str]) -> tuple[Column, ...]:
    """All columns; `shown`: the keys of those that are in every table, not only in wide ones."""
    return tuple(
        Column(heading, key, text, is_wide=key not in shown) for heading, key, _, text in _ROWS
    )


def values(row: Figures) -> list[Any]:
    return [value(row) for _, _, value, _ in _ROWS]


def refusal(error: RemoteError) -> str:
    """For BrokerSamples: why a broker does not tell, and what helps in words of commands."""
    text, hint = error.remark.strip(), error.of_access(ACCESS_HINTS)
    return f"{text} ({hint})" if hint else text


def problems(rows: Sequence[Figures]) -> list[str]:
    return [f"{row.broker} at {row.address}: {row.problem}" for row in rows if row.problem]


def show_problems(rows: Sequence[Figures]) -> None:
    for line in problems(rows):
        click.echo(printable(line), err=True)


def total(rows: Sequence[Figures]) -> Figures:
    """A row with the sums of those figures that can be added up."""
    sums: dict[str, Any] = {}
    for name in _SUMS:
        known = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        sums[name] = sum(known) if known else None
    nothing: dict[str, Any] = dict.fromkeys(Figures.__struct_fields__)
    running = sum(row.state == "running" for row in rows)
    named: dict[str, Any] = {"broker": "total", "state": f"{running} of {len(rows)}", "address": ""}
    return Figures(**nothing | sums | named)
