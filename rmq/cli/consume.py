"""`rmq consume`: prints what a topic holds, and with --follow what arrives; alone, or with --group
as a member of a consumer group (consume_member.py)."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import replace

import click

from rmq.cli.message_format import MessageFormat
from rmq.cli.options import Parsed, namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.starts import start_option
from rmq.cli.store_places import progress_bar
from rmq.cli.times import MOMENT
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start, tail
from rmq.operations.json_lines import members
from rmq.operations.texts import printable, shown_body, time_text


@click.command()
@click.argument("topic")
@click.option("--group", "-g", help="Read as a member of this consumer group: begin where it is, "
              "and commit what was printed.")  # fmt: skip
@click.option("--tag", "tags", multiple=True, help="Only this tag. May be given several times.")
@click.option("--sql", help="Only messages for which this SQL92 expression is true.")
@click.option("--key", help="Only messages with this key.")
@click.option("--queue", "queues", type=click.IntRange(0), multiple=True,
              help="Only this queue. May be given several times.")  # fmt: skip
@click.option("--broker", help="Only the queues of this broker name.")
@start_option(None)
@click.option("--until", type=MOMENT, help="Only messages stored before this time.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--follow", "-f", is_flag=True, help="At the end, wait for new messages.")
@click.option("--body", "body_only", is_flag=True, help="Print only the bodies, one per line.")
@click.option(
    "--format",
    "form",
    type=Parsed("FORMAT", MessageFormat),
    help="Print only this for each message: %t topic, %p queue, %o offset, %k keys, "
    "%s body byte for byte, %S its bytes, %T stored in ms, %h properties, %h{NAME} one of them, %b "
    "broker, %i id, %g tag, %r retries so far, %d stored, \\n, \\t, \\x1e.",
)
@namesrv_option
@output_option
def consume(
    topic: str,
    group: str | None,
    tags: tuple[str, ...],
    sql: str | None,
    key: str | None,
    queues: tuple[int, ...],
    broker: str | None,
    start: Start | None,
    until: int | None,
    count: int | None,
    follow: bool,
    body_only: bool,
    form: MessageFormat | None,
    namesrv: str,
    output: Output,
) -> None:
    """Print the messages of a topic.

    Begins with the first message, with --follow at the end. No offsets are committed, and no
    consumer group is disturbed. With --group the command is a member of the group, with its share
    of the queues; a new group begins with the first message, also with --follow.

    `rmq send --json-lines` accepts the output of --json. On a terminal, control characters of
    messages are replaced; a pipe or a file gets them.
    """
    if tags and sql is not None:
        raise click.UsageError("--tag and --sql cannot be combined; in SQL, a tag is called TAGS")
    if body_only + output.is_data + (form is not None) > 1:
        raise click.UsageError("--body, --format and -o json or yaml cannot be used together")
    if group is not None and (start, until, queues, broker) != (None, None, (), None):
        raise click.UsageError("--group begins where the group is, in its share of the queues: it "
                               "cannot be used with --from, --until, --queue or --broker. `rmq "
                               "group reset` moves a group")  # fmt: skip
    if body_only:
        form = MessageFormat("%s\\n")
    start = start or Start("last" if follow else "first")
    if until is not None:
        start = replace(start, until_ms=until)
    if follow and start.until_ms is not None:
        raise click.UsageError("--follow waits for new messages: it cannot be used with --until")
    with Cluster(namesrv) as cluster:
        if group is not None:
            from rmq.cli.consume_member import joined

            with joined(cluster, topic, group, tags=tags, sql=sql, end=not follow) as found:
                _show_each(found, key, count, form, output)
            return
        _show_each(
            tail(cluster, topic, tags=tags, sql=sql, start=start, follow=follow,
                 queues=queues or None, broker=broker),
            key, count, form, output,
        )  # fmt: skip


def _show_each(
    messages: Iterable[ReceivedMessage], key: str | None, count: int | None,
    form: MessageFormat | None, output: Output,
) -> None:  # fmt: skip
    printed = 0
    with progress_bar("consume", is_wanted=_goes_to_file()) as progress:
        for message in messages:
            if key is not None and key not in message.properties.get("KEYS", "").split():
                continue
            _show(message, form, output)
            printed += 1
            progress("messages", printed, count or 0)
            if printed == count:
                break


def _goes_to_file() -> bool:
    """Whoever reads a pipe, as less does, may have the terminal."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # it is none of the system's
        return False


def _show(message: ReceivedMessage, form: MessageFormat | None, output: Output) -> None:
    if form is not None:
        sys.stdout.buffer.write(form.bytes_of(message, for_terminal=sys.stdout.isatty()))
        sys.stdout.buffer.flush()
        return
    stored = message.stored
    if output.is_data:
        output.value(members(message))
        return
    marks = [f"{message.broker_name}/{stored.queue_id}@{stored.queue_offset}"]
    marks.append(time_text(stored.store_timestamp_ms) or "-")
    for mark, name in (("tag", "TAGS"), ("keys", "KEYS")):
        if value := message.properties.get(name):
            marks.append(f"{mark}={value}")
    if output.is_wide:
        marks.append(f"id={message.properties.get('UNIQ_KEY', '-')}")
        marks.append(f"born={time_text(stored.born_timestamp_ms)} at {stored.born_host}")
        marks.append(f"retries={stored.reconsume_times}")
    line = "  ".join([*marks, shown_body(message)])
    click.echo(printable(line, "\n\t") if sys.stdout.isatty() else line)
