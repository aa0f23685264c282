"""`rmq topic list | create | update | describe | delete`."""

from __future__ import annotations

from typing import Any

import click

from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import counted, show_rows, time_text
from rmq.client.blocking import admin, topics
from rmq.client.blocking.cluster import Cluster
from rmq.codes import PERM_READ, PERM_WRITE
from rmq.names import is_dead_letter, is_retry

PERMS = {"r": PERM_READ, "w": PERM_WRITE, "rw": PERM_READ | PERM_WRITE}
QUEUES = click.IntRange(1, 65535)

cluster_option = click.option(
    "--cluster", "cluster_name", help="Only on the brokers of this cluster."
)


@click.group()
def topic() -> None:
    """List, create, change, describe and delete topics."""


@topic.command("list")
@click.option("--all", "with_system", is_flag=True, help="System and retry topics too.")
@namesrv_option
@json_option
def list_topics(namesrv: str, with_system: bool, as_json: bool) -> None:
    """List topics with their queues and brokers."""
    with Cluster(namesrv) as cluster:
        hidden = set() if with_system else admin.system_topics(cluster)
        rows = []
        for name in cluster.topics():
            if not with_system and (name in hidden or is_retry(name) or is_dead_letter(name)):
                continue
            route = cluster.route(name)
            brokers = sorted({entry.broker_name for entry in route.entries})
            rows.append((name, len(route.readable()), len(route.writable()), ",".join(brokers)))
    show_rows(("TOPIC", "READ QUEUES", "WRITE QUEUES", "BROKERS"), rows, as_json)


@topic.command()
@click.argument("name")
@click.option("--queues", type=QUEUES, default=8, show_default=True, help="Queues on each broker.")
@click.option("--perm", type=click.Choice(list(PERMS)), default="rw", show_default=True)
@click.option("--order", is_flag=True, help="An ordered topic: a fixed set of queues.")
@click.option("--if-not-exists", is_flag=True, help="Leave it as it is where it exists.")
@cluster_option
@namesrv_option
def create(
    name: str,
    queues: int,
    perm: str,
    order: bool,
    if_not_exists: bool,
    cluster_name: str | None,
    namesrv: str,
) -> None:
    """Create a topic. One that exists is changed by `rmq topic update`."""
    with Cluster(namesrv) as cluster:
        found = list(topics.states(cluster, name, cluster_name))
        there = [state for _, state in found if state is not None]
        if there and not if_not_exists:
            raise click.ClickException(
                f"topic {name} exists: {'; '.join(map(_described, there))}. Change it with `rmq "
                "topic update`, or leave it as it is with --if-not-exists"
            )
        missing = [broker for broker, state in found if state is None]
        if missing:
            admin.create_topic(
                cluster, name, queues, perm=PERMS[perm], order=order, brokers=missing
            )
    if missing:
        where = ", ".join(broker.name for broker in missing)
        click.echo(f"{name}: {queues} queues on {where}")
    for state in there:
        click.echo(f"{name}: exists, {_described(state)}")


@topic.command()
@click.argument("name")
@click.option("--queues", type=QUEUES, help="Queues on each broker, to read and to write.")
@click.option("--read-queues", type=QUEUES, help="Queues that are read.")
@click.option("--write-queues", type=QUEUES, help="Queues that new messages go to.")
@click.option("--perm", type=click.Choice(list(PERMS)))
@click.option("--order/--no-order", default=None, help="Whether it is an ordered topic.")
@click.option("--yes", is_flag=True, help="Do not ask about messages that nobody will read.")
@cluster_option
@namesrv_option
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
) -> None:
    """Change what is named of a topic, and nothing else.

    To have fewer queues without losing sight of a message, take --write-queues down first, and
    --read-queues when `rmq topic describe` shows nothing left to consume in those that go.
    """
    if queues is not None and (read_queues is not None or write_queues is not None):
        raise click.UsageError("--queues is both of --read-queues and --write-queues")
    given = {
        "read_queues": read_queues if queues is None else queues,
        "write_queues": write_queues if queues is None else queues,
        "perm": PERMS[perm] if perm is not None else None,
        "order": order,
    }
    named: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not named:
        raise click.UsageError(
            "nothing to change: name one of --queues, --read-queues, --write-queues, --perm, "
            "--order, --no-order"
        )
    with Cluster(namesrv) as cluster:
        there = [state for _, state in topics.states(cluster, name, cluster_name) if state]
        if not there:
            cluster.route(name)  # says that it does not exist
            raise click.ClickException(f"topic {name} is on no broker of cluster {cluster_name}")
        for state in there:
            if state.is_static:
                raise click.ClickException(
                    f"topic {name} is a static one: its queues lie on several brokers, and "
                    "`mqadmin updateStaticTopic` changes them together"
                )
            reads = named.get("read_queues", state.read_queues)
            if reads < named.get("write_queues", state.write_queues):
                raise click.ClickException(
                    f"new messages would go to queues that nobody reads: {_described(state)}. Take "
                    f"--write-queues down as well, to {reads} at most"
                )
        if not yes and (lost := _unread(cluster, there, named)):
            for line in lost:
                click.echo(line, err=True)
            click.confirm("They stay in the store, and can be read again. Go on?", abort=True)
        for state in there:
            click.echo(f"{name}: {_described(topics.change(cluster, state, **named))}")


def _unread(cluster: Cluster, there: list[topics.TopicState], named: dict[str, Any]) -> list[str]:
    """What would be read no more, a line for each broker."""
    lines = []
    for state in there:
        count = named.get("read_queues", state.read_queues)
        if not named.get("perm", PERM_READ) & PERM_READ:
            count = 0
        if count >= state.read_queues or not state.perm & PERM_READ:
            continue
        going = [
            each
            for each in admin.queue_ranges(cluster, state.topic, state.broker.name)
            if count <= each.queue.queue_id < state.read_queues
        ]
        messages = sum(each.max_offset - each.min_offset for each in going)
        if messages:
            lines.append(
                f"{state.broker.name}: queues {count} to {state.read_queues - 1} hold "
                f"{counted(messages, 'message')}, which nobody reads any more."
            )
    return lines


def _described(state: topics.TopicState) -> str:
    """Example: broker-a has 8 queues, rw."""
    count = f"{state.read_queues} queues"
    if state.read_queues != state.write_queues:
        count = f"{state.read_queues} queues to read, {state.write_queues} to write"
    order = ", ordered" if state.order else ""
    perm = perm_text(state.perm) or "neither read nor written"
    return f"{state.broker.name} has {count}, {perm}{order}"


def perm_text(perm: int) -> str:
    """Example: 6 is rw."""
    return ("r" if perm & PERM_READ else "") + ("w" if perm & PERM_WRITE else "")


@topic.command()
@click.argument("name")
@namesrv_option
@json_option
def describe(name: str, namesrv: str, as_json: bool) -> None:
    """Show the queues of a topic: offsets, and whether each is read and written.

    A queue without PERM holds messages and is not read: the topic had more queues once.
    """
    with Cluster(namesrv) as cluster:
        found = topics.queues(cluster, name)
    rows = [
        (
            each.range.queue.broker_name,
            each.range.queue.queue_id,
            perm_text(each.perm) or None,
            each.range.min_offset,
            each.range.max_offset,
            each.messages,
            time_text(each.range.last_stored_ms),
        )
        for each in found
    ]
    columns = ("BROKER", "QUEUE", "PERM", "MIN OFFSET", "MAX OFFSET", "MESSAGES", "LAST STORED")
    show_rows(columns, rows, as_json)
    if unread := sum(each.messages for each in found if not each.perm & PERM_READ):
        lie = "message lies" if unread == 1 else "messages lie"
        click.echo(
            f"{unread} {lie} in queues that are not read: `rmq topic update {name} "
            "--read-queues N` or `--perm rw` has them read",
            err=True,
        )


@topic.command()
@click.argument("name")
@cluster_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@namesrv_option
def delete(name: str, cluster_name: str | None, yes: bool, namesrv: str) -> None:
    """Delete a topic and its messages."""
    with Cluster(namesrv) as cluster:
        cluster.route(name)  # an unknown topic is an error before anybody is asked
        if not yes:
            click.confirm(f"Delete topic {name} and its messages?", abort=True)
        admin.delete_topic(cluster, name, cluster_name)
    click.echo(f"{name}: deleted")
