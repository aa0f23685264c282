"""`rmq message query`: finds messages by key, unique key, tag or offset id. show and direct are in
message_show.py, resend is in message_resend.py."""

from __future__ import annotations

import sys

import click

from rmq.cli.message_resend import resend
from rmq.cli.message_show import direct, show
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns, moment
from rmq.cli.times import MOMENT
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.lookup import FOREVER, KEY, TAG, UNIQUE, by_id, by_key
from rmq.client.blocking.tail import ReceivedMessage
from rmq.operations.json_lines import members
from rmq.operations.texts import shown_line

COLUMNS = (
    *columns("BROKER", "QUEUE", "OFFSET"), moment("STORED"), *columns("ID", "TAG", "KEYS"),
    moment("BORN", is_wide=True), Column("BORN HOST", is_wide=True),
    Column("OFFSET ID", is_wide=True), Column("BYTES", is_wide=True), Column("BODY"),
)  # fmt: skip


@click.group()
def message() -> None:
    """Find messages by key, tag or id; send one again."""


for command in (show, direct, resend):
    message.add_command(command)


@message.command()
@click.argument("topic", required=False)
@click.option("--key", help="One of the message's keys.")
@click.option("--unique-key", help="Unique id, from the sender's client (32 digits).")
@click.option("--tag", help="Tag of the message.")
@click.option("--id", "offset_id", help="Offset message id: a broker's address and a log offset.")
@click.option("--from", "begin", type=MOMENT, default=0,
              help="Only messages stored at this time or later.")  # fmt: skip
@click.option("--to", "end", type=MOMENT, default=FOREVER,
              help="Only messages stored at this time or earlier.")  # fmt: skip
@click.option(
    "--count",
    type=click.IntRange(1, 64),
    default=32,
    show_default=True,
    help="At most this many from each broker, the newest ones.",
)
@namesrv_option
@output_option
def query(
    topic: str | None,
    key: str | None,
    unique_key: str | None,
    tag: str | None,
    offset_id: str | None,
    begin: int,
    end: int,
    count: int,
    namesrv: str,
    output: Output,
) -> None:
    """Find messages of a topic by key, unique key or tag, or one by its offset id.

    Exit code 1 if none is found.
    """
    given = [(KEY, key), (UNIQUE, unique_key), (TAG, tag), ("", offset_id)]
    asked = [(kind, text) for kind, text in given if text is not None]
    if len(asked) != 1:
        raise click.UsageError("give one of --key, --unique-key, --tag and --id")
    kind, text = asked[0]
    if bool(topic) == (kind == ""):
        raise click.UsageError("give a TOPIC with --key, --unique-key or --tag, but not with --id")
    with Cluster(namesrv) as cluster:
        found = [by_id(cluster, text)] if topic is None else by_key(
            cluster, topic, text, kind, count=count,
            begin_ms=begin, end_ms=end,
        )  # fmt: skip
    if output.is_data:
        output.value([members(each) for each in found])
    elif found:
        output.rows(COLUMNS, [_row(each) for each in found])
    else:
        click.echo("no message was found", err=True)
    if not found:
        sys.exit(1)


def _row(each: ReceivedMessage) -> tuple[object, ...]:
    properties, stored = each.properties, each.stored
    return (
        each.broker_name, stored.queue_id, stored.queue_offset,
        stored.store_timestamp_ms, properties.get("UNIQ_KEY"), properties.get("TAGS"),
        properties.get("KEYS"), stored.born_timestamp_ms, str(stored.born_host),
        stored.message_id, len(stored.body), shown_line(each),
    )  # fmt: skip
