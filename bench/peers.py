"""Our broker beside its peers, in turns: `make bench-peers`.

    python bench/peers.py                                everything; 110 minutes
    python bench/peers.py --only single-256,many-256     some rows
    python bench/peers.py --peers rmq,apache             some peers
    python bench/peers.py --go-on                        what a run that was ended lacks
    python bench/peers.py --publish                      into bench/results and README.md, too

Keeps every turn in build/bench/peers.json and makes a page of it beside (bench/page.py). The exit
status is 1 when a row has an error; that a peer has no such load is none.
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
QUICK = {"topics": 3, "filled": 2_000}  # at most, of a shape


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
            save(found, run.results)  # what was measured so far is worth having
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
    """Rows of a run before. A row is measured by itself, peers in turns: what it says does not
    change by the rows beside it."""
    made = f"{before.machine.get('time', '')[:16]}, commit {before.commit}"
    for row in before.rows:
        if not row.has_error and is_of_today(row):
            row.measured = row.measured or made
            found.rows.append(row)
    found.servers, found.synced = before.servers, before.synced


def is_of_today(row: Row) -> bool:
    """It was measured as it would be now."""
    return msgspec.convert(row.load, Shape) == SHAPES.get(row.name)


def add(found: Comparison, shape: Shape, bench: Bench, peers: list[str]) -> None:
    """A row more."""
    row, servers = measured(shape, bench, [PEERS[key] for key in peers])
    found.rows.append(row)
    found.rows.sort(key=lambda each: list(SHAPES).index(each.name))
    # Those of the other rows are what most of the page is about.
    found.servers = servers | found.servers if shape.sync else found.servers | servers
    if shape.sync:
        found.synced |= servers


if __name__ == "__main__":
    main()
