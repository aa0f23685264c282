"""Peers: our broker measured beside its peers, in turns; `make bench-peers`.

    python bench/peers.py                                everything; 110 minutes
    python bench/peers.py --only single-256,many-256     some rows
    python bench/peers.py --peers rmq,apache             some peers
    python bench/peers.py --go-on                        the rows that the last run lacks
    python bench/peers.py --publish                      into bench/results and README.md, too

Every turn is kept in build/bench/peers.json, and a page is made beside that file (bench/page.py).
The exit status is 1 when a row has an error; a peer that does not offer a load is not an error.
"""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools/ is not installed

import page
from comparison import Comparison, Row, load, save
from kafka_peer import KafkaPeer
from machine import commit
from nats_peer import NatsPeer
from peer import Peer, Shape
from peer_rows import SHAPES, measured
from rocketmq_peers import Apache, Rmq
from rows import Bench
from run_options import RunOptions, choice, options
from servers import ROOT

PEERS: dict[str, type[Peer]] = {each.key: each for each in (Rmq, Apache, NatsPeer, KafkaPeer)}
RESULTS = ROOT / "build" / "bench" / "peers.json"
QUICK = {"topics": 3, "filled": 2_000}  # the most that a shape may have with --quick


@click.command()
@choice("--only", SHAPES, "ROW")
@choice("--peers", PEERS, "PEER")
@click.option(
    "--go-on",
    is_flag=True,
    help="Keep rows of the results there are that have no error, and measure the others; also "
    "those whose load is another now.",
)
@options(RESULTS, rounds=5, seconds=3.0)
def main(only: list[str], peers: list[str], go_on: bool, **given: Any) -> None:
    """Measure our broker beside its peers; --publish puts the table into README.md, too."""
    run = RunOptions(**given)
    with run.bench() as (bench, facts):
        found = Comparison(facts, commit(), bench.rounds, bench.seconds)
        if go_on and run.results.exists():
            keep(found, load(run.results))
        kept = {row.name for row in found.rows}
        for name in only:
            if name in kept:
                continue
            click.echo(f"measuring {name} ...", err=True)
            shape = smaller(SHAPES[name]) if run.quick else SHAPES[name]
            add(found, shape, bench, peers)
            save(found, run.results)  # so that an interrupted run keeps what it has measured
    save(found, run.results)
    click.echo(page.write(run.results, None))
    if run.publish:
        save(found, page.RESULTS)
        click.echo(page.write(page.RESULTS, page.README))
    errors = [
        f"{row.name}, {key}: {cell.error}"
        for row in found.rows
        for key, cell in row.cells.items()
        if cell.error
    ]
    if errors:
        click.echo("\n".join(errors), err=True)
        sys.exit(1)


def smaller(shape: Shape) -> Shape:
    least = {key: min(most, getattr(shape, key)) for key, most in QUICK.items()}
    return msgspec.structs.replace(shape, **least)


def keep(found: Comparison, before: Comparison) -> None:
    """Keeps the rows of an earlier run. A row compares peers that took turns with each other, so
    its result does not depend on the other rows."""
    made = f"{before.machine.get('time', '')[:16]}, commit {before.commit}"
    for row in before.rows:
        if not row.has_error and is_of_today(row):
            row.measured = row.measured or made
            found.rows.append(row)
    found.servers, found.synced = before.servers, before.synced


def is_of_today(row: Row) -> bool:
    """Whether the row was measured with the shape that it has now."""
    return msgspec.convert(row.load, Shape) == SHAPES.get(row.name)


def add(found: Comparison, shape: Shape, bench: Bench, peers: list[str]) -> None:
    """Measures a row and adds it."""
    row, servers = measured(shape, bench, [PEERS[key] for key in peers])
    found.rows.append(row)
    found.rows.sort(key=lambda each: list(SHAPES).index(each.name))
    # The page describes the servers of rows without SYNC_FLUSH: most rows are such.
    found.servers = servers | found.servers if shape.sync else found.servers | servers
    if shape.sync:
        found.synced |= servers


if __name__ == "__main__":
    main()
