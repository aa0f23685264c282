"""Replicas: the table of replicas against Apache's pair, failovers, planned switches, catching up.

The cost of accounts and TLS against Apache's is here, too, because it needs Apache's broker.

    PYTHONPATH=.:tests python bench/replicas.py                  all; `make bench-replicas`
    PYTHONPATH=.:tests python bench/replicas.py --only kill      some rows

What a slave costs its master in CPU, rate and latency is shown in the table of `make bench`
(replica, replica_many, replica_rate, replica_latency).
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click
from catch_up_rows import catch_up
from cut_rows import silent_cut
from failover_rows import java_kill, kill, switch
from machine import machine
from peer_pairs import apache_pair
from rows import Bench, Row
from run import print_table, run_rows
from secured_rows import secured
from servers import ROOT, place_generator

from rmq.format import fastjson

ROWS: dict[str, Row] = {
    "apache_pair": apache_pair,
    "catch_up": catch_up,
    "kill": kill,
    "java_kill": java_kill,
    "switch": switch,
    "silent_cut": silent_cut,
    "secured": secured,
}
RESULTS = ROOT / "build" / "bench" / "replicas.json"


@click.command()
@click.option("--only", default="", metavar="ROW[,ROW]", help=f"Of: {', '.join(ROWS)}.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.05))
@click.option("--gib", default=10.0, show_default=True, help="Of the log that is caught up with.")
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
              help="Where stores are; a real disk.  [default: a temporary one]")  # fmt: skip
def main(only: str, rounds: int, seconds: float, gib: float, directory: Path | None) -> None:
    """Measure replicas, and what becomes of a master."""
    names = [name for name in only.split(",") if name] or list(ROWS)
    if unknown := [name for name in names if name not in ROWS]:
        raise click.UsageError(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    described = machine()
    root = Path(tempfile.mkdtemp(prefix="rmq-bench-", dir=directory))
    everywhere = sorted(os.sched_getaffinity(0))
    bench = Bench(root, rounds, seconds, cpus=place_generator("free"), all_cpus=everywhere)
    bench.catch_up_bytes = int(gib * (1 << 30))
    try:
        outcomes = run_rows(names, bench, ROWS)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print_table(outcomes)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": described, "rows": [outcome.as_json() for outcome in outcomes]}
    RESULTS.write_text(fastjson.dumps(report).decode() + "\n")
    if any(outcome.error for outcome in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
