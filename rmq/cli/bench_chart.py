"""Bench chart: what a run measured as bars, on a terminal: its rate over time and its latencies.

    rates = Rates()
    rates.take(0.2, 93_000)             seconds and messages so far; called five times a second
    show_charts(rates.rows(), {"latency": Durations.of(result.latency)})

    messages/s
    0.4 s  ████████████████████████  480,113
    0.8 s  ███████████████████▌      391,020

    latency
    up to 100 us  ████████████████████████  310,550  66.20%
    up to 200 us  ██████████▉               141,004  30.06%

The bars are drawn by rich, if it is installed and standard output is a terminal; otherwise there
are none: all figures are in the text that is printed before them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmq.load.workload.durations import ENDS, Durations

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    MakeBar = Callable[[float, float], RenderableType]  # of a value, and of the largest value

ROWS_MAX = 20  # of the chart of the rate
STEP_S = 0.2  # between two calls of Rates.take()
BAR_WIDTH = 40
UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))
EDGES_NS = np.array([step * 10**power for power in range(13) for step in (1, 2, 5)], np.int64)


class Rates:
    """Messages a second over a run, in at most ROWS_MAX rows however long it goes on."""

    def __init__(self) -> None:
        self._moments = [(0.0, 0)]  # seconds, messages until then
        self._last = (0.0, 0)
        self._step_s = STEP_S

    def take(self, seconds: float, messages: int) -> None:
        """Notes a reading; both numbers count from the start of the run and never decrease."""
        self._last = (seconds, messages)
        if seconds - self._moments[-1][0] < self._step_s:
            return
        self._moments.append(self._last)
        if len(self._moments) > ROWS_MAX:
            self._moments = self._moments[::2]
            self._step_s *= 2

    def rows(self) -> list[tuple[float, float]]:
        """When each row ends, in seconds, and its rate."""
        moments = self._moments
        if self._last[0] > moments[-1][0]:
            moments = [*moments, self._last]
        return [
            (end, (messages - before) / (end - start))
            for (start, before), (end, messages) in pairwise(moments)
        ]


def steps(durations: Durations) -> list[tuple[int, int]]:
    """Rows (end in ns, count): the durations up to this end and above the end before.

    Ends are 1, 2, 5, 10 .. ns; the rows go from the first that is not empty to the last. A bucket
    of the histogram is counted by its own end, so a duration that is up to 0.8 % less than an end
    may be counted in the next row.
    """
    used = np.flatnonzero(durations.counts)
    if not len(used):
        return []
    at = np.minimum(np.searchsorted(EDGES_NS, ENDS[used]), len(EDGES_NS) - 1)
    counts = np.bincount(at, weights=durations.counts[used], minlength=len(EDGES_NS))
    return [(int(EDGES_NS[row]), int(counts[row])) for row in range(at[0], at[-1] + 1)]


def time_text(nanoseconds: int) -> str:
    """500_000: 500 us."""
    size, unit = next(each for each in UNITS if nanoseconds >= each[0])
    return f"{nanoseconds / size:g} {unit}"


def show_charts(rates: Sequence[tuple[float, float]], latencies: Mapping[str, Durations]) -> None:
    """rates: when each row ends, in seconds, and messages a second; latencies by their names."""
    if not sys.stdout.isatty():
        return
    try:
        from rich.console import Console
    except ImportError:
        return
    console = Console(highlight=False)
    bar = _plain_bar if console.options.ascii_only else _bar
    charts = [_rate_chart(rates, bar)] if rates else []
    charts += [_latency_chart(name, each, bar) for name, each in latencies.items() if each.count]
    for chart in charts:
        console.print()
        console.print(chart)


def _rate_chart(rates: Sequence[tuple[float, float]], bar: MakeBar) -> Table:
    chart = _chart("messages/s", figures=1)
    most = max(rate for _, rate in rates)
    for end_s, rate in rates:
        chart.add_row(f"{end_s:,.1f} s", bar(rate, most), f"{rate:,.0f}")
    return chart


def _latency_chart(name: str, durations: Durations, bar: MakeBar) -> Table:
    chart, rows = _chart(name, figures=2), steps(durations)
    most = max(count for _, count in rows)
    for end_ns, count in rows:
        share = f"{100 * count / durations.count:.2f}%"
        chart.add_row(f"up to {time_text(end_ns)}", bar(count, most), f"{count:,}", share)
    return chart


def _chart(title: str, figures: int) -> Table:
    from rich.table import Table

    chart = Table(title=title, title_justify="left", title_style="bold", box=None,
                  show_header=False, padding=(0, 2, 0, 0))  # fmt: skip
    for justify in ("right", "left", *["right"] * figures):
        chart.add_column(justify=justify, no_wrap=True)  # type: ignore[arg-type]
    return chart


def _bar(value: float, most: float) -> RenderableType:
    from rich.bar import Bar

    return Bar(most or 1, 0, value, width=BAR_WIDTH)


def _plain_bar(value: float, most: float) -> RenderableType:
    """For a terminal that knows ASCII alone."""
    return "#" * round(BAR_WIDTH * value / (most or 1))
