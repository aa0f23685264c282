"""Nanoseconds of each stage, by pytest-benchmark: `make bench-stages`, not part of the suite.

A time in pytest-benchmark's table is that of a round, which does as many operations as the stage's
row in table.py says. The ns per operation are printed above this table, and are in each stage's
extra_info. A whole turn gets a new core for each round, so that all rounds store and pop the same.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bench.stages.table import STAGES
from bench.stages.turns import TURNS, Run

ROUNDS = 30
TURN_ROUNDS = 7
_found: dict[str, float] = {}


@pytest.fixture(scope="module", autouse=True)
def summary(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print()
        for name, ns in _found.items():
            print(f"{name:14} {ns:10.1f} ns   {STAGES[name].title}")


@pytest.mark.parametrize("name", STAGES)
def test_stage(name: str, benchmark: Any, tmp_path: Path) -> None:
    case = STAGES[name]
    folders = count()

    def opened() -> tuple[tuple[Run], dict[str, Any]]:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        run = case.open(folder)
        run(case.operations)
        return (run,), {}

    def measured(run: Run) -> None:
        run(case.operations)

    if name in TURNS:
        benchmark.pedantic(measured, setup=opened, rounds=TURN_ROUNDS)
    else:
        benchmark.pedantic(measured, opened()[0], rounds=ROUNDS)
    ns = median(benchmark.stats.stats.data) / case.operations * 1e9
    benchmark.extra_info["ns_per_operation"] = ns
    _found[name] = ns
