"""`rmq group reset | skip | clone`: where a group goes on, shown before it is changed.

What a queue's offset is to be comes from the words of `rmq consume --from`. Members that are online
go there as well: the broker tells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from rmq.cli.consume import START
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_rows
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import Start, first_offset
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue

COLUMNS = ("BROKER", "QUEUE", "AT", "TO", "SKIPPED", "AGAIN")

queue_option = click.option(
    "--queue", "queue_ids", type=click.IntRange(0), multiple=True, help="Only this queue."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_option = click.option("--dry-run", is_flag=True, help="Show it, and change nothing.")


@dataclass(frozen=True)
class Move:
    """A group in one queue: where it is (None: it never committed) and where it is to be."""

    queue: MessageQueue
    at: int | None
    to: int

    @property
    def skipped(self) -> int:
        return max(self.to - self.at, 0) if self.at is not None else 0

    @property
    def again(self) -> int:
        return max(self.at - self.to, 0) if self.at is not None else 0


@click.command()
@click.argument("name")
@click.argument("topic")
@click.option(
    "--to",
    "place",
    type=START,
    required=True,
    help="In each queue: first, last, an offset, -N for the last N, or a time: "
    "2025-06-01T08:30, -1h.",
)
@queue_option
@yes_option
@dry_option
@namesrv_option
@json_option
def reset(
    name: str,
    topic: str,
    place: Start,
    queue_ids: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Have a group go on elsewhere in a topic."""
    _move(name, topic, place, queue_ids, yes, dry_run, namesrv, as_json)


@click.command()
@click.argument("name")
@click.argument("topic")
@queue_option
@yes_option
@dry_option
@namesrv_option
@json_option
def skip(
    name: str,
    topic: str,
    queue_ids: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Have a group skip all that is in a topic now."""
    _move(name, topic, Start("last"), queue_ids, yes, dry_run, namesrv, as_json)


def _move(
    name: str, topic: str, place: Start, queue_ids: Sequence[int], yes: bool, dry_run: bool,
    namesrv: str, as_json: bool,
) -> None:  # fmt: skip
    if place.end is not None:
        raise click.UsageError("a group goes on at one offset, not at N:M")
    with Cluster(namesrv) as cluster:
        admin.require_groups(cluster, name)
        moves = [
            Move(queue, admin.committed_offset(cluster, name, queue), _place(cluster, queue, place))
            for queue in _queues(cluster, topic, queue_ids)
        ]
        _apply(cluster, name, moves, yes, dry_run, as_json)


@click.command()
@click.argument("name")
@click.argument("other")
@click.argument("topic")
@yes_option
@dry_option
@namesrv_option
@json_option
def clone(
    name: str, other: str, topic: str, yes: bool, dry_run: bool, namesrv: str, as_json: bool
) -> None:
    """Have the group OTHER go on where the group NAME is in a topic."""
    with Cluster(namesrv) as cluster:
        admin.require_groups(cluster, name, other)
        moves = []
        for queue in _queues(cluster, topic, ()):
            to = admin.committed_offset(cluster, name, queue)
            if to is not None:
                to = max(to, admin.min_offset(cluster, queue))
                moves.append(Move(queue, admin.committed_offset(cluster, other, queue), to))
        if not moves:
            raise click.ClickException(f"group {name} has committed nothing of topic {topic}")
        _apply(cluster, other, moves, yes, dry_run, as_json)


def _queues(cluster: Cluster, topic: str, queue_ids: Sequence[int]) -> list[MessageQueue]:
    readable = cluster.route(topic).readable()
    found = [each for each in readable if not queue_ids or each.queue_id in queue_ids]
    if missing := sorted(set(queue_ids) - {each.queue_id for each in found}):
        raise RemoteError(
            ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {missing[0]}"
        )
    return sorted(found)


def _place(cluster: Cluster, queue: MessageQueue, place: Start) -> int:
    end = admin.max_offset(cluster, queue)
    return min(first_offset(cluster, queue, place, end), end)


def _apply(
    cluster: Cluster, name: str, moves: list[Move], yes: bool, dry_run: bool, as_json: bool
) -> None:
    rows = [
        (each.queue.broker_name, each.queue.queue_id, each.at, each.to, each.skipped, each.again)
        for each in moves
    ]
    if not yes and not dry_run:
        if not as_json:
            show_rows(COLUMNS, rows, False)
        skipped, again = sum(each.skipped for each in moves), sum(each.again for each in moves)
        click.confirm(
            f"Group {name} skips {skipped} messages and gets {again} again. Go on?",
            abort=True, err=as_json,
        )  # fmt: skip
    if not dry_run:
        for each in moves:
            admin.move_offset(cluster, name, each.queue, each.to)
    if as_json or dry_run or yes:
        show_rows(COLUMNS, rows, as_json)
