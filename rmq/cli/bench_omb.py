"""`rmq bench omb`: workload files of the OpenMessaging benchmark, without its JVM.

rmq bench omb 1-topic-16-partitions-1kb.yaml -n 127.0.0.1:9876
rmq bench omb workloads/*.yaml --duration 60 --warmup 10
rmq bench omb 1-topic-16-partitions-1kb.yaml --out - | jq .aggregatedPublishLatency99pct
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmq.cli.account_options import account_options
from rmq.cli.main import NAMESRV_VARIABLE
from rmq.cli.options import own_cluster
from rmq.cli.signals import end_as_ctrl_c
from rmq.cli.store_places import progress_bar
from rmq.cli.streams import say
from rmq.errors import ConfigError
from rmq.operations.texts import counted
from rmq.system.descriptors import open_files_max

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmq.load.workload.durations import Durations
    from rmq.load.workload.figures import Figures, Period
    from rmq.load.workload.measurements import Measured
    from rmq.load.workload.run import Plan
    from rmq.load.workload.settings import Settings

STANDARD_OUTPUT = Path("-")
PERCENTS = (50.0, 99.0, 99.9)
HEAD = (f"{'time':>8}  {'wanted/s':>12}  {'published/s':>12}  {'failed/s':>8}"
        f"  {'consumed/s':>12}  {'behind':>12}"
        f"  {'publish ms p50/p99/p99.9/max':>36}"
        f"  {'end to end ms p50/p99/p99.9/max':>36}")  # fmt: skip


@click.command()
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...",
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@click.option("-n", "--namesrv", default="127.0.0.1:9876", show_default=True,
              envvar=NAMESRV_VARIABLE, show_envvar=True, metavar="HOST:PORT",
              callback=own_cluster, is_eager=True, help="Addresses of name servers.")  # fmt: skip
@click.option("--duration", "-d", type=click.FloatRange(0, min_open=True),
              help="Seconds to measure, instead of the minutes in the file.")  # fmt: skip
@click.option("--warmup", type=click.FloatRange(0),
              help="Seconds of load before that, instead of the minutes in the file.")  # fmt: skip
@click.option("--interval", default=10.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds between rows, and between entries of the result.")  # fmt: skip
@click.option("--window", "-w", default=1024, show_default=True, type=click.IntRange(1, 100_000),
              help="Open requests per producer.")  # fmt: skip
@click.option("--driver", default="rmq", show_default=True,
              help="Name of the measured system in the result.")  # fmt: skip
@click.option("--pid", "pids", multiple=True, type=int,
              help="Print CPU seconds of this process per million messages "
                   "(repeatable).")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
              help="File of the result, - for standard output.  "
                   "[default: WORKLOAD-DRIVER-TIME.json]")  # fmt: skip
@account_options
def omb(
    workloads: tuple[Path, ...], namesrv: str, duration: float | None, warmup: float | None,
    interval: float, window: int, driver: str, pids: tuple[int, ...], out: Path | None,
) -> None:  # fmt: skip
    """Run workload files of the OpenMessaging benchmark.

    New topics are created, and deleted at the end. Each producer of the file is a connection with
    WINDOW open requests, each consumer one with an open pull for each of its queues. If the file
    has no producerRate, the highest rate that consumers keep up with is searched for, as the
    benchmark does.

    Publish latencies count from when a message was sent, as in the benchmark; end-to-end latencies
    from when it was due. The result is a JSON file in the benchmark's format. Ctrl-C ends the
    measurement and keeps the result.
    """
    from rmq.load.workload.run import Plan, WorkloadRun
    from rmq.load.workload.settings import read_settings

    if out is not None and len(workloads) > 1:
        raise click.UsageError("--out works with one workload; without it, each gets its own file")
    place_of_results(out)
    plan = Plan(duration, warmup, interval, window, driver, pids, open_files_max())
    found = [(path, *read_settings(path)) for path in workloads]
    runs = [WorkloadRun(settings, namesrv, plan) for _, settings, _ in found]
    echo = partial(say, err=out == STANDARD_OUTPUT)
    end_as_ctrl_c()
    for run, (path, settings, unknown) in zip(runs, found, strict=True):
        if unknown:
            say(f"{path}: unknown keys are ignored: {', '.join(unknown)}", err=True)
        echo(f"{settings.name}: {described(settings)}\n{HEAD}")
        ended = partial(end, path, settings, plan, out, echo)
        measured = run.measure(lambda period: echo(row(period)), tell, progress_bar, ended)
        if measured.error is not None:
            raise measured.error
        if measured.is_interrupted:
            break


def described(settings: Settings) -> str:
    rate = f"{settings.producer_rate:,}/s" if settings.producer_rate else "the rate that holds"
    return ", ".join(
        (
            f"{counted(settings.topics, 'topic')} of "
            f"{counted(settings.partitions_per_topic, 'queue')}",
            f"messages of {counted(settings.message_size, 'byte')}",
            rate,
            counted(settings.producers_per_topic, "producer"),
            f"{counted(settings.subscriptions_per_topic, 'subscription')} of "
            f"{counted(settings.consumer_per_subscription, 'consumer')}",
        )
    )


def tell(what: str) -> None:
    say(f"  {what} ...", err=True)


def row(period: Period) -> str:
    return (
        f"{period.elapsed_s:>6.0f} s  {period.rate:>12,.0f}{rates(period.figures)}  "
        f"{period.backlog:>12,}{latencies(period.figures)}"
    )


def rates(figures: Figures) -> str:
    failed = figures.failed_sends.total()
    return "".join(
        f"  {count / figures.seconds:>{width},.0f}"
        for count, width in ((figures.sent, 12), (failed, 8), (figures.received, 12))
    )


def latencies(figures: Figures) -> str:
    return "".join(f"  {in_ms(each):>36}" for each in (figures.publish, figures.end_to_end))


def in_ms(durations: Durations) -> str:
    if not durations.count:
        return "-"
    values = (*durations.percentiles_ns(PERCENTS), durations.maximum_ns)
    return "/".join(f"{value / 1e6:.2f}" for value in values)


def place_of_results(out: Path | None) -> None:
    """ConfigError: the result cannot be written there. Checked before the run, which takes long."""
    if out == STANDARD_OUTPUT:
        return
    folder = out.parent if out is not None else Path()
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder}: not a writable directory; choose a file with --out")


def place(workload: Path, driver: str) -> Path:
    return Path(f"{workload.stem}-{driver}-{time.strftime('%Y-%m-%d-%H-%M-%S')}.json")


def end(
    workload: Path, settings: Settings, plan: Plan, out: Path | None, echo: Callable[[str], None],
    measured: Measured,
) -> None:  # fmt: skip
    """Writes the result, then prints the lines: perhaps nobody reads standard output any more."""
    from rmq.load.workload.result import result_members

    members = result_members(settings, plan.driver, measured.periods, measured.whole)
    chosen = out or place(workload, plan.driver)
    try:
        keep(json.dumps(members, indent=2), chosen)
    finally:
        for line in (whole_row(measured), *remarks(measured, plan)):
            echo(line)
    if chosen != STANDARD_OUTPUT:
        charts(measured)
        echo(f"result in {chosen}")


def keep(text: str, out: Path) -> None:
    """Writes the result. ConfigError: the file cannot be written; the result was printed."""
    if out == STANDARD_OUTPUT:
        click.echo(text)
        return
    try:
        out.write_text(f"{text}\n")
    except OSError as error:
        click.echo(text)
        reason = f"{out} cannot be written ({error.strerror}): the result is above"
        raise ConfigError(reason) from None


def charts(measured: Measured) -> None:
    from rmq.cli.bench_chart import show_charts

    rates = [(each.elapsed_s, each.figures.sent / each.figures.seconds)
             for each in measured.periods]  # fmt: skip
    whole = measured.whole
    show_charts(rates, {"publish latency": whole.publish, "end to end": whole.end_to_end})


def whole_row(measured: Measured) -> str:
    whole = measured.whole
    return f"{'whole':>8}  {'':>12}{rates(whole)}  {'':>12}{latencies(whole)}"


def remarks(measured: Measured, plan: Plan) -> list[str]:
    from rmq.load.report import failure_texts
    from rmq.load.workload.rig import DRAIN_S

    whole, settled = measured.whole, measured.settled
    found = [
        ("messages", f"{settled.sent:,} published, {settled.received:,} consumed since the start")
    ]
    if whole.delay.maximum_ns:
        percents = "/".join(f"p{percent:g}" for percent in PERCENTS)
        found.append(("publish", f"{in_ms(whole.due)} ms ({percents}/max) from when it was due"))
    for what, failures in (("sends", whole.failed_sends), ("pulls", whole.failed_pulls)):
        if failures:
            found.append(("failures", f"of {what}: {failure_texts(failures)}"))
    if measured.overdue:
        found.append(("overdue", f"{measured.overdue:,} messages were due and not yet sent"))
    if measured.unanswered:
        found.append(("unanswered", f"{measured.unanswered:,} messages"))
    if measured.behind:
        found.append(("behind", f"{measured.behind:,} messages that consumers did not get "
                                f"within {DRAIN_S:g} s after the end"))  # fmt: skip
    if plan.pids and measured.cpu_seconds is None:
        found.append(("cpu", "not known: a process of --pid has ended"))
    elif measured.cpu_seconds is not None and whole.sent:
        cost = measured.cpu_seconds / whole.sent * 1e6
        found.append(("cpu", f"{cost:.2f} CPU-s per million messages published"))
    return [f"{name:<14} {text}" for name, text in found]
