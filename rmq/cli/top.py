"""`rmq top`: of every broker or shard, what went in and out, what that cost, and where it waits.

    BROKER    STATE    IN/S   IN MB/S  OUT/S  OUT MB/S  CPU  RSS  POOL  LAG  CACHE  APPEND  FLUSH

On a terminal rich draws the table again and again in place, with --once a single time; where the
terminal is narrow, the least important columns are left out. In a pipe a table with all columns is
printed for each interval, with --json a line. The first figures come after one interval, because
rates need two samples.
"""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from rmq.base import patience
from rmq.cli import broker_figures
from rmq.cli.keys import Pause, quit_key
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column
from rmq.client.blocking.cluster import Cluster
from rmq.errors import UnreachableError
from rmq.observe.rates import Figures
from rmq.operations.broker_samples import BrokerSamples
from rmq.operations.texts import printable

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = broker_figures.columns((
    "broker", "state", "role", "epoch", "in_sync", "behind_mb", "in_messages_per_second",
    "in_mb_per_second", "out_messages_per_second", "out_mb_per_second", "cpu_percent", "rss_mb",
    "pool_used_percent", "refusals", "lag", "unsynced_mb", "cached_percent", "append_p99_ms",
    "flush_p99_ms", "connections",
))  # fmt: skip
HEADINGS = [column.heading for column in COLUMNS if not column.is_wide]
# Columns that are left out if the terminal is too narrow, in this order.
EXTRA = ("PROBLEM", "VERSION", "ADDRESS", "PID", "UP", "POOL MOST", "DISK")  # of -o wide
DISPENSABLE = ("CONN", "EPOCH", "BEHIND", "OUT MB/S", "IN MB/S", "UNSYNCED", "RSS MB", "REFUSED",
               "CACHE", "FLUSH p99", "POOL", "IN SYNC", "STATE", "LAG", "ROLE")  # fmt: skip
# Left out if that is not enough, after the names have been cut to NAME_LEAST.
LAST = ("APPEND p99", "CPU", "OUT/S", "IN/S")
NAME = "BROKER"
TEXTS = (NAME, "STATE", "ADDRESS", "VERSION", "PROBLEM")
NAME_LEAST = 12
GAP = 3  # characters of the frame for each column
EDGE = 1  # characters of the frame for the whole table


@click.command()
@namesrv_option
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=1.0, show_default=True,
              help="Seconds between two samples.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one table, for one interval, and exit.")
@output_option
def top(namesrv: str, interval: float, once: bool, output: Output) -> None:
    """Watch what the brokers are doing.

    Press q to quit. Rates are messages or MB per second of the interval.

    BEHIND is how much of a master's log the slave furthest behind lacks. EPOCH and IN SYNC are
    shown if a controller elects the master. POOL is the use of the fullest buffer pool, REFUSED how
    often a pool was empty, CACHE the share of the newest log files that is in memory. 99 of 100
    appends and syncs took no longer than APPEND and FLUSH.
    """
    is_drawn = not once and not output.is_data and sys.stdout.isatty()
    if is_drawn:
        patience.say_by(None)  # its text would be printed into the table
    with Cluster(namesrv) as cluster, quit_key(sys.stdin if is_drawn else None) as pause:
        polls = _polls(cluster, interval, pause)
        try:
            if is_drawn and _live(polls, interval, output.is_wide):
                return
            for rows in polls:
                _print(rows, output)
                sys.stdout.flush()
                if not output.is_data:
                    broker_figures.show_problems(rows)
                if once:
                    return
        except KeyboardInterrupt:
            return


def _polls(cluster: Cluster, interval: float, pause: Pause) -> Iterator[list[Figures]]:
    """Yields the rows of each interval. If name servers stop answering, says so and goes on
    asking."""
    samples = BrokerSamples(cluster, broker_figures.refusal)
    samples.poll()
    while not pause(interval):
        try:
            yield samples.poll()
        except UnreachableError as error:
            click.echo(f"rmq: {error}", err=True)


def _live(polls: Iterator[list[Figures]], interval: float, is_wide: bool) -> bool:
    """Draws in place until interrupted; False when rich is not installed."""
    try:
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        return False
    waiting = Text(f"sampling for {interval:g} s ... (press q to quit)")
    with Live(waiting, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        for rows in polls:
            live.update(_drawn(rows, live.console.width, is_wide), refresh=True)
    return True


def _print(rows: list[Figures], output: Output) -> None:
    if output.is_data or not sys.stdout.isatty():
        output.rows(COLUMNS, _values(rows, with_total=not output.is_data))
    else:
        output.rows(*fitted(rows, shutil.get_terminal_size().columns, output.is_wide))


def fitted(rows: list[Figures], width: int, is_wide: bool) -> tuple[list[Column], list[list[Any]]]:
    """The columns and rows of a table that has so many characters at most."""
    shown = [at for at, column in enumerate(COLUMNS) if is_wide or not column.is_wide]
    values = _values(rows, with_total=True)
    texts = [[COLUMNS[at].cell(row[at]) for at in shown] for row in values]
    left = fitting([COLUMNS[at].heading for at in shown], texts, width)
    columns = [_cut(COLUMNS[shown[at]], most) for at, most in left.items()]
    return columns, [[row[shown[at]] for at in left] for row in values]


def _cut(column: Column, most: int) -> Column:
    """The column; longer names of brokers are cut to so many characters."""
    if column.heading != NAME:
        return column
    return msgspec.structs.replace(column, text=functools.partial(_beginning, most))


def _beginning(most: int, name: str) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def fitting(
    headings: Sequence[str], texts: Sequence[Sequence[str]], width: int
) -> dict[int, int]:  # fmt: skip
    """The columns of these rows that fit into so many characters, each with its width."""
    left = {at: max(len(row[at]) for row in (headings, *texts)) for at in range(len(headings))}
    name = headings.index(NAME)
    full = left[name]

    def room() -> int:
        return width - EDGE - sum(each + GAP for each in left.values())

    for names in ((*EXTRA, *DISPENSABLE), LAST):
        for each in names:
            if room() < 0 and each in headings:
                del left[headings.index(each)]
        if names is not LAST and room() < 0:
            left[name] = min(full, NAME_LEAST)
    left[name] = max(1, min(full, left[name] + room()))
    return left


def _drawn(rows: list[Figures], width: int, is_wide: bool) -> Table:
    from rich import box
    from rich.table import Table

    moment = time.strftime("%H:%M:%S")
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=f"rmq top  {moment}",
                  title_justify="left")  # fmt: skip
    columns, values = fitted(rows, width, is_wide)
    for column in columns:
        justify: Literal["left", "right"] = "left" if column.heading in TEXTS else "right"
        table.add_column(column.heading, justify=justify, no_wrap=True)
    for number, row in enumerate(values):
        ill = number < len(rows) and rows[number].state != "running"
        is_total = number >= len(rows)
        style = "bold red" if ill else "bold" if is_total else None
        cells = [column.cell(value) for column, value in zip(columns, row, strict=True)]
        table.add_row(*(cell.replace("[", "\\[") for cell in cells), style=style)
    if told := [printable(each) for each in broker_figures.problems(rows)]:
        table.caption = "\n".join(told).replace("[", "\\[")
        table.caption_justify = "left"
    return table


def _values(rows: list[Figures], *, with_total: bool) -> list[list[Any]]:
    """The cells of the rows; with_total: and a last row that adds up several brokers."""
    is_added = with_total and len(rows) > 1
    added = [broker_figures.total(rows)] if is_added else []
    return [broker_figures.values(row) for row in (*rows, *added)]
