"""Tables: the table of what people use directly: topics and stores as tables, console, commands.

    PYTHONPATH=.:tests python bench/tables.py                    all; `make bench-tables`
    PYTHONPATH=.:tests python bench/tables.py --only scan_parquet,threads
    PYTHONPATH=.:tests python bench/tables.py --quick            a smoke: numbers mean nothing

read_spark needs Java; read_kafka a JDK, Maven and confluent-kafka (the extra `peers`); console
Chromium and its driver.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools/ is not installed

from command_rows import COMMAND_ROWS
from console_rows import CONSOLE_ROWS
from machine import commit, machine
from rows import Bench, Row
from run import keep_rounds, print_table, run_rows
from servers import ROOT, place_generator
from table_rows import TABLE_ROWS

ROWS: dict[str, Row] = {**TABLE_ROWS, **CONSOLE_ROWS, **COMMAND_ROWS}
RESULTS = ROOT / "build" / "bench" / "tables.json"


@click.command()
@click.option("--only", default="", metavar="ROW[,ROW]", help=f"Of: {', '.join(ROWS)}.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option("--millions", default=50.0, show_default=True,
              help="Of messages in the store of `browse`; 12 GB for 50.")  # fmt: skip
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
              help="Where stores are; a real disk.  [default: a temporary one]")  # fmt: skip
@click.option("--json", "results", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS)
@click.option("--quick", is_flag=True, help="Tiny rounds, to see that everything runs.")
def main(
    only: str, rounds: int, millions: float, directory: Path | None, results: Path, quick: bool
) -> None:
    """Measure tables, console and commands."""
    names = [name for name in only.split(",") if name] or list(ROWS)
    if unknown := [name for name in names if name not in ROWS]:
        raise click.UsageError(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    described = {**machine(), "commit": commit()}
    root = Path(tempfile.mkdtemp(prefix="rmq-bench-", dir=directory))
    everywhere = sorted(os.sched_getaffinity(0))
    bench = Bench(root, rounds, cpus=place_generator("free"), all_cpus=everywhere)
    bench.browsed_messages = int(millions * 1e6)
    if quick:
        bench.rounds, bench.table_rows, bench.browsed_messages = 1, 2_000, 2_000
        bench.console_topics, bench.console_groups, bench.command_runs = 30, 5, 1
    try:
        outcomes = run_rows(names, bench, ROWS)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print_table(outcomes)
    keep_rounds(outcomes, described, results)
    if any(outcome.error for outcome in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
