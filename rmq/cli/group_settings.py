"""`rmq group create | update`: whether a group may consume, in which order, and how often it gets a
message again that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rmq.cli.options import cluster_option, namesrv_option, together
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.operations import group_changes

COLUMNS = (
    *columns("GROUP", "BROKER", "DONE"), Column("CONSUMES", "consume_enable"),
    *columns("ORDER", "BROADCAST", "RETRY QUEUES", "MAX RETRIES"),
)  # fmt: skip
# The name of an option's parameter, and the name of that setting in RocketMQ's brokers.
MEMBERS = {
    "is_enabled": "consumeEnable", "order": "consumeMessageOrderly",
    "broadcast": "consumeBroadcastEnable", "retry_queues": "retryQueueNums",
    "max_retries": "retryMaxTimes",
}  # fmt: skip

settings_options = together(
    click.option("--max-retries", type=click.IntRange(0, 2**31 - 1), metavar="N",
                 help="How often a failed message is delivered again before it becomes a dead "
                 "letter.  [default: 16]"),
    click.option("--retry-queues", type=click.IntRange(1, 1024), metavar="N",
                 help="Number of queues of the retry topic.  [default: 1]"),
    click.option("--order/--no-order", default=None,
                 help="Whether members consume each queue in order.  [default: no-order]"),
    click.option("--broadcast/--no-broadcast", default=None,
                 help="Whether each member may get all messages.  [default: broadcast]"),
    click.option("--enable/--disable", "is_enabled", default=None,
                 help="Whether the group may consume.  [default: enable]"),
)  # fmt: skip


@click.command()
@click.argument("name")
@settings_options
@click.option("--if-not-exists", is_flag=True, help="Do nothing on brokers where it exists.")
@cluster_option
@namesrv_option
@output_option
def create(
    name: str, if_not_exists: bool, cluster_name: str | None, namesrv: str, output: Output,
    **given: Any,
) -> None:  # fmt: skip
    """Create a consumer group. To change one, use `rmq group update`.

    Brokers create a group by themselves when its first member connects, unless
    autoCreateSubscriptionGroup is off. One that is created here has its settings from the first
    message on. Where it begins in a topic depends on its members (consume_from_where), or on `rmq
    group reset`.
    """
    with Cluster(namesrv) as cluster:
        found = list(group_changes.states(cluster, name, cluster_name))
        there = ", ".join(broker.name for broker, members in found if members is not None)
        if there and not if_not_exists:
            raise click.ClickException(
                f"group {name} exists on {there}. Change it with `rmq group update`, or leave it "
                "as it is with --if-not-exists"
            )
        rows = []
        for broker, members in found:
            if members is None:
                admin.create_group(cluster, name, _named(given), [broker])
                made = admin.group_configs(cluster, broker)[name]
                rows.append(_row(name, broker.name, "created", made))
            else:
                rows.append(_row(name, broker.name, "exists", members))
    output.rows(COLUMNS, rows)


@click.command()
@click.argument("name")
@settings_options
@cluster_option
@namesrv_option
@output_option
def update(
    name: str, cluster_name: str | None, namesrv: str, output: Output, **given: Any
) -> None:  # fmt: skip
    """Change a consumer group. Settings that are not given stay as they are.

    The defaults of the options are those of a new group.
    """
    named = _named(given)
    if not named:
        raise click.UsageError(
            "nothing to change: give one of --max-retries, --retry-queues, --order, --no-order, "
            "--broadcast, --no-broadcast, --enable, --disable"
        )
    rows = []
    with Cluster(namesrv) as cluster:
        for broker, members in group_changes.states(cluster, name, cluster_name):
            if members is not None:
                group_changes.put(cluster, broker, name, {**members, **named})
                rows.append(_row(name, broker.name, "changed", {**members, **named}))
    if not rows:
        raise admin.no_group(name)
    output.rows(COLUMNS, rows)


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    return {MEMBERS[option]: value for option, value in given.items() if value is not None}


def _row(name: str, broker: str, done: str, members: Mapping[str, Any]) -> tuple[Any, ...]:
    return (name, broker, done, *(members.get(each) for each in MEMBERS.values()))
