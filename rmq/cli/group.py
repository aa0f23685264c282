"""`rmq group list | describe | delete`; create and update are in group_settings.py, reset, skip and
clone in group_offsets.py, member in group_member.py."""

from __future__ import annotations

from typing import Any

import click

from rmq.cli.group_member import member
from rmq.cli.group_offsets import clone, reset, skip
from rmq.cli.group_settings import create, update
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.store_places import progress_bar
from rmq.cli.table import Column, columns, moment, records
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.group_lag import group_lag
from rmq.client.blocking.partial import Missing, require_all
from rmq.client.blocking.waiting_retries import LOOK_S, WaitingRetries, waiting_retries
from rmq.names import (
    FILTER_SERVER_GROUP,
    PROXY_GROUP_PREFIXES,
    SELF_TEST_GROUP,
    SYSTEM_GROUP_PREFIX,
    TOOLS_CONSUMER_GROUP,
)
from rmq.operations.texts import printable

# Groups that every broker has from its first start, for its own use and that of tools.
SYSTEM_GROUPS = frozenset((TOOLS_CONSUMER_GROUP, FILTER_SERVER_GROUP, SELF_TEST_GROUP))
LISTED = (
    *columns("GROUP", "MEMBERS", "MODEL", "LAG"), Column("RETRIES", "retry_lag"),
    Column("DELAYED", "delayed_retries"), Column("DEAD LETTERS"),
    Column("MSG/S", "messages_per_second"), Column("CONSUMES BY", is_wide=True),
    Column("FROM WHERE", is_wide=True), Column("EXACT", "delayed_retries_exact", is_wide=True),
)  # fmt: skip
QUEUES = (*columns("TOPIC", "BROKER", "QUEUE", "AT", "END", "LAG"), moment("LAST CONSUMED"))
LETTERS = (*columns("TOPIC", "BROKER", "QUEUE", "FIRST", "END", "MESSAGES"), moment("LAST DIED"))
SYSTEM_PREFIXES = (*PROXY_GROUP_PREFIXES, SYSTEM_GROUP_PREFIX)


@click.group()
def group() -> None:
    """Manage consumer groups, their settings and offsets."""


for command in (create, update, member, reset, skip, clone):
    group.add_command(command)


@group.command("list")
@click.option("--all", "with_system", is_flag=True, help="Include groups of the system.")
@namesrv_option
@output_option
def list_groups(namesrv: str, with_system: bool, output: Output) -> None:
    """List consumer groups with members and lag.

    LAG counts messages that the group has not consumed yet, RETRIES failed messages that are back
    and not consumed yet, DELAYED failed messages that still wait for their delay, DEAD LETTERS
    messages that were given up and are kept. Messages that were popped and not acknowledged yet
    are not counted. Exit code 3 if a broker does not answer: what lies there alone is missing.
    """
    missing: Missing = {}
    with Cluster(namesrv) as cluster, progress_bar("group list") as progress:
        topics, groups = set(cluster.topics()), admin.groups(cluster, missing)
        waiting = waiting_retries(cluster, missing)
        rows: list[tuple[Any, ...]] = []
        for done, name in enumerate(sorted(groups)):
            progress("groups", done, len(groups))
            if not with_system and (name in SYSTEM_GROUPS or name.startswith(SYSTEM_PREFIXES)):
                continue
            members = admin.group_members(cluster, name, missing) or {}
            found = group_lag(cluster, name, topics, groups, missing)
            rows.append(
                (
                    name,
                    len(members.get("connectionSet") or []),
                    members.get("messageModel"),
                    found.lag,
                    found.retry_lag,
                    waiting.of(name),
                    found.dead_letters,
                    found.messages_per_second,
                    members.get("consumeType"),
                    members.get("consumeFromWhere"),
                    waiting.is_exact,
                )
            )
    output.rows(LISTED, rows)
    _note_more(waiting, missing)


def _note_more(waiting: WaitingRetries, missing: Missing) -> None:
    """Says what is not in what was shown. PartialError: what lies on a broker alone."""
    require_all(missing)
    if waiting.by_topic is not None and not waiting.is_exact:
        click.echo(f"delayed retries are those that were found within {LOOK_S:g} s; there may be "
                   "more", err=True)  # fmt: skip


@group.command()
@click.argument("name")
@namesrv_option
@output_option
def describe(name: str, namesrv: str, output: Output) -> None:
    """Show a group's lag in every queue, its members and subscriptions.

    Retries, which are delivered again, and dead letters, which were given up, have rows of their
    own with the topics %RETRY%NAME and %DLQ%NAME. Delayed retries still wait for their delay. Exit
    code 3 if a broker does not answer: what lies there alone is missing.
    """
    missing: Missing = {}
    with Cluster(namesrv) as cluster:
        known = admin.groups(cluster, missing)
        members = admin.group_members(cluster, name, missing) or {}
        found = group_lag(cluster, name, set(cluster.topics()), known, missing)
        waiting = waiting_retries(cluster, missing)
    if name not in known and not members and not found.queues:
        require_all(missing)
        raise admin.no_group(name)
    online = [_member(row) for row in members.get("connectionSet") or []]
    queues, retries = map(_progress, found.queues), map(_progress, found.retry_queues)
    if output.is_data:
        table = members.get("subscriptionTable") or {}
        output.value(
            {
                "group": name,
                "lag": found.lag,
                "retry_lag": found.retry_lag,
                "delayed_retries": waiting.of(name),
                "delayed_retries_exact": waiting.is_exact,
                "dead_letters": found.dead_letters,
                "messages_per_second": found.messages_per_second,
                "queues": records(QUEUES, queues),
                "retry_queues": records(QUEUES, retries),
                "dead_letter_queues": records(LETTERS, map(_letters, found.dead_letter_queues)),
                "members": online,
                "subscriptions": [_subscription(row) for _, row in sorted(table.items())],
            }
        )
        _note_more(waiting, missing)
        return
    letters = [(*_letters(each)[:3], None, each.max_offset, each.max_offset - each.min_offset, None)
               for each in found.dead_letter_queues]  # fmt: skip
    output.rows(QUEUES, [*queues, *retries, *letters])
    delayed = waiting.of(name)
    click.echo(
        f"lag {found.lag}, retries {found.retry_lag}, delayed retries "
        f"{'-' if delayed is None else delayed}, dead letters {found.dead_letters}, "
        f"{found.messages_per_second:.1f} messages a second"
    )
    if not online:
        click.echo("no member is online")
    for each in online:
        click.echo(printable(f"member {each['client_id']} at {each['address']}"))
    _note_more(waiting, missing)


def _progress(each: admin.QueueProgress) -> tuple[Any, ...]:
    queue = each.queue
    return (queue.topic, queue.broker_name, queue.queue_id, each.consumer_offset,
            each.broker_offset, each.lag, each.last_consumed_ms)  # fmt: skip


def _letters(each: admin.QueueRange) -> tuple[Any, ...]:
    queue = each.queue
    return (queue.topic, queue.broker_name, queue.queue_id, each.min_offset, each.max_offset,
            each.max_offset - each.min_offset, each.last_stored_ms)  # fmt: skip


def _member(row: dict[str, Any]) -> dict[str, Any]:
    return {"client_id": row.get("clientId"), "address": row.get("clientAddr"),
            "language": row.get("language"), "version": row.get("version")}  # fmt: skip


def _subscription(row: dict[str, Any]) -> dict[str, Any]:
    return {"topic": row.get("topic"), "expression": row.get("subString"),
            "expression_type": row.get("expressionType")}  # fmt: skip


@group.command()
@click.argument("name")
@click.option("--keep-offsets", is_flag=True, help="Keep the offsets for a new group of this name.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@namesrv_option
@output_option
def delete(name: str, keep_offsets: bool, yes: bool, namesrv: str, output: Output) -> None:
    """Delete a consumer group and its offsets."""
    with Cluster(namesrv) as cluster:
        admin.require_groups(cluster, name)
        members = admin.online_members(cluster, name)
        if members:
            raise click.ClickException(
                f"group {name} has {len(members)} members online, which would create it again: "
                "stop them first"
            )
        if not yes:
            output.confirm(f"Delete group {name}?")
        admin.delete_group(cluster, name, clean_offsets=not keep_offsets)
    output.result("deleted", f"{name}: deleted", group=name, offsets_kept=keep_offsets)
