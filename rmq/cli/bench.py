"""`rmq bench`: measures any RocketMQ broker with the load generator of cext/load.

    rmq bench producer  -n 127.0.0.1:9876 -t bench --connections 4 --window 64 --duration 10
    rmq bench batch     -n 127.0.0.1:9876 --batch 32
    rmq bench consumer  -n 127.0.0.1:9876 -t bench --duration 10
    rmq bench pop       -n 127.0.0.1:9876 -t bench --connections 4 --window 8 --duration 10
    rmq bench latency   -n 127.0.0.1:9876 --rate 5000
    rmq bench pingpong
    rmq bench omb       WORKLOAD.yaml                              (bench_omb.py)

A missing topic is created. With --broker HOST:PORT no name server is asked and the topic must
exist. With an account (--user, --credentials) requests are signed, with --tls they go by TLS.
--rate makes an open loop whose latencies count from the moment each message was due (no
coordinated omission). A message that was not sent or not answered by the end counts with the time
that it had waited until then. On a terminal the rate over time and the latencies are drawn, too
(bench_chart.py).
"""

import os
import socket
import sys
from typing import Any

import click

from cext.load.consumer import Consumer
from cext.load.pingpong import echo, ping
from rmq.cli.account_options import account_options
from rmq.cli.bench_chart import Rates, show_charts
from rmq.cli.bench_omb import omb
from rmq.cli.main import NAMESRV_VARIABLE
from rmq.cli.options import own_cluster, together
from rmq.cli.output import Output, output_option
from rmq.client.blocking import credentials
from rmq.client.blocking.connection import Connection
from rmq.load import control
from rmq.load.frames import Queue, SendShape, pull_frames, send_frames
from rmq.load.report import as_text, members
from rmq.load.run import (
    Loop,
    Progress,
    Result,
    connect,
    measure,
    open_popper,
    open_producer,
)
from rmq.load.workload.durations import Durations

where_options = together(
    click.option("-n", "--namesrv", default="127.0.0.1:9876", show_default=True,
                 envvar=NAMESRV_VARIABLE, show_envvar=True, metavar="HOST:PORT",
                 callback=own_cluster, is_eager=True, help="Addresses of name servers."),
    click.option("--broker", metavar="HOST:PORT", help="Skip the name server, use this broker."),
    click.option("-t", "--topic", default="bench", show_default=True, help="Topic to use."),
    click.option("--topics", default=1, show_default=True, type=click.IntRange(1, 100_000),
                 help="Spread over this many topics: TOPIC, TOPIC-1, TOPIC-2 ..."),
    click.option("--queues", default=8, show_default=True, type=click.IntRange(1, 65_536),
                 help="Queues of each topic, if it is created, or with --broker."),
    click.option("--connections", "-c", default=1, show_default=True,
                 type=click.IntRange(1, 10_000), help="Number of connections."),
    click.option("--duration", "-d", default=5.0, show_default=True, type=click.FloatRange(0.01),
                 help="Seconds to measure, after the warm-up."),
    click.option("--warmup", default=0.5, show_default=True, type=click.FloatRange(0),
                 help="Seconds of load before that."),
    click.option("--pid", "pids", multiple=True, type=int,
                 help="Print CPU seconds of this process per million messages (repeatable)."),
    click.option("--binary", is_flag=True, help="Binary (ROCKETMQ) headers instead of JSON."),
    output_option,
    account_options,
)  # fmt: skip
send_options = together(
    click.option("--size", "-s", default=256, show_default=True, type=click.IntRange(0, 4 << 20),
                 help="Bytes of a message body."),
    click.option("--tags", default=None, help="Tag of every message."),
    click.option("--rate", "-r", default=0.0, type=click.FloatRange(0),
                 help="Messages a second (open loop); 0: as fast as the window allows. With a "
                      "rate, latencies count from when a message was due. A message that was not "
                      "sent by the end counts with the time that it has waited."),
    click.option("--count", default=0, type=click.IntRange(0),
                 help="Stop after this many messages; 0: no limit."),
    click.option("--in-order", is_flag=True,
                 help="Match answers to requests by their order, not by opaque."),
)  # fmt: skip


@click.group()
def bench() -> None:
    """Measure a RocketMQ broker: throughput, CPU, latency.

    On a terminal, bars show the rate over time and how long messages took.
    """


bench.add_command(omb)


@bench.command()
@where_options
@send_options
@click.option("--window", "-w", default=64, show_default=True, type=click.IntRange(1, 100_000),
              help="Open requests per connection.")  # fmt: skip
def producer(**given: Any) -> None:
    """Send single messages, WINDOW open requests on each connection."""
    run_sends(given, batch=1)


@bench.command()
@where_options
@send_options
@click.option("--window", "-w", default=4, show_default=True, type=click.IntRange(1, 100_000),
              help="Open batches per connection.")  # fmt: skip
@click.option("--batch", "-b", default=32, show_default=True, type=click.IntRange(2, 10_000),
              help="Messages in a batch.")  # fmt: skip
def batch(**given: Any) -> None:
    """Send batches of BATCH messages."""
    run_sends(given, batch=given.pop("batch"))


@bench.command()
@where_options
@send_options
def latency(**given: Any) -> None:
    """Send with one open request per connection: the round trip of a message."""
    run_sends({**given, "window": 1}, batch=1)


@bench.command()
@where_options
@click.option("--group", "-g", default="bench-consumer", show_default=True, help="Consumer group.")
@click.option("--pull", "batch", default=32, show_default=True, type=click.IntRange(1, 1024),
              help="Messages to ask for in a pull.")  # fmt: skip
@click.option("--count", default=0, type=click.IntRange(0),
              help="Stop after this many messages; 0: no limit.")  # fmt: skip
@click.option("--tail", is_flag=True, help="Start at the end of each queue and wait for more.")
@click.option("--last", default=0, type=click.IntRange(0),
              help="Read only this many messages at the end of each queue; 0: all.")  # fmt: skip
@click.option("--loop", is_flag=True, help="Start over when all is read (measures cached reads).")
@click.option("--check-crc", is_flag=True, help="Compute the checksum of every body.")
def consumer(**given: Any) -> None:
    """Pull messages, with one open pull per queue.

    Answers are parsed record by record. One connection serves all queues, as in a client; with
    several connections, the queues are distributed over them in turn.
    """
    try:
        run_pulls(given)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@bench.command()
@where_options
@click.option("--group", "-g", default="bench-popper", show_default=True, help="Consumer group.")
@click.option("--pop", "batch", default=32, show_default=True, type=click.IntRange(1, 32),
              help="Messages to ask for in a pop.")  # fmt: skip
@click.option("--window", "-w", default=1, show_default=True, type=click.IntRange(1, 1024),
              help="Open pops, or their acks, per connection.")  # fmt: skip
@click.option("--invisible", default=60_000, show_default=True, type=click.IntRange(1),
              help="Milliseconds until unacknowledged messages are delivered again.")  # fmt: skip
@click.option("--count", default=0, type=click.IntRange(0),
              help="Stop after this many messages; 0: no limit.")  # fmt: skip
def pop(**given: Any) -> None:
    """Pop messages and acknowledge them, with one batch ack for each pop."""
    if given["binary"]:
        raise click.UsageError("--binary cannot be used: binary headers cannot hold codes of pops")
    try:
        run_pops(given)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@bench.command()
@click.option(
    "--request", "request_bytes", default=660, show_default=True, type=click.IntRange(1, 1 << 20),
    help="Bytes of a request.",
)  # fmt: skip
@click.option(
    "--reply", "reply_bytes", default=230, show_default=True, type=click.IntRange(1, 1 << 20),
    help="Bytes of a reply.",
)  # fmt: skip
@click.option("--duration", "-d", default=3.0, show_default=True, type=click.FloatRange(0.01),
              help="Seconds to measure.")  # fmt: skip
@output_option
def pingpong(request_bytes: int, reply_bytes: int, duration: float, output: Output) -> None:
    """Measure a bare loopback echo, the lowest latency of this machine."""
    result = measure_pingpong(request_bytes, reply_bytes, duration)
    show(result, Rates(), [], output, "echoed")


# ---- doing


def find_targets(given: dict[str, Any], readable: bool = False) -> list[control.Target]:
    """The queues to use: all of the first topic, then all of the next one."""
    names = [given["topic"], *(f"{given['topic']}-{i}" for i in range(1, given["topics"]))]
    if given["broker"]:
        return [
            control.Target(given["broker"], Queue(name, queue_id))
            for name in names
            for queue_id in range(given["queues"])
        ]
    return control.find_queues(given["namesrv"], names, given["queues"], readable)


def run_sends(given: dict[str, Any], batch: int) -> None:
    try:
        shape = SendShape(given["size"], given["tags"], given["binary"], batch,
                          credentials=credentials.present())  # fmt: skip
        targets = find_targets(given)
        addresses = spread_addresses(targets, given["connections"])
        if len(set(addresses)) > 1:
            raise click.ClickException(
                "the topic is on several brokers; choose one of them with --broker: "
                + ", ".join(sorted(set(addresses)))
            )
        frames = send_frames([target.queue for target in targets], shape)
        limit = (given["count"] + batch - 1) // batch
        loop = open_producer(
            frames, addresses, given["window"], given["rate"], limit, given["in_order"]
        )
        measured = measure_and_watch(loop, given)
    except (OSError, MemoryError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    show(*measured, list(given["pids"]), given["output"])


def run_pulls(given: dict[str, Any]) -> None:
    targets = find_targets(given, readable=True)
    address = spread_addresses(targets, 1)[0]
    targets = [target for target in targets if target.address == address]
    with Connection(address) as broker:
        control.subscribe(broker, given["group"], {target.queue.topic for target in targets})
        pull_from(broker, address, targets, given)


def run_pops(given: dict[str, Any]) -> None:
    targets = find_targets(given, readable=True)
    address = spread_addresses(targets, 1)[0]
    loop = open_popper(
        [target.queue for target in targets if target.address == address], address,
        given["group"], given["batch"], given["invisible"], given["connections"],
        given["window"], given["count"], credentials.present(),
    )  # fmt: skip
    measured = measure_and_watch(loop, given)
    show(*measured, list(given["pids"]), given["output"], "popped and acknowledged")


def pull_from(
    broker: Connection, address: str, targets: list[control.Target], given: dict[str, Any]
) -> None:
    offsets: list[tuple[int, int | None]] = []
    for target in targets:
        least, most = control.queue_range(broker, target.queue)
        start = max(least, most - given["last"]) if given["last"] else least
        if given["tail"]:
            start = most
        offsets.append((start, most if given["loop"] and most > start else None))
    if given["loop"]:
        # A queue without messages has no round to start over.
        kept = [i for i, (_, end) in enumerate(offsets) if end is not None]
        targets, offsets = [targets[i] for i in kept], [offsets[i] for i in kept]
        if not targets:
            raise click.ClickException("--loop needs messages in the topic")
    frames = pull_frames(
        [target.queue for target in targets],
        given["group"],
        given["batch"],
        suspend_ms=0 if given["loop"] else 15_000,
        binary=given["binary"],
        credentials=credentials.present(),
    )
    sockets = [connect(address) for _ in range(min(given["connections"], len(targets)))]
    loop = Consumer(
        frames, sockets, offsets, rewind=given["loop"], limit=given["count"],
        check_crc=given["check_crc"],
    )  # fmt: skip
    measured = measure_and_watch(loop, given if given["loop"] else {**given, "warmup": 0})
    show(*measured, list(given["pids"]), given["output"], "pulled")


def measure_and_watch(loop: Loop, given: dict[str, Any]) -> tuple[Result, Rates]:
    """Runs the load; returns the result, and the rate over time."""
    rates, line = Rates(), progress(given)

    def watch(seconds: float, stats: dict[str, Any]) -> None:
        rates.take(seconds, stats["messages"])
        if line is not None:
            line(seconds, stats)

    result = measure(loop, given["duration"], given["warmup"], list(given["pids"]), watch)
    return result, rates


def measure_pingpong(
    request_bytes: int, reply_bytes: int, seconds: float, server_cpu: int | None = None
) -> Result:
    """The side that echoes runs in a child process, as a broker would; on `server_cpu` if given."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if server_cpu is not None:
                os.sched_setaffinity(0, {server_cpu})
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            echo(accepted.fileno(), request_bytes, reply_bytes)
            status = 0
        finally:
            os._exit(status)
    with socket.create_connection(listener.getsockname()) as client:
        listener.close()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ping(client.fileno(), request_bytes, reply_bytes, min(0.2, seconds / 10))
        histogram = ping(client.fileno(), request_bytes, reply_bytes, seconds)
    os.waitpid(child, 0)
    return Result(
        seconds=seconds,
        messages=histogram.count,
        requests=histogram.count,
        bytes=histogram.count * request_bytes,
        failures={},
        latency=histogram,
    )


def spread_addresses(targets: list[control.Target], connections: int) -> list[str]:
    """One address per connection, brokers taking turns."""
    unique = list(dict.fromkeys(target.address for target in targets))
    return [unique[i % len(unique)] for i in range(max(connections, 1))]


# ---- showing


def progress(given: dict[str, Any]) -> Progress | None:
    """A line that overwrites itself, on a terminal only."""
    if given["output"].is_data or not sys.stderr.isatty():
        return None

    def line(seconds: float, stats: dict[str, Any]) -> None:
        rate = stats["messages"] / seconds if seconds > 0 else 0.0
        failed = sum(stats["failures"].values())
        counts = f"{stats['messages']:>12,} messages  {rate:>12,.0f}/s  {failed:,} failed "
        click.echo(f"\r{seconds:6.1f} s  {counts}", err=True, nl=False)

    return line


def show(
    result: Result, rates: Rates, pids: list[int], output: Output, verb: str = "acked"
) -> None:
    if output.is_data:
        output.value(members(result))
        return
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    click.echo(as_text(result, pids, verb))
    show_charts(rates.rows(), {"latency": Durations.of(result.latency)})


if __name__ == "__main__":
    bench()
