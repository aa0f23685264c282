"""`rmq group reset | skip | clone`: where a group goes on, shown before it is changed.

The place where a queue is continued is given in the words of `rmq consume --from`. Members that are
online go on from there, too: the broker tells them.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.starts import START
from rmq.cli.table import columns
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import Start
from rmq.operations.group_changes import make_like
from rmq.operations.offset_moves import Move, carry_out, moves_after, moves_to, summary

COLUMNS = columns("BROKER", "QUEUE", "AT", "TO", "SKIPPED", "AGAIN")

queue_option = click.option(
    "--queue", "queue_ids", type=click.IntRange(0), multiple=True,
    help="Only this queue. May be given several times.",
)  # fmt: skip
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
dry_option = click.option("--dry-run", is_flag=True, help="Show the change without making it.")


@click.command()
@click.argument("name")
@click.argument("topic")
@click.option(
    "--to",
    "place",
    type=START,
    required=True,
    help="Where to go on in each queue: first, last, an offset, -N for the last N, or a time: "
    "@2025-06-01T08:30, @-1h.",
)
@queue_option
@yes_option
@dry_option
@namesrv_option
@output_option
def reset(
    name: str,
    topic: str,
    place: Start,
    queue_ids: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Set where a group goes on in a topic."""
    _move(name, topic, place, queue_ids, yes, dry_run, namesrv, output)


@click.command()
@click.argument("name")
@click.argument("topic")
@queue_option
@yes_option
@dry_option
@namesrv_option
@output_option
def skip(
    name: str,
    topic: str,
    queue_ids: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Have a group skip all messages that are in a topic now."""
    _move(name, topic, Start("last"), queue_ids, yes, dry_run, namesrv, output)


def _move(
    name: str, topic: str, place: Start, queue_ids: Sequence[int], yes: bool, dry_run: bool,
    namesrv: str, output: Output,
) -> None:  # fmt: skip
    if place.end is not None or place.until_ms is not None:
        raise click.UsageError("--to takes one place, not a range such as N:M or @TIME:@TIME")
    with Cluster(namesrv) as cluster:
        moves = moves_to(cluster, name, topic, place, queue_ids)
        _apply(cluster, name, moves, yes, dry_run, output)


@click.command()
@click.argument("name")
@click.argument("other")
@click.argument("topic")
@yes_option
@dry_option
@namesrv_option
@output_option
def clone(
    name: str, other: str, topic: str, yes: bool, dry_run: bool, namesrv: str, output: Output
) -> None:
    """Have the group OTHER go on where the group NAME is in a topic.

    If there is no group OTHER, it is created with the settings of NAME.
    """
    if name == other:
        raise click.UsageError("NAME and OTHER are the same group")
    with Cluster(namesrv) as cluster:
        moves = moves_after(cluster, name, other, topic)
        if not moves:
            raise click.ClickException(f"group {name} has no committed offset in topic {topic}")
        like = None if other in admin.groups(cluster) else name
        _apply(cluster, other, moves, yes, dry_run, output, like)


def _apply(
    cluster: Cluster, name: str, moves: list[Move], yes: bool, dry_run: bool, output: Output,
    like: str | None = None,
) -> None:  # fmt: skip
    """Shows the moves, asks, and carries them out. like: the group `name` does not exist, and is
    made with the settings of this one."""
    rows = [
        (each.queue.broker_name, each.queue.queue_id, each.at, each.to, each.skipped, each.again)
        for each in moves
    ]
    if like is not None:
        click.echo(f"there is no group {name}: it is created with the settings of {like}", err=True)
    if not yes and not dry_run:
        if not output.is_data:
            output.rows(COLUMNS, rows)
        output.confirm(f"{summary(name, moves)} Go on?")
    if not dry_run:
        if like is not None:
            make_like(cluster, like, name)
        carry_out(cluster, name, moves)
    if output.is_data or dry_run or yes:
        output.rows(COLUMNS, rows)
