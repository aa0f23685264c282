"""`rmq topic list | create | describe | delete`."""

from __future__ import annotations

import click

from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_rows, time_text
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.names import is_dead_letter, is_retry

PERMS = {"r": 4, "w": 2, "rw": 6}


@click.group()
def topic() -> None:
    """List, create, describe and delete topics."""


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
@click.option(
    "--queues",
    type=click.IntRange(1, 65535),
    default=8,
    show_default=True,
    help="Queues on each broker.",
)
@click.option("--perm", type=click.Choice(list(PERMS)), default="rw", show_default=True)
@click.option("--order", is_flag=True, help="An ordered topic: a fixed set of queues.")
@click.option("--cluster", "cluster_name", help="Only on the brokers of this cluster.")
@namesrv_option
def create(
    name: str, queues: int, perm: str, order: bool, cluster_name: str | None, namesrv: str
) -> None:
    """Create a topic, or change the queues and permissions of one."""
    with Cluster(namesrv) as cluster:
        taken = admin.create_topic(
            cluster, name, queues, perm=PERMS[perm], order=order, cluster_name=cluster_name
        )
    where = ", ".join(broker.name for broker in taken)
    click.echo(f"{name}: {queues} queues on {where}")


@topic.command()
@click.argument("name")
@namesrv_option
@json_option
def describe(name: str, namesrv: str, as_json: bool) -> None:
    """Show the offsets of every queue of a topic."""
    with Cluster(namesrv) as cluster:
        rows = [
            (
                each.queue.broker_name,
                each.queue.queue_id,
                each.min_offset,
                each.max_offset,
                each.max_offset - each.min_offset,
                time_text(each.last_stored_ms),
            )
            for each in admin.topic_queues(cluster, name)
        ]
    columns = ("BROKER", "QUEUE", "MIN OFFSET", "MAX OFFSET", "MESSAGES", "LAST STORED")
    show_rows(columns, rows, as_json)


@topic.command()
@click.argument("name")
@click.option("--cluster", "cluster_name", help="Only on the brokers of this cluster.")
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
