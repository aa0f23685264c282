"""`rmq group list | describe | delete`; reset, skip and clone are in group_offsets.py."""

from __future__ import annotations

import click

from rmq.cli.group_offsets import clone, reset, skip
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_json, show_rows
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.names import (
    FILTER_SERVER_GROUP,
    PROXY_GROUP_PREFIXES,
    SELF_TEST_GROUP,
    SYSTEM_GROUP_PREFIX,
    TOOLS_CONSUMER_GROUP,
)
from rmq.operations.texts import time_text

# Groups that every broker has from its first start, for its own use and that of tools.
SYSTEM_GROUPS = frozenset((TOOLS_CONSUMER_GROUP, FILTER_SERVER_GROUP, SELF_TEST_GROUP))
SYSTEM_PREFIXES = (*PROXY_GROUP_PREFIXES, SYSTEM_GROUP_PREFIX)


@click.group()
def group() -> None:
    """List consumer groups, describe and move their progress."""


for command in (reset, skip, clone):
    group.add_command(command)


@group.command("list")
@click.option("--all", "with_system", is_flag=True, help="Groups of the system too.")
@namesrv_option
@json_option
def list_groups(namesrv: str, with_system: bool, as_json: bool) -> None:
    """List consumer groups with members and lag."""
    with Cluster(namesrv) as cluster:
        rows = []
        for name in sorted(admin.groups(cluster)):
            if not with_system and (name in SYSTEM_GROUPS or name.startswith(SYSTEM_PREFIXES)):
                continue
            members = admin.group_members(cluster, name)
            progress, rate = admin.group_progress(cluster, name)
            rows.append(
                (
                    name,
                    len((members or {}).get("connectionSet") or []),
                    (members or {}).get("messageModel"),
                    sum(each.lag for each in progress),
                    rate,
                )
            )
    show_rows(("GROUP", "MEMBERS", "MODEL", "LAG", "MSG/S"), rows, as_json)


@group.command()
@click.argument("name")
@namesrv_option
@json_option
def describe(name: str, namesrv: str, as_json: bool) -> None:
    """Show a group's lag in every queue, its members and subscriptions."""
    with Cluster(namesrv) as cluster:
        known = admin.groups(cluster)
        members = admin.group_members(cluster, name)
        progress, rate = admin.group_progress(cluster, name)
    if name not in known and members is None and not progress:
        raise RemoteError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no consumer group {name}")
    columns = ("TOPIC", "BROKER", "QUEUE", "AT", "END", "LAG", "LAST CONSUMED")
    rows = [
        (
            each.queue.topic,
            each.queue.broker_name,
            each.queue.queue_id,
            each.consumer_offset,
            each.broker_offset,
            each.lag,
            time_text(each.last_consumed_ms),
        )
        for each in progress
    ]
    connections = (members or {}).get("connectionSet") or []
    if as_json:
        keys = [column.lower().replace(" ", "_") for column in columns]
        show_json(
            {
                "group": name,
                "lag": sum(each.lag for each in progress),
                "messages_per_second": rate,
                "queues": [dict(zip(keys, row, strict=True)) for row in rows],
                "members": connections,
                "subscriptions": (members or {}).get("subscriptionTable") or {},
            }
        )
        return
    show_rows(columns, rows, False)
    click.echo(f"lag {sum(each.lag for each in progress)}, {rate:.1f} messages a second")
    if not connections:
        click.echo("no member is online")
    for row in connections:
        click.echo(f"member {row.get('clientId')} at {row.get('clientAddr')}")


@group.command()
@click.argument("name")
@click.option("--keep-offsets", is_flag=True, help="A group of this name goes on where it was.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@namesrv_option
def delete(name: str, keep_offsets: bool, yes: bool, namesrv: str) -> None:
    """Delete a consumer group and its offsets."""
    with Cluster(namesrv) as cluster:
        admin.require_groups(cluster, name)
        members = (admin.group_members(cluster, name) or {}).get("connectionSet") or []
        if members:
            raise click.ClickException(
                f"group {name} has {len(members)} members online, which would make it again: stop "
                "them first"
            )
        if not yes:
            click.confirm(f"Delete group {name}?", abort=True)
        admin.delete_group(cluster, name, clean_offsets=not keep_offsets)
    click.echo(f"{name}: deleted")
