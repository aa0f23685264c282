"""`rmq trace`: what clients with tracing on wrote about a message."""

from __future__ import annotations

import sys

import click

from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_json, show_rows, time_text
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.trace import Traced, traces_of
from rmq.names import TRACE_TOPIC

COLUMNS = ("WHAT", "TIME", "GROUP", "TOPIC", "RESULT", "MS", "CLIENT", "NOTE")


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
        show_rows(COLUMNS, [_row(each) for each in found], as_json=False)
    else:
        click.echo(f"no trace of {message_id} in {trace_topic}", err=True)
    if not found:
        sys.exit(1)


def _row(each: Traced) -> tuple[object, ...]:
    record = each.record
    what = {
        "Pub": "sent",
        "SubBefore": "consuming",
        "SubAfter": "consumed",
        "EndTransaction": "transaction ended",
        "Recall": "recalled",
    }[record.kind]
    result = {True: "success", False: "failure", None: ""}[record.success]
    if record.kind == "SubAfter" and record.code not in ("", "success"):
        result = record.code
    if record.kind == "EndTransaction":
        result = record.transaction_state
    notes = []
    if record.retries > 0:
        notes.append(f"retry {record.retries}")
    if record.message_type not in ("", "normal"):
        notes.append(record.message_type)
    if record.from_check:
        notes.append("after a check")
    if record.tags:
        notes.append(f"tags {record.tags}")
    if record.keys:
        notes.append(f"keys {record.keys}")
    time = time_text(record.time_ms) if record.time_ms >= 0 else ""
    cost = record.cost_ms if record.cost_ms >= 0 else ""
    return (
        what, time, record.group, record.topic, result, cost,
        record.client_host or each.client_host, ", ".join(notes),
    )  # fmt: skip
