"""`rmq top`: every broker or shard, what went in and out, what it cost, where it waits.

    BROKER    STATE    IN/S   IN MB/S  OUT/S  OUT MB/S  CPU  RSS  POOL  LAG  CACHE  APPEND  FLUSH

On a terminal the table stands and changes (rich), and what matters least is left out where the
terminal is narrow; in a pipe each interval prints one; --json prints one line an interval. The
first figures come after one interval: rates need two samples.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from rmq.cli.keys import Pause, quit_key
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_json, show_rows
from rmq.client.blocking.cluster import Cluster
from rmq.errors import UnreachableError
from rmq.observe.rates import Figures
from rmq.operations.broker_samples import BrokerSamples

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("BROKER", "STATE", "ROLE", "EPOCH", "IN SYNC", "BEHIND", "IN/S", "IN MB/S", "OUT/S",
           "OUT MB/S", "CPU", "RSS MB", "POOL", "REFUSED", "LAG", "UNSYNCED", "CACHE", "APPEND p99",
           "FLUSH p99", "CONN")  # fmt: skip
# What a narrow terminal does without, first to last.
DISPENSABLE = ("CONN", "EPOCH", "BEHIND", "OUT MB/S", "IN MB/S", "UNSYNCED", "RSS MB", "REFUSED",
               "CACHE", "FLUSH p99", "POOL", "IN SYNC", "STATE", "LAG", "ROLE")  # fmt: skip
GAP = 3  # what the frame takes for each column


@click.command()
@namesrv_option
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=1.0, show_default=True,
              help="Seconds between two samples.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one table, of one interval, and end.")
@json_option
def top(namesrv: str, interval: float, once: bool, as_json: bool) -> None:
    """Watch what the brokers are doing.

    BEHIND is what the slave that has least lacks of its master's log; EPOCH and IN SYNC are there
    where a controller says who is master. POOL is the fullest buffer pool, REFUSED how often one
    was empty in the interval, CACHE how much of the newest log files is in memory, APPEND and FLUSH
    the time that 99 of 100 messages and syncs stayed below. q ends it.
    """
    is_drawn = not once and not as_json and sys.stdout.isatty()
    with Cluster(namesrv) as cluster, quit_key(sys.stdin if is_drawn else None) as pause:
        polls = _polls(cluster, interval, pause)
        try:
            if is_drawn and _live(polls, interval):
                return
            for rows in polls:
                if as_json:
                    show_json(rows)
                else:
                    show_rows(COLUMNS, _table_rows(rows), False)
                sys.stdout.flush()
                if once:
                    return
        except KeyboardInterrupt:
            return


def _polls(cluster: Cluster, interval: float, pause: Pause) -> Iterator[list[Figures]]:
    """Rows, one set an interval; name servers that go away later are waited for."""
    samples = BrokerSamples(cluster)
    samples.poll()
    while not pause(interval):
        try:
            yield samples.poll()
        except UnreachableError as error:
            click.echo(f"rmq top: {error}", err=True)


def _live(polls: Iterator[list[Figures]], interval: float) -> bool:
    """Draws in place until interrupted; False when rich is not installed."""
    try:
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        return False
    waiting = Text(f"sampling for {interval:g} s ... (q ends it)")
    with Live(waiting, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        for rows in polls:
            live.update(_drawn(rows, live.console.width), refresh=True)
    return True


def fitting(texts: list[list[str]], width: int) -> list[int]:
    """The columns of these rows (headings first) that fit in so many characters."""
    left = list(range(len(COLUMNS)))
    widths = [max(len(row[at]) for row in texts) + GAP for at in left]
    for name in DISPENSABLE:
        if sum(widths[at] for at in left) <= width:
            break
        left.remove(COLUMNS.index(name))
    return left


def _drawn(rows: list[Figures], width: int) -> Table:
    from rich import box
    from rich.table import Table

    moment = time.strftime("%H:%M:%S")
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=f"rmq top  {moment}",
                  title_justify="left")  # fmt: skip
    texts = [["-" if cell is None else cell for cell in cells] for cells in _table_rows(rows)]
    columns = fitting([list(COLUMNS), *texts], width)
    for at in columns:
        table.add_column(COLUMNS[at], justify="left" if at < 2 else "right", no_wrap=True)
    for number, cells in enumerate(texts):
        ill = number < len(rows) and rows[number].state != "running"
        total = number >= len(rows)
        shown = [cells[at].replace("[", "\\[") for at in columns]
        table.add_row(*shown, style="bold red" if ill else "bold" if total else None)
    return table


def _table_rows(rows: list[Figures]) -> list[list[str | None]]:
    """The cells as text; with several brokers a last row adds them up."""
    texts = [_cells(row) for row in rows]
    if len(rows) > 1:
        texts.append(
            ["total", f"{sum(row.state == 'running' for row in rows)} of {len(rows)}",
             None, None, None, None,
             _count(_sum(rows, "in_rate")), _tenths(_sum(rows, "in_mb")),
             _count(_sum(rows, "out_rate")), _tenths(_sum(rows, "out_mb")),
             _percent(_sum(rows, "cpu")), _count(_sum(rows, "rss_mb")), None,
             _count(_sum(rows, "refusals")), _count(_sum(rows, "lag")),
             _megabytes(_sum(rows, "unsynced_mb")), None, None, None,
             _count(_sum(rows, "connections"))]
        )  # fmt: skip
    return texts


def _cells(row: Figures) -> list[str | None]:
    return [
        row.broker,
        row.state,
        row.role or None,
        _count(row.epoch),
        _count(row.in_sync),
        _megabytes(row.behind_mb),
        _count(row.in_rate),
        _tenths(row.in_mb),
        _count(row.out_rate),
        _tenths(row.out_mb),
        _percent(row.cpu),
        _count(row.rss_mb),
        _percent(row.pool),
        _count(row.refusals),
        _count(row.lag),
        _megabytes(row.unsynced_mb),
        _percent(row.cached),
        _milliseconds(row.append_p99_ms),
        _milliseconds(row.flush_p99_ms),
        _count(row.connections),
    ]


def _sum(rows: list[Figures], name: str) -> float | None:
    known = [getattr(row, name) for row in rows if getattr(row, name) is not None]
    return sum(known) if known else None


def _count(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}"


def _tenths(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{value:.0%}"


def _megabytes(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f} MB"


def _milliseconds(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value * 1000:.0f} us" if value < 1 else f"{value:.1f} ms"
