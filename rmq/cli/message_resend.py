"""`rmq message resend`: sends a stored message again, to its topic or another one."""

from __future__ import annotations

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.client.blocking.cluster import Cluster
from rmq.names import CLOSED_TO_CLIENTS, is_dead_letter, is_inner, is_retry
from rmq.operations.client_keywords import client_keywords
from rmq.operations.message_copy import copy_of, place_of, send_each
from rmq.operations.message_facts import find


@click.command()
@click.argument("message_id", metavar="ID")
@click.argument("topic", required=False)
@click.option("--to", "target", metavar="TOPIC",
              help="Send it to this topic.  [default: the topic it is in]")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@namesrv_option
@output_option
def resend(
    message_id: str, topic: str | None, target: str | None, yes: bool, namesrv: str, output: Output
) -> None:
    """Send a stored message again, to all groups that read the topic.

    ID is the offset message id or, if TOPIC is given, the unique id from the sender's client. A new
    message is sent, which is delivered at once; the stored one stays as it is.
    """
    from rmq.cli.send import show_sent

    with Cluster(namesrv) as cluster:
        found = find(cluster, message_id, topic)
        where = target or found.stored.topic
        if is_dead_letter(where) or is_retry(where):
            raise click.ClickException(
                f"it is in {where}: use `rmq dlq resend`, or give a topic with --to"
            )
        if is_inner(where) or where in CLOSED_TO_CLIENTS:
            raise click.ClickException(f"it is in {where}, to which only brokers may write: "
                                       "give a topic with --to")  # fmt: skip
        cluster.route(where)  # raises an error if the topic does not exist
        message = copy_of(found, where)
    if not yes:
        output.confirm(f"Send the message at {place_of(found)} of {found.stored.topic} to {where} "
                       f"at {namesrv}?")  # fmt: skip
    given = client_keywords()
    given["namesrv_addr"] = namesrv
    for sent in send_each([message], given):
        show_sent(sent, output)
