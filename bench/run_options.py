"""Run options: the options of a command that measures, its processors, folder and machine's facts.

@click.command()
@options(RESULTS, rounds=5, seconds=3.0)
def main(**given): run = RunOptions(**given)
    with run.bench() as (bench, facts): ...
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from machine import machine, page_state, touch_free_pages
from rows import Bench
from servers import place_generator

Command = Callable[..., Any]


class RunOptions(msgspec.Struct):
    rounds: int
    seconds: float
    place: str
    directory: Path | None
    results: Path
    touch: bool
    quick: bool
    publish: bool

    @contextmanager
    def bench(self) -> Iterator[tuple[Bench, dict[str, Any]]]:
        """The bench, whose folder is removed at the end, and the facts of the machine; some of
        these are added at the end."""
        if self.publish and self.quick:
            raise click.UsageError("numbers of --quick mean nothing: they are not published")
        # SIGTERM has the same effect as Ctrl-C, so that the servers are stopped, too.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        root = Path(tempfile.mkdtemp(prefix="rmq-bench-", dir=self.directory))
        try:
            facts = {**machine(root), "pages before": page_state(), "placement": self.place}
            everywhere = sorted(os.sched_getaffinity(0))
            bench = Bench(
                root, self.rounds, self.seconds, cpus=place_generator(self.place),
                all_cpus=everywhere,
            )  # fmt: skip
            if self.quick:
                bench.rounds, bench.seconds, bench.warmup, bench.warm_s_max = 1, 0.5, 0.02, 3.0
            touched = self.touch and not self.quick
            facts["free pages"] = touch_free_pages() if touched else "not touched before"
            yield bench, facts
            facts["pages after"] = page_state()
        finally:
            shutil.rmtree(root, ignore_errors=True)
            signal.signal(signal.SIGTERM, before)


def options(results: Path, rounds: int, seconds: float) -> Callable[[Command], Command]:
    """Adds an option for each field of RunOptions, with these defaults."""
    folder = click.Path(file_okay=False, path_type=Path)
    file = click.Path(dir_okay=False, path_type=Path)
    found = [
        click.option("--rounds", default=rounds, show_default=True, type=click.IntRange(1, 100)),
        click.option("--seconds", default=seconds, show_default=True, type=click.FloatRange(0.05),
                     help="Of a turn."),
        click.option("--place", type=click.Choice(["apart", "free"]), default="apart",
                     show_default=True,
                     help="apart: generators on the first CPU, servers on the others."),
        click.option("--dir", "directory", type=folder,
                     help="Where stores are; a real disk.  [default: a temporary one]"),
        click.option("--json", "results", type=file, default=results),
        click.option("--touch/--no-touch", default=True, show_default=True,
                     help="Write to all free memory first, so that no row pays for new pages."),
        click.option("--quick", is_flag=True, help="Tiny rounds, to see that everything runs."),
        click.option("--publish", is_flag=True, help="Into bench/results."),
    ]  # fmt: skip

    def decorate(command: Command) -> Command:
        for each in reversed(found):
            command = each(command)
        return command

    return decorate


def choice(name: str, known: Mapping[str, object], metavar: str) -> Callable[[Command], Command]:
    """An option with comma separated names out of `known`; without it, all of them."""

    def read(context: click.Context, option: click.Parameter, given: str) -> list[str]:
        names = [each for each in given.split(",") if each] or list(known)
        if unknown := [each for each in names if each not in known]:
            raise click.BadParameter(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return click.option(name, default="", callback=read, metavar=f"{metavar}[,{metavar}]",
                        help=f"Of: {', '.join(known)}.")  # fmt: skip
