"""`rmq consume`: prints what a topic holds, and with --follow what arrives."""

from __future__ import annotations

import base64
import re
import sys
import time
from typing import Any

import click

from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_json, time_text
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start, tail


class StartParameter(click.ParamType[Start]):
    """`first`, `last`, milliseconds, or a local time such as 2025-06-01T08:30."""

    name = "first|last|TIME"

    def convert(self, value: Any, parameter: Any, context: Any) -> Start:
        if isinstance(value, Start):
            return value
        if value in ("first", "last"):
            return Start(value)
        if re.fullmatch("[0-9]{10,13}", value):
            return Start("time", int(value) * (1000 if len(value) == 10 else 1))
        for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
            try:
                return Start("time", int(time.mktime(time.strptime(value, form)) * 1000))
            except ValueError:
                continue
        self.fail(f"{value!r}: first, last, milliseconds, or a local time such as 2025-06-01T08:30")


@click.command()
@click.argument("topic")
@click.option("--tag", "tags", multiple=True, help="Only this tag; may be given several times.")
@click.option("--sql", help="Only messages of which this SQL92 expression is true.")
@click.option(
    "--from",
    "start",
    type=StartParameter(),
    default=None,
    help="Where to begin: first (default), last (default with --follow) or a time.",
)
@click.option("--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more instead of stopping at the end.")
@click.option("--body", "body_only", is_flag=True, help="Print the bodies only, byte for byte.")
@namesrv_option
@json_option
def consume(
    topic: str,
    tags: tuple[str, ...],
    sql: str | None,
    start: Start | None,
    count: int | None,
    follow: bool,
    body_only: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Print the messages of a topic.

    Reads every queue on its own, commits no offsets and disturbs no consumer group.
    """
    if tags and sql is not None:
        raise click.UsageError("--tag and --sql cannot be combined; a tag is the property TAGS")
    start = start or Start("last" if follow else "first")
    with Cluster(namesrv) as cluster:
        printed = 0
        try:
            for message in tail(cluster, topic, tags=tags, sql=sql, start=start, follow=follow):
                _show(message, body_only, as_json)
                printed += 1
                if printed == count:
                    break
        except KeyboardInterrupt:
            sys.exit(130)


def _show(message: ReceivedMessage, body_only: bool, as_json: bool) -> None:
    if body_only:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
        return
    stored = message.stored
    if as_json:
        show_json(members(message))
        return
    marks = [f"{message.broker_name}/{stored.queue_id}@{stored.queue_offset}"]
    marks.append(time_text(stored.store_timestamp_ms) or "-")
    for mark, name in (("tag", "TAGS"), ("keys", "KEYS")):
        if value := message.properties.get(name):
            marks.append(f"{mark}={value}")
    click.echo("  ".join([*marks, shown_body(message)]))


def members(message: ReceivedMessage) -> dict[str, Any]:
    """The message as a JSON object."""
    stored = message.stored
    text = _as_text(message.body) if message.packing is None else None
    body = {"body": text} if text is not None else {
        "body_base64": base64.b64encode(message.body).decode()
    }  # fmt: skip
    return {
        "broker": message.broker_name,
        "queue": stored.queue_id,
        "offset": stored.queue_offset,
        "stored": stored.store_timestamp_ms,
        "born": stored.born_timestamp_ms,
        "born_host": str(stored.born_host),
        "id": message.properties.get("UNIQ_KEY"),
        "tag": message.properties.get("TAGS"),
        "keys": message.properties.get("KEYS"),
        "reconsume_times": stored.reconsume_times,
        "properties": message.properties,
        **body,
    }


def shown_body(message: ReceivedMessage) -> str:
    """The body as text, or what it is."""
    text = _as_text(message.body) if message.packing is None else None
    return (
        text
        if text is not None
        else f"({len(message.body)} bytes, {message.packing or 'not text'})"
    )


def _as_text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
