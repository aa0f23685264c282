"""Run: the table of our broker against the bare C floor, as ratios; `make bench` runs it.

    python bench/run.py                       everything, some minutes
    python bench/run.py --only single,many    some rows
    python bench/run.py --quick               a smoke: tiny rounds, numbers mean nothing
    python bench/run.py --place free          servers and generator wherever the kernel likes

Prints a table with goal, median, spread and verdict per row; build/bench/results.json keeps every
round. The exit status is 0 when all rows were measured, whether or not they reached their goals:
the table shows a missed goal, and the command does not fail for it (with --strict it exits with 1).
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools/ is not installed

from account_rows import ACCOUNT_ROWS
from body_rows import BODY_ROWS
from filter_rows import FILTER_ROWS
from follow_rows import FOLLOW_ROWS
from machine import machine
from machine_rows import MACHINE_ROWS
from pop_rows import POP_ROWS
from replica_rows import REPLICA_ROWS
from rounds import Outcome
from rows import ROWS as BROKER_ROWS
from rows import Bench, Row
from servers import ROOT, build_floor, place_generator
from tls_rows import TLS_ROWS
from waiting_rows import WAITING_ROWS

COLOURS = {"ok": "green", "shown": "blue", "MISSED": "red", "NOISE": "yellow", "error": "red"}
HEADINGS = ("row", "goal", "median", "spread", "verdict", "measured")
ROWS = {
    **BROKER_ROWS,
    **POP_ROWS,
    **MACHINE_ROWS,
    **WAITING_ROWS,
    **FILTER_ROWS,
    **REPLICA_ROWS,
    **ACCOUNT_ROWS,
    **TLS_ROWS,
    **FOLLOW_ROWS,
    **BODY_ROWS,
}
RESULTS = ROOT / "build" / "bench" / "results.json"


def run_rows(names: list[str], bench: Bench, rows: dict[str, Row]) -> list[Outcome]:
    """All outcomes. When a row cannot be measured, its outcome says why, and the others go on."""
    outcomes: list[Outcome] = []
    for name in names:
        click.echo(f"measuring {name} ...", err=True)
        try:
            found = rows[name](bench)
        except Exception as error:  # the other rows are useful without this one
            found = Outcome(name, name, 0.0, error=f"{type(error).__name__}: {error}")
        outcomes += found if isinstance(found, list) else [found]
    return outcomes


def print_table(outcomes: list[Outcome]) -> None:
    rows = [outcome.row() for outcome in outcomes]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print_plain(rows)
        return
    table = Table(*HEADINGS)
    for row in rows:
        colour = COLOURS[row[4]]
        table.add_row(*row[:4], f"[{colour}]{row[4]}[/]", row[5].replace("[", "\\["))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


def print_plain(rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [list(HEADINGS), *rows]) for i in range(len(HEADINGS))]
    for row in [list(HEADINGS), *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def keep_rounds(outcomes: list[Outcome], described: dict[str, Any], results: Path) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": described, "rows": [outcome.as_json() for outcome in outcomes]}
    results.write_text(json.dumps(report, indent=1) + "\n")
    click.echo(f"rounds kept in {results}", err=True)


@click.command()
@click.option("--only", default="", metavar="ROW[,ROW]", help=f"Of: {', '.join(ROWS)}.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option(
    "--seconds",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.05),
    help="Counted time of one run.",
)
@click.option(
    "--place",
    type=click.Choice(["apart", "free"]),
    default="apart",
    show_default=True,
    help="apart: the generator on the first CPU, servers on the others.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where stores are put; must be on a real disk.  [default: a temporary one]",
)
@click.option("--json", "results", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS)
@click.option("--quick", is_flag=True, help="Tiny rounds, to see that everything runs.")
@click.option("--strict", is_flag=True, help="Exit with 1 when a goal is missed.")
def main(
    only: str,
    rounds: int,
    seconds: float,
    place: str,
    directory: Path | None,
    results: Path,
    quick: bool,
    strict: bool,
) -> None:
    """Measure our broker against the bare C floor."""
    names = [name for name in only.split(",") if name] or list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise click.UsageError(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    build_floor()
    described = machine()
    root = Path(tempfile.mkdtemp(prefix="rmq-bench-", dir=directory))
    everywhere = sorted(os.sched_getaffinity(0))
    bench = Bench(root, rounds, seconds, cpus=place_generator(place), all_cpus=everywhere)
    if quick:
        bench.rounds, bench.seconds, bench.warmup = 1, 0.1, 0.02
        bench.floor_file_mb, bench.restart_messages, bench.many_topics = 64, 20_000, 3
        bench.query_messages = bench.pending_timers = bench.filter_messages = 20_000
        bench.popped_messages, bench.popped_s = 20_000, 0.1
        bench.control_messages, bench.clients = 20, 100
        bench.cold_messages, bench.touched_bytes = 20_000, 64 << 20
    try:
        outcomes = run_rows(names, bench, ROWS)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print_table(outcomes)
    keep_rounds(outcomes, described, results)
    failed = any(outcome.error for outcome in outcomes)
    if failed or (strict and not all(outcome.passed for outcome in outcomes)):
        sys.exit(1)


if __name__ == "__main__":
    main()
