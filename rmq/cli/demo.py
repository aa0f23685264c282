"""`rmq demo cluster`: a cluster of replicas on this machine, to see what it does."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rmq.cli.signals import end_as_ctrl_c


@click.group()
def demo() -> None:
    """Run a demo cluster on this machine."""


@demo.command()
@click.option("--replicas", type=click.IntRange(2, 9), default=3, show_default=True,
              help="Brokers of the one name.")  # fmt: skip
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
    help="Where stores and logs are; empty, or of an earlier demo.  [default: one that goes at "
         "the end]",
)  # fmt: skip
@click.option("--kill-master", "kill_every_s", type=click.FloatRange(1), metavar="SECONDS",
              help="Kill the master (kill -9) so often.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(1), metavar="N",
              help="End after so many seconds of traffic.  [default: at Ctrl-C]")  # fmt: skip
@click.option("--interval", type=click.FloatRange(0.5), default=5.0, show_default=True,
              help="Seconds between two lines of rates, where there is no terminal.")  # fmt: skip
@click.option("--tls", "by_tls", is_flag=True, help="Have all of them speak TLS alone.")
def cluster(
    replicas: int,
    directory: Path | None,
    kill_every_s: float | None,
    seconds: float | None,
    interval: float,
    by_tls: bool,
) -> None:
    """Run brokers under a controller, with traffic, and tell what happens.

    Name server, etcd (if it is installed), controllers and brokers are child processes on free
    ports of loopback, and end with this one. Kill what you like: it says who is master then, how
    long sends stood still, and what was lost. Exit code 1 when anything was. Another Ctrl-C does
    not wait for the last messages: it says what is known then, with exit code 130.
    """
    import tempfile

    from rmq.demo.run import Options, run_demo

    end_as_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="rmq-demo-") as own:
        where = directory.expanduser().absolute() if directory is not None else Path(own)
        options = Options(where, replicas, kill_every_s, seconds, interval, by_tls)
        lost = run_demo(options)
    if lost:
        sys.exit(1)
