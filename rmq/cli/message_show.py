"""`rmq message show | direct`: shows everything about one message, or hands it to a consumer."""

from __future__ import annotations

import sys

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage
from rmq.operations.json_lines import members
from rmq.operations.message_facts import consume_directly, facts, find, tracks
from rmq.operations.texts import HEX_BYTES_MAX, hex_lines, printable


@click.command()
@click.argument("message_id", metavar="ID")
@click.argument("topic", required=False)
@namesrv_option
@output_option
def show(message_id: str, topic: str | None, namesrv: str, output: Output) -> None:
    """Show everything about a message, and which groups have passed it.

    A group has passed a message that it consumed, sent back for a later try, or filtered out.
    ID is the offset message id or, if TOPIC is given, the unique id from the sender's client.
    """
    with Cluster(namesrv) as cluster:
        found = find(cluster, message_id, topic)
        groups = list(tracks(cluster, found))
    if output.is_data:
        output.value({**members(found), "offset_id": found.stored.message_id,
                      "groups": dict(groups)})  # fmt: skip
        return
    for name, value in facts(found):
        click.echo(f"{name:<18}{printable(str(value))}")
    for name, value in sorted(found.properties.items()):
        click.echo(f"  {printable(name):<16}{printable(value)}")
    click.echo()
    _show_body(found)
    if groups:
        click.echo()
        output.rows(columns("GROUP", "THIS MESSAGE"), groups)


def _show_body(found: ReceivedMessage) -> None:
    try:
        if found.packing is not None:
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "packed")
        click.echo(printable(found.body.decode(), kept="\n\t"))
    except UnicodeDecodeError:
        for line in hex_lines(found.body):
            click.echo(line)
        if len(found.body) > HEX_BYTES_MAX:
            more = len(found.body) - HEX_BYTES_MAX
            click.echo(f"... and {more} bytes more; `rmq consume --format %s` prints all bytes")


@click.command()
@click.argument("message_id", metavar="ID")
@click.argument("group")
@click.option("--topic", help="Topic of the message, if ID is its unique id.")
@click.option("--client", help="Client id of the member.  [default: any that is online]")
@namesrv_option
@output_option
def direct(
    message_id: str,
    group: str,
    topic: str | None,
    client: str | None,
    namesrv: str,
    output: Output,
) -> None:
    """Have a member of a group consume one message now, and show the result.

    The offsets of the group stay as they are. Exit code 1 if the message was not consumed.
    """
    with Cluster(namesrv) as cluster:
        found = find(cluster, message_id, topic)
        said = consume_directly(cluster, found, group, client)
    if output.is_data:
        output.value({"client": said.client, "result": said.result, "remark": said.remark,
                      "spent_ms": said.took_ms})  # fmt: skip
    else:
        remark = f": {said.remark}" if said.remark else ""
        click.echo(printable(f"{said.client}: {said.result} after {said.took_ms} ms{remark}"))
    if not said.is_done:
        sys.exit(1)
