"""Growth run: measures what a message costs our broker as its world grows; `make bench-growth`.

    python bench/growth.py                          every dimension; 30 minutes
    python bench/growth.py --only queues,body       some
    python bench/growth.py --publish                into bench/results, too

Each size (bench/dimensions.py) is measured beside the smallest one in slices that take turns,
forwards and backwards, so that both have the machine in the same state. Every round is kept in
build/bench/growth.json, and a page is made beside that file (bench/growth_page.py). The exit status
is 1 when a size has an error.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import growth_page
from comparison import save
from dimensions import DIMENSIONS, Dimension
from growth_results import Grown, Growth, Point
from machine import commit
from rows import Bench, in_rounds
from run_options import RunOptions, choice, options
from servers import ROOT

RESULTS = ROOT / "build" / "bench" / "growth.json"
QUICK_MESSAGES = 2_000
DISK_SHARE = 3  # a size may take one third of the free disk space


@click.command()
@choice("--only", DIMENSIONS, "DIMENSION")
@options(RESULTS, rounds=5, seconds=2.0)
def main(only: list[str], **given: Any) -> None:
    """Measure what a message costs as queues, connections, backlog .. grow."""
    run = RunOptions(**given)
    with run.bench() as (bench, facts):
        if run.quick:
            bench.seconds, bench.filter_messages = 0.1, QUICK_MESSAGES
        found = Growth(facts, commit(), bench.rounds, bench.seconds)
        for key in only:
            click.echo(f"measuring {key} ...", err=True)
            sizes = DIMENSIONS[key].quick if run.quick else DIMENSIONS[key].sizes
            found.dimensions[key] = grown(DIMENSIONS[key], sizes, bench)
            save(found, run.results)  # so that an interrupted run keeps what it has measured
    save(found, run.results)
    click.echo(growth_page.write(run.results))
    if run.publish:
        save(found, growth_page.RESULTS)
        click.echo(growth_page.write(growth_page.RESULTS))
    errors = [
        f"{key}, {point.size:,}: {point.error}"
        for key, each in found.dimensions.items()
        for point in each.points
        if point.error
    ]
    if errors:
        click.echo("\n".join(errors), err=True)
        sys.exit(1)


def grown(dimension: Dimension, sizes: tuple[int, ...], bench: Bench) -> Grown:
    """Measures all sizes for which the disk has room."""
    some = [size for size in sizes if has_room(bench.root, size * dimension.disk_bytes)]
    smallest, *others = [Point(size) for size in some]
    found = Grown(dimension.title, dimension.unit, [smallest])
    if len(some) < len(sizes):
        left_out = ", ".join(f"{size:,}" for size in sizes if size not in some)
        found.note = f"The disk had no room for {left_out}."
    with telling(smallest), dimension.at(bench, smallest.size) as least:
        for point in others:
            with telling(point), dimension.at(bench, point.size) as load:
                for one, other in in_rounds(bench, least.slice, load.slice):
                    smallest.add(one, one)
                    point.add(other, one)
            found.points.append(point)
    return found


@contextmanager
def telling(point: Point) -> Iterator[None]:
    """Writes an error of the block into the point, so that the other points are still measured."""
    try:
        yield
    except Exception as error:
        point.error = f"{type(error).__name__}: {error}"


def has_room(folder: Path, size_bytes: int) -> bool:
    return size_bytes * DISK_SHARE <= shutil.disk_usage(folder).free


if __name__ == "__main__":
    main()
