"""Our broker beside its peers, in turns: `make bench-peers`.

    python bench/peers.py                                everything; 90 minutes
    python bench/peers.py --only single-256,many-256     some rows
    python bench/peers.py --peers rmq,apache             some peers
    python bench/peers.py --publish                      into bench/results and README.md, too

Keeps every turn in build/bench/peers.json and makes a page of it beside (bench/page.py). The exit
status is 1 when a row has an error; that a peer has no such load is none.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools/ is not installed

import page
from comparison import Comparison, save
from kafka_peer import KafkaPeer
from machine import commit, machine, page_state, touch_free_pages
from nats_peer import NatsPeer
from peer import Peer
from peer_rows import SHAPES, measured
from rocketmq_peers import Apache, Rmq
from rows import Bench
from servers import ROOT, place_generator

PEERS: dict[str, type[Peer]] = {each.key: each for each in (Rmq, Apache, NatsPeer, KafkaPeer)}
RESULTS = ROOT / "build" / "bench" / "peers.json"
QUICK = {"topics": 3, "filled": 2_000}  # at most, of a shape


def among(known: dict[str, object]) -> Callable[..., list[str]]:
    """A comma separated option: its words, or all."""

    def read(context: click.Context, option: click.Parameter, given: str) -> list[str]:
        names = [name for name in given.split(",") if name] or list(known)
        if unknown := [name for name in names if name not in known]:
            raise click.BadParameter(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return read


@click.command()
@click.option("--only", "rows", default="", callback=among({**SHAPES}), metavar="ROW[,ROW]",
              help=f"Of: {', '.join(SHAPES)}.")  # fmt: skip
@click.option("--peers", default="", callback=among({**PEERS}), metavar="PEER[,PEER]",
              help=f"Of: {', '.join(PEERS)}.")  # fmt: skip
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option("--seconds", default=3.0, show_default=True, type=click.FloatRange(0.05),
              help="Of a turn.")  # fmt: skip
@click.option("--place", type=click.Choice(["apart", "free"]), default="apart", show_default=True,
              help="apart: generators on the first CPU, servers on the others.")  # fmt: skip
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
              help="Where stores are; a real disk.  [default: a temporary one]")  # fmt: skip
@click.option("--json", "results", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS)
@click.option("--quick", is_flag=True, help="Tiny rounds, to see that everything runs.")
@click.option("--publish", is_flag=True, help="Into bench/results and README.md.")
def main(
    rows: list[str], peers: list[str], rounds: int, seconds: float, place: str,
    directory: Path | None, results: Path, quick: bool, publish: bool,
) -> None:  # fmt: skip
    """Measure our broker beside its peers."""
    if publish and quick:
        raise click.UsageError("numbers of --quick mean nothing: they are not published")
    # SIGTERM ends like Ctrl-C, so that the servers are stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = Path(tempfile.mkdtemp(prefix="rmq-bench-", dir=directory))
    found = Comparison({**machine(root), "pages before": page_state()}, commit(), rounds, seconds)
    everywhere = sorted(os.sched_getaffinity(0))
    bench = Bench(root, rounds, seconds, cpus=place_generator(place), all_cpus=everywhere)
    found.machine["placement"] = place
    found.machine["free pages"] = "not touched before" if quick else touch_free_pages()
    if quick:
        bench.rounds, bench.seconds, bench.warmup, bench.warm_s_max = 1, 0.5, 0.02, 3.0
        found.rounds, found.seconds = bench.rounds, bench.seconds
    try:
        for name in rows:
            click.echo(f"measuring {name} ...", err=True)
            shape = SHAPES[name]
            if quick:
                least = {key: min(most, getattr(shape, key)) for key, most in QUICK.items()}
                shape = msgspec.structs.replace(shape, **least)
            row, servers = measured(shape, bench, [PEERS[key] for key in peers])
            found.rows.append(row)
            # Those of the other rows are what most of the page is about.
            found.servers = found.servers | servers if not shape.sync else servers | found.servers
            if shape.sync:
                found.synced |= servers
            save(found, results)  # what was measured so far is worth having
    finally:
        shutil.rmtree(root, ignore_errors=True)
    found.machine["pages after"] = page_state()
    save(found, results)
    click.echo(page.write(results, None))
    if publish:
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


if __name__ == "__main__":
    main()
