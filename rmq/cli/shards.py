"""`rmq broker shards|drain|restart|shrink`: asks the supervisor of a broker with several shards.

    rmq broker shards --store DIR                each shard, its process, and why it does not serve
    rmq broker status --store DIR                the same
    rmq broker drain 1 --store DIR               shard 1 takes no more sends (--undo: takes them)
    rmq broker restart broker-a-1 --store DIR    the shard is stopped cleanly and started anew
    rmq broker shrink --shards 1 --store DIR --wait 600

These commands use the bus in DIR/bus, so they must be run by the broker's user on its machine.
Shards are given by number or by broker name.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from rmq.cli.output import Output, output_option
from rmq.cli.store_places import progress_bar
from rmq.cli.table import Column, columns
from rmq.errors import ConfigError, RmqError
from rmq.operations.texts import counted, span
from shards.command_client import CommandClient
from shards.messages import (
    BusError,
    Done,
    Drain,
    Restart,
    ShardStatus,
    Shrink,
    Status,
    StatusReply,
)

COLUMNS = (
    *columns("SHARD", "BROKER", "STATE", "ADDRESS", "PID", "CORES", "NODE"),
    Column("UP", "up_s", span), *columns("RESTARTS", "REASON"), Column("STORE", is_wide=True),
)  # fmt: skip
RETRY_S = 1.0
RESTART_S = 90.0

store_option = click.option(
    "--store",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of the broker's store.",
)


@click.command()
@store_option
@output_option
def shards(store: Path, output: Output) -> None:
    """Show the shards of a broker and their state.

    Exit code 1 if one of them does not serve.
    """
    show_shards(store, output)


def show_shards(store: Path, output: Output) -> None:
    with _bus(store) as bus:
        rows = _status(bus)
    output.rows(COLUMNS, [_cells(row) for row in rows])
    if any(row.state not in ("serving", "draining", "drained") for row in rows):
        sys.exit(1)


@click.command()
@click.argument("shard")
@store_option
@click.option("--undo", is_flag=True, help="Let the shard take sends again.")
@output_option
def drain(shard: str, store: Path, undo: bool, output: Output) -> None:
    """Stop sends to a shard.

    Its messages can still be consumed. Producers leave it when they refresh their routes, within 30
    seconds.
    """
    with _bus(store) as bus:
        found = _find(bus, shard)
        text = bus.ask(Drain(found.index, not undo), Done, 10.0).text
    _tell(output, "undrained" if undo else "drained", found, text)


@click.command()
@click.argument("shard")
@store_option
@output_option
def restart(shard: str, store: Path, output: Output) -> None:
    """Stop a shard cleanly and start it again.

    Also starts a shard that was given up after failed starts.
    """
    with _bus(store) as bus:
        found = _find(bus, shard)
        text = bus.ask(Restart(found.index), Done, RESTART_S).text
    _tell(output, "restarted", found, text)


def _tell(output: Output, done: str, found: ShardStatus, text: str) -> None:
    output.result(done, f"{found.name}: {text}", shard=found.index, broker=found.name, text=text)


@click.command()
@click.option("--shards", "count", required=True, type=click.IntRange(1), metavar="N",
              help="Number of shards that stay.")  # fmt: skip
@store_option
@click.option("--wait", "wait_s", type=click.FloatRange(0), default=0, metavar="SECONDS",
              help="Stop sends, and wait at most this long for consumers.")  # fmt: skip
@click.option("--discard", is_flag=True, help="Remove them even if messages are unconsumed.")
@output_option
def shrink(count: int, store: Path, wait_s: float, discard: bool, output: Output) -> None:
    """Remove the last shards of a broker.

    Refused while one of them holds unconsumed messages. The directories of the shards stay.
    """
    began = time.monotonic()
    with _bus(store) as bus, progress_bar(f"shrink to {counted(count, 'shard')}") as progress:
        if wait_s:
            for row in _status(bus):
                if row.index >= count:
                    bus.ask(Drain(row.index), Done, 10.0)
        while True:
            waited_s = time.monotonic() - began
            progress("seconds of waiting for consumers", int(waited_s), int(wait_s))
            try:
                done = bus.ask(Shrink(count, discard), Done, RESTART_S).text
                break
            except BusError as error:
                if waited_s >= wait_s:
                    more = ". Sends stay stopped until `rmq broker drain --undo`" if wait_s else ""
                    raise RmqError(f"{error}{more}") from None
            time.sleep(RETRY_S)
    output.result("shrunk", done, shards=count, text=done)


def _bus(store: Path) -> CommandClient:
    return CommandClient(store.absolute())


def _status(bus: CommandClient) -> list[ShardStatus]:
    return bus.ask(Status(), StatusReply).shards


def _find(bus: CommandClient, text: str) -> ShardStatus:
    rows = _status(bus)
    for row in rows:
        if text in (str(row.index), row.name):
            return row
    raise ConfigError(f"there is no shard {text}; known are {', '.join(row.name for row in rows)}")


def _cells(row: ShardStatus) -> tuple[object, ...]:
    return (
        row.index,
        row.name,
        row.state,
        row.address or None,
        row.pid or None,
        row.cores,
        row.node if row.node >= 0 else None,
        row.up_s or None,
        row.restarts,
        row.reason or None,
        row.store,
    )
