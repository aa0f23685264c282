"""`rmq topic list | create | update | describe | delete`; perm and copy are in topic_perm.py and
topic_copy.py."""

from __future__ import annotations

from typing import Any

import click

from rmq.cli import missing_topic
from rmq.cli.options import cluster_option, namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.store_places import progress_bar
from rmq.cli.table import Column, columns, moment
from rmq.cli.topic_copy import copy
from rmq.cli.topic_perm import perm
from rmq.cli.unread_question import ask_about_unread
from rmq.client.blocking import admin, topics
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing, require_all
from rmq.codes import PERM_READ
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import is_dead_letter, is_retry, is_system
from rmq.operations.topic_changes import (
    MESSAGE_TYPES,
    PERMS,
    check_change,
    described,
    perm_text,
    state_members,
)

QUEUES = click.IntRange(1, TOPIC_QUEUES_MAX)
LISTED = (*columns("TOPIC", "READ QUEUES", "WRITE QUEUES", "BROKERS"),
          Column("PERM", is_wide=True))  # fmt: skip
QUEUE_COLUMNS = (*columns("BROKER", "QUEUE", "PERM", "MIN OFFSET", "MAX OFFSET", "MESSAGES"),
                 moment("LAST STORED"))  # fmt: skip

type_option = click.option(
    "--type", "message_type", type=click.Choice(MESSAGE_TYPES, case_sensitive=False),
    help="Type of messages. Proxies check it for gRPC clients; brokers do not.",
)  # fmt: skip


@click.group()
def topic() -> None:
    """List, create, change, copy and delete topics."""


topic.add_command(perm)
topic.add_command(copy)


@topic.command("list")
@click.option("--all", "with_system", is_flag=True, help="Include system and retry topics.")
@namesrv_option
@output_option
def list_topics(namesrv: str, with_system: bool, output: Output) -> None:
    """List topics with their queues and brokers."""
    missing: Missing = {}
    with Cluster(namesrv) as cluster, progress_bar("topic list") as progress:
        hidden = set() if with_system else admin.system_topics(cluster, missing=missing)
        hidden |= missing.keys()  # the topic of its name, of which only a broker itself tells
        rows: list[tuple[Any, ...]] = []
        names = cluster.topics()
        for done, name in enumerate(names):
            progress("topics", done, len(names))
            of_system = name in hidden or is_system(name) or is_retry(name) or is_dead_letter(name)
            if of_system and not with_system:
                continue
            route = cluster.route(name)
            brokers = sorted({entry.broker_name for entry in route.entries})
            perms = ",".join(sorted({perm_text(entry.perm) for entry in route.entries}))
            rows.append((name, len(route.readable()), len(route.writable()), brokers, perms))
    output.rows(LISTED, rows)


@topic.command()
@click.argument("name")
@click.option("--queues", type=QUEUES, default=8, show_default=True, help="Queues on each broker.")
@click.option("--perm", type=click.Choice(list(PERMS)), default="rw", show_default=True,
              help="Whether it may be read (r), written (w) or both.")  # fmt: skip
@click.option("--order", is_flag=True, help="Make it an ordered topic, with a fixed set of queues.")
@type_option
@click.option("--if-not-exists", is_flag=True, help="Do nothing on brokers where it exists.")
@cluster_option
@namesrv_option
@output_option
def create(
    name: str,
    queues: int,
    perm: str,
    order: bool,
    message_type: str | None,
    if_not_exists: bool,
    cluster_name: str | None,
    namesrv: str,
    output: Output,
) -> None:
    """Create a topic. To change one, use `rmq topic update`."""
    with Cluster(namesrv) as cluster:
        found = list(topics.states(cluster, name, cluster_name))
        there = [state for _, state in found if state is not None]
        if there and not if_not_exists:
            raise click.ClickException(
                f"topic {name} exists: {'; '.join(map(described, there))}. Change it with `rmq "
                "topic update`, or leave it as it is with --if-not-exists"
            )
        missing = [broker for broker, state in found if state is None]
        attributes = {"message.type": message_type} if message_type else {}
        if missing:
            admin.create_topic(
                cluster, name, queues, perm=PERMS[perm], order=order, brokers=missing,
                attributes=attributes or None,
            )  # fmt: skip
    if missing:
        where = ", ".join(broker.name for broker in missing)
        output.say(f"{name}: {queues} queues on {where}")
    for state in there:
        output.say(f"{name}: exists, {described(state)}")
    made = [topics.TopicState(broker, name, queues, queues, PERMS[perm], order,
                              attributes=attributes) for broker in missing]  # fmt: skip
    output.result(
        "created" if made else "exists", None, topic=name,
        brokers=[{**state_members(each), "done": "created"} for each in made]
        + [{**state_members(each), "done": "exists"} for each in there],
    )  # fmt: skip


@topic.command()
@click.argument("name")
@click.option("--queues", type=QUEUES, help="Queues on each broker, for reading and writing.")
@click.option("--read-queues", type=QUEUES, help="Queues that consumers read.")
@click.option("--write-queues", type=QUEUES, help="Queues that new messages go to.")
@click.option("--perm", type=click.Choice(list(PERMS)),
              help="Whether it may be read (r), written (w) or both.")  # fmt: skip
@click.option("--order/--no-order", default=None, help="Whether it is an ordered topic.")
@click.option("--yes", is_flag=True, help="Do not ask, even if messages can no longer be read.")
@cluster_option
@namesrv_option
@output_option
def update(
    name: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | None,
    order: bool | None,
    yes: bool,
    cluster_name: str | None,
    namesrv: str,
    output: Output,
) -> None:
    """Change a topic. Settings that are not given stay as they are.

    To have fewer queues and still consume all messages, lower --write-queues first. Lower
    --read-queues when `rmq topic describe` shows nothing left to consume in the other queues.
    """
    if queues is not None and (read_queues is not None or write_queues is not None):
        raise click.UsageError("--queues cannot be used with --read-queues or --write-queues")
    given = {
        "read_queues": read_queues if queues is None else queues,
        "write_queues": write_queues if queues is None else queues,
        "perm": PERMS[perm] if perm is not None else None,
        "order": order,
    }
    named: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not named:
        raise click.UsageError(
            "nothing to change: give one of --queues, --read-queues, --write-queues, --perm, "
            "--order, --no-order"
        )
    with Cluster(namesrv) as cluster:
        there = [state for _, state in topics.states(cluster, name, cluster_name) if state]
        if not there:
            missing_topic.refuse(cluster, name)
        check_change(there, named)
        if not yes:
            ask_about_unread(cluster, there, named, err=output.is_data)
        changed = []
        for state in there:
            changed.append(topics.change(cluster, state, **named))
            output.say(f"{name}: {described(changed[-1])}")
    output.result("changed", None, topic=name, brokers=[*map(state_members, changed)])


@topic.command()
@click.argument("name")
@namesrv_option
@output_option
def describe(name: str, namesrv: str, output: Output) -> None:
    """Show the queues of a topic: offsets, and whether each is read and written.

    A queue without PERM holds messages but is not read: the topic had more queues before. Exit code
    3 if a broker does not answer: its queues are missing.
    """
    missing: Missing = {}
    with Cluster(namesrv) as cluster:
        found = topics.queues(cluster, name, missing)
    rows = [
        (
            each.range.queue.broker_name,
            each.range.queue.queue_id,
            perm_text(each.perm) or None,
            each.range.min_offset,
            each.range.max_offset,
            each.messages,
            each.range.last_stored_ms,
        )
        for each in found
    ]
    output.rows(QUEUE_COLUMNS, rows)
    if unread := sum(each.messages for each in found if not each.perm & PERM_READ):
        are = "message is" if unread == 1 else "messages are"
        click.echo(
            f"{unread} {are} in queues that are not read; make them readable with `rmq topic "
            f"update {name} --read-queues N` or `--perm rw`",
            err=True,
        )
    require_all(missing)


@topic.command()
@click.argument("name")
@cluster_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@namesrv_option
@output_option
def delete(name: str, cluster_name: str | None, yes: bool, namesrv: str, output: Output) -> None:
    """Delete a topic and its messages."""
    with Cluster(namesrv) as cluster:
        cluster.route(name)  # raises an error for an unknown topic before the user is asked
        if not yes:
            output.confirm(f"Delete topic {name} and its messages?")
        admin.delete_topic(cluster, name, cluster_name)
    output.result("deleted", f"{name}: deleted", topic=name)
