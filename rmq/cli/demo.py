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
              help="Number of brokers, which are replicas of each other.")  # fmt: skip
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
    help="Directory for stores and logs: empty, or of an earlier demo.  [default: a temporary "
         "one]",
)  # fmt: skip
@click.option("--kill-master", "kill_every_s", type=click.FloatRange(1), metavar="SECONDS",
              help="Kill the master (kill -9) this often.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(1), metavar="N",
              help="End after this many seconds of traffic.  [default: at Ctrl-C]")  # fmt: skip
@click.option("--interval", type=click.FloatRange(0.5), default=5.0, show_default=True,
              help="Seconds between lines of rates, if output is no terminal.")  # fmt: skip
@click.option("--tls", "by_tls", is_flag=True, help="Use TLS for all connections.")
def cluster(
    replicas: int,
    directory: Path | None,
    kill_every_s: float | None,
    seconds: float | None,
    interval: float,
    by_tls: bool,
) -> None:
    """Run a replicated cluster with traffic, and report what happens.

    Starts a name server, etcd (if it is installed), controllers and brokers as child processes on
    free ports of loopback. Kill any of them: the command reports which broker becomes master, how
    long sends stood still, and whether messages were lost.

    Ctrl-C ends the traffic and waits for the last messages. Exit code 1 if messages were lost. A
    second Ctrl-C does not wait, and ends with exit code 130.
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
