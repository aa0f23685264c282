"""`rmq trace`: what clients with tracing on wrote about a message."""

from __future__ import annotations

import sys
from typing import Any

import click

from rmq.cli import missing_topic
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.trace import Traced, traces_of
from rmq.names import TRACE_TOPIC
from rmq.operations import trace_rows
from rmq.operations.times import moment_members

COLUMNS = columns(*trace_rows.COLUMNS)
UNTRACED = "there is no such topic, because no client has traced yet (enable_trace)"


@click.command()
@click.argument("message_id")
@click.option(
    "--trace-topic", default=TRACE_TOPIC, show_default=True, help="Topic that has the traces."
)
@click.option(
    "--count",
    type=click.IntRange(1, 64),
    default=64,
    show_default=True,
    help="Read at most this many trace messages from each broker, the newest ones.",
)
@namesrv_option
@output_option
def trace(message_id: str, trace_topic: str, count: int, namesrv: str, output: Output) -> None:
    """Show the trace of a message, by its id or key.

    Only clients that were started with tracing on (enable_trace) write traces. A consumer has one
    line: for the end of its work or, if there is none yet, for its beginning. Exit code 1 if there
    is no trace.
    """
    found, why = [], ""
    try:
        with Cluster(namesrv) as cluster, missing_topic.in_words(UNTRACED):
            found = traces_of(cluster, message_id, topic=trace_topic, count=count)
    except missing_topic.MissingTopicError as error:
        why = f": {error}"
    if output.is_data:
        output.value([_members(each) for each in found])
    elif found:
        output.rows(COLUMNS, [trace_rows.trace_row(each) for each in found])
    else:
        click.echo(f"no trace of {message_id} in {trace_topic}{why}", err=True)
    if not found:
        sys.exit(1)


def _members(each: Traced) -> dict[str, Any]:
    """The members of a trace in data; those that a record does not have are null."""
    found = {name: getattr(each.record, name) for name in each.record.__struct_fields__}
    found["client_host"] = each.record.client_host or each.client_host
    known = {name: None if value in ("", -1) else value for name, value in found.items()}
    time_ms = known.pop("time_ms")
    return {**moment_members("time", time_ms), **moment_members("stored", each.stored_ms), **known}
