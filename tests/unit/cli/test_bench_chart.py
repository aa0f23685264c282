"""What `rmq bench` draws of a run: every message once, in rows that stay few, and only for people.

Method: histograms are filled here, with the rates of runs of a second and of a day, without waiting
for either; and a real run on a pseudo-terminal and through a pipe.
"""

import json
from itertools import pairwise

import pytest
from support.terminal import rmq_on_terminal
from support.tree_process import run_python

from cext.load.histogram import Histogram
from rmq.cli.bench_chart import ROWS_MAX, STEP_S, Rates, steps, time_text
from rmq.load.workload.durations import Durations

FULL = "█" * 40


def durations(*values_ns: int) -> Durations:
    histogram = Histogram()
    for value in values_ns:
        histogram.add(value)
    return Durations.of(histogram)


def test_every_latency_stands_in_the_row_it_is_less_than_the_end_of() -> None:
    found = steps(durations(3_000, 4_000, 15_000, 15_000, 900_000))
    assert found[0] == (5_000, 2)
    assert found[-1] == (1_000_000, 1)
    assert dict(found)[20_000] == 2
    assert [end for end, count in found if not count] == [10_000, 50_000, 100_000, 200_000, 500_000]


def test_none_is_lost_however_short_or_long_it_took() -> None:
    values = [0, 1, 2, 999, 10**6, 10**9, 59 * 10**9, 4_000 * 10**9]
    found = steps(durations(*values))
    assert sum(count for _, count in found) == len(values)
    assert all(lower < upper for (lower, _), (upper, _) in pairwise(found))
    assert steps(durations()) == []


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(500, "500 ns"), (1_000, "1 us"), (200_000, "200 us"), (5 * 10**6, "5 ms"),
     (10 * 10**9, "10 s")],
)  # fmt: skip
def test_an_end_has_the_unit_that_fits(nanoseconds: int, text: str) -> None:
    assert time_text(nanoseconds) == text


@pytest.mark.parametrize("looks", [0, 1, ROWS_MAX, 5 * ROWS_MAX, 24 * 3600 * 5])
def test_rates_stay_few_and_count_every_message_once(looks: int) -> None:
    rates = Rates()
    for look in range(1, looks + 1):
        rates.take(look * STEP_S, look * look)
    rows = rates.rows()
    assert len(rows) <= ROWS_MAX + 1
    assert len(rows) >= min(looks, ROWS_MAX // 2)
    ends = [0.0, *(end for end, _ in rows)]
    counted = sum((end - begin) * rate for begin, (end, rate) in zip(ends, rows, strict=False))
    assert ends[-1] == pytest.approx(looks * STEP_S)
    assert counted == pytest.approx(looks * looks)


def test_a_pause_is_a_row_without_messages() -> None:
    rates = Rates()
    for second, messages in ((1.0, 500), (2.0, 500), (3.0, 900)):
        rates.take(second, messages)
    assert rates.rows() == [(1.0, 500.0), (2.0, 0.0), (3.0, 400.0)]


def test_a_terminal_has_bars_below_the_text() -> None:
    shown = rmq_on_terminal("bench", "pingpong", "--duration", 0.2)
    assert shown.code == 0
    text, chart = shown.text.split("\r\nlatency ", 2)[1:]
    assert "p50 " in text
    rows = [row for row in chart.splitlines()[1:] if row.strip()]
    assert all(row.strip().startswith("up to ") and row.rstrip().endswith("%") for row in rows)
    assert sum(FULL in row for row in rows) >= 1
    shares = [float(row.split()[-1].rstrip("%")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.01 * len(rows))


def test_a_pipe_has_none_and_a_program_reads_data_on_a_terminal_too() -> None:
    piped = run_python("-m", "rmq", "bench", "pingpong", "--duration", "0.1")
    assert piped.returncode == 0
    assert "latency us" in piped.stdout and "up to " not in piped.stdout
    shown = rmq_on_terminal("bench", "pingpong", "--duration", 0.1, "-o", "json")
    assert json.loads(shown.text)["messages"] > 0
