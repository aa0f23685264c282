"""`rmq topic perm`: whether a topic may be read and written, at all brokers or at one."""

from __future__ import annotations

import click

from rmq.cli import missing_topic
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.cli.unread_question import ask_about_unread
from rmq.client.blocking import topics
from rmq.client.blocking.cluster import Cluster
from rmq.operations.topic_changes import PERMS, perm_text

NONE = "none"
COLUMNS = columns("BROKER", "IS", "WAS")


@click.command()
@click.argument("name")
@click.argument("wanted", metavar="[PERM]", required=False,
                type=click.Choice([*PERMS, NONE]))  # fmt: skip
@click.option("--broker", help="Only on this broker name.")
@click.option("--cluster", "cluster_name", help="Only on the brokers of this cluster name.")
@click.option("--yes", is_flag=True, help="Do not ask, even if messages can no longer be read.")
@namesrv_option
@output_option
def perm(
    name: str,
    wanted: str | None,
    broker: str | None,
    cluster_name: str | None,
    yes: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Show or change whether a topic may be read and written.

    PERM is r (read), w (write), rw or none; without it, the permissions are shown. Clients notice a
    change when they refresh their routes, within 30 seconds.
    """
    to_be = None if wanted is None else PERMS.get(wanted, 0)
    with Cluster(namesrv) as cluster:
        there = [state for entry, state in topics.states(cluster, name, cluster_name)
                 if state is not None and broker in (None, entry.name)]  # fmt: skip
        if not there:
            missing_topic.refuse(cluster, name)
        rows = []
        if to_be is not None and not yes:
            ask_about_unread(cluster, there, {"perm": to_be}, err=output.is_data)
        for state in there:
            is_now = state.perm if to_be is None else to_be
            if is_now != state.perm:
                topics.change(cluster, state, perm=is_now)
            rows.append((state.broker.name, perm_text(is_now) or NONE,
                         perm_text(state.perm) or NONE))  # fmt: skip
    output.rows(COLUMNS, rows)
