"""`rmq trace`: what clients with tracing on wrote about a message."""

from __future__ import annotations

import sys

import click

from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_json, show_rows
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.trace import traces_of
from rmq.names import TRACE_TOPIC
from rmq.operations.trace_rows import COLUMNS, trace_row


@click.command()
@click.argument("message_id")
@click.option(
    "--trace-topic", default=TRACE_TOPIC, show_default=True, help="Where the clients write traces."
)
@click.option(
    "--count",
    type=click.IntRange(1, 64),
    default=64,
    show_default=True,
    help="Read at most so many trace messages of each broker, the newest.",
)
@namesrv_option
@json_option
def trace(message_id: str, trace_topic: str, count: int, namesrv: str, as_json: bool) -> None:
    """Show what became of a message, by its id or key.

    The clients must have been started with tracing on. A consumer's line is its end when there is
    one, else its beginning. Exits with 1 when nothing is known.
    """
    with Cluster(namesrv) as cluster:
        found = traces_of(cluster, message_id, topic=trace_topic, count=count)
    if as_json:
        show_json([each.members() for each in found])
    elif found:
        show_rows(COLUMNS, [trace_row(each) for each in found], as_json=False)
    else:
        click.echo(f"no trace of {message_id} in {trace_topic}", err=True)
    if not found:
        sys.exit(1)
