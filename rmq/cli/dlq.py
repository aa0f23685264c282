"""`rmq dlq list | show | resend | export`: dead letters: messages that a group gave up.

They lie in %DLQ%group until they expire. How far they were sent again is kept at the brokers, as
the offset of the tools' group in that topic: `resend` goes on from there, whoever calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from rmq.cli.consume import START, shown_body
from rmq.cli.export import export as export_topic
from rmq.cli.json_lines import members
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_json, show_rows, time_text
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start, first_offset, tail
from rmq.codes import ResponseCode
from rmq.errors import MessageError, RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.names import (
    CLIENT_PRODUCER_GROUP,
    DLQ_PREFIX,
    TOOLS_CONSUMER_GROUP,
    dlq_topic,
    is_dead_letter,
    retry_topic,
)

ORIGINS = ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")  # properties that name the topic it came from
BODY_CHARACTERS_MAX = 60
COLUMNS = ("PLACE", "DIED", "TOPIC", "ID", "TAG", "KEYS", "BODY")


@dataclass(frozen=True)
class Letters:
    """Dead letters in one queue: first .. end, of which those before `sent` were sent again."""

    queue: MessageQueue
    first: int
    end: int
    sent: int
    last_stored_ms: int

    @property
    def count(self) -> int:
        return self.end - self.first

    @property
    def waiting(self) -> int:
        return self.end - max(self.first, self.sent)


def letters_of(cluster: Cluster, topic: str) -> list[Letters]:
    return [
        Letters(
            each.queue, each.min_offset, each.max_offset,
            admin.committed_offset(cluster, TOOLS_CONSUMER_GROUP, each.queue) or 0,
            each.last_stored_ms,
        )
        for each in admin.topic_queues(cluster, topic)
    ]  # fmt: skip


def topic_of(cluster: Cluster, group: str) -> str:
    """RemoteError: the group has no dead letters."""
    topic = dlq_topic(group)
    if topic not in cluster.topics():
        raise RemoteError(ResponseCode.TOPIC_NOT_EXIST, f"group {group} has no dead letters")
    return topic


@click.group()
def dlq() -> None:
    """Dead letters: list, show, send again, export."""


@dlq.command("list")
@namesrv_option
@json_option
def list_groups(namesrv: str, as_json: bool) -> None:
    """List groups with dead letters, and how many were not sent again."""
    rows = []
    with Cluster(namesrv) as cluster:
        for topic in filter(is_dead_letter, cluster.topics()):
            found = letters_of(cluster, topic)
            rows.append((
                topic.removeprefix(DLQ_PREFIX), sum(each.count for each in found),
                sum(each.waiting for each in found),
                time_text(max((each.last_stored_ms for each in found), default=0)),
            ))  # fmt: skip
    show_rows(("GROUP", "DEAD LETTERS", "NOT SENT AGAIN", "LAST DIED"), rows, as_json)


start_option = click.option(
    "--from", "start", type=START, default=None,
    help="Where to begin in each queue: first, an offset, N:M, -N for the last N, or a time: "
    "2025-06-01T08:30, -1h.",
)  # fmt: skip
key_option = click.option("--key", help="Only messages with this key.")
id_option = click.option(
    "--id", "ids", multiple=True, help="Only the message with this unique id; several times."
)
count_option = click.option("--count", type=click.IntRange(1), help="At most so many.")


@dlq.command()
@click.argument("group")
@start_option
@key_option
@id_option
@count_option
@namesrv_option
@json_option
def show(
    group: str,
    start: Start | None,
    key: str | None,
    ids: tuple[str, ...],
    count: int | None,
    namesrv: str,
    as_json: bool,
) -> None:
    """Show the dead letters of a group, and where each came from."""
    with Cluster(namesrv) as cluster:
        topic = topic_of(cluster, group)
        found = list(_chosen(cluster, topic, start or Start("first"), key, ids, count))
    if as_json:
        show_json([{**members(each), "topic": origin_of(each)} for each in found])
        return
    rows = []
    for each in found:
        stored, body = each.stored, shown_body(each).replace("\n", " ")
        if len(body) > BODY_CHARACTERS_MAX:
            body = body[: BODY_CHARACTERS_MAX - 3] + "..."
        rows.append((
            f"{each.broker_name}/{stored.queue_id}@{stored.queue_offset}",
            time_text(stored.store_timestamp_ms), origin_of(each), each.properties.get("UNIQ_KEY"),
            each.properties.get("TAGS"), each.properties.get("KEYS"), body,
        ))  # fmt: skip
    show_rows(COLUMNS, rows, False)


@dlq.command()
@click.argument("group")
@start_option
@key_option
@id_option
@count_option
@click.option(
    "--to", "target", metavar="TOPIC",
    help="Send them to this topic; origin: where each came from, for all groups that read it.  "
    "[default: the group alone gets them, by its retry topic]",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say how many, and send nothing.")
@namesrv_option
def resend(
    group: str,
    start: Start | None,
    key: str | None,
    ids: tuple[str, ...],
    count: int | None,
    target: str | None,
    yes: bool,
    dry_run: bool,
    namesrv: str,
) -> None:
    """Send dead letters of a group again.

    Without --from, --key and --id: those that were not sent again yet. They stay among the dead
    letters until they expire there.
    """
    is_rest = start is None and key is None and not ids
    with Cluster(namesrv) as cluster:
        topic = topic_of(cluster, group)
        found = list(_chosen(cluster, topic, start, key, ids, count))
        where = target or f"group {group}"
        said = f"{len(found)} dead {'letter' if len(found) == 1 else 'letters'} to {where}"
        if dry_run or not found:
            click.echo(said)
            return
        if not yes:
            click.confirm(f"Send {said}?", abort=True)
        for each in found:
            _check(each, target)
        for each, sent in zip(found, _send(namesrv, group, found, target), strict=True):
            assert sent
            if is_rest:
                stored = each.stored
                queue = MessageQueue(topic, each.broker_name, stored.queue_id)
                admin.commit_offset(cluster, TOOLS_CONSUMER_GROUP, queue, stored.queue_offset + 1)
    click.echo(said)


def _chosen(
    cluster: Cluster,
    topic: str,
    start: Start | None,
    key: str | None,
    ids: Sequence[str],
    count: int | None,
) -> Iterator[ReceivedMessage]:
    """Without a start, in each queue those that were not sent again; with ids or a key from the
    first on."""
    if start is None:
        start = Start("first") if key is not None or ids else None
    left = count if count is not None else -1
    for each in letters_of(cluster, topic):
        begin = max(each.first, each.sent)
        if start is not None:
            begin = first_offset(cluster, each.queue, start, each.end)
        end = each.end if start is None or start.end is None else min(each.end, start.end)
        if begin >= end:
            continue
        for message in tail(
            cluster, topic, start=Start("offset", begin, end), queues=[each.queue.queue_id],
            broker=each.queue.broker_name,
        ):  # fmt: skip
            if left == 0:
                return
            if key is not None and key not in message.properties.get("KEYS", "").split():
                continue
            if ids and message.properties.get("UNIQ_KEY") not in ids:
                continue
            left -= 1
            yield message


def origin_of(message: ReceivedMessage) -> str | None:
    """The topic that its group read it from; None: nothing says so."""
    found = (message.properties.get(name) for name in ORIGINS)
    return next((each for each in found if each), None)


def _check(message: ReceivedMessage, target: str | None) -> None:
    """Before the first one is sent. MessageError: this one cannot be."""
    stored = message.stored
    place = f"{message.broker_name}, queue {stored.queue_id}, offset {stored.queue_offset}"
    if message.packing is not None:
        raise MessageError(f"{place}: its body is packed by {message.packing}, which is not here: "
                           "pip install 'rmq[compression]'")  # fmt: skip
    if target != "origin":
        return
    if origin_of(message) is None:
        raise MessageError(f"{place}: nothing says which topic it came from: name one (--to)")


def _send(
    namesrv: str, group: str, found: Sequence[ReceivedMessage], target: str | None
) -> Iterator[bool]:
    """Each, once it is stored."""
    from cext.client.message import Message
    from rmq.cli.account_options import asker
    from rmq.client.producer.producer import Producer

    given = asker()
    given["namesrv_addr"] = namesrv
    with Producer(CLIENT_PRODUCER_GROUP, **given) as producer:
        for each in found:
            kept = {name: value for name, value in each.properties.items()
                    if name not in OWN_PROPERTIES}  # fmt: skip
            origin = origin_of(each)
            topic = target or retry_topic(group)
            if target == "origin":
                assert origin is not None
                topic = origin
            message = Message(topic, each.body, properties=kept)
            if target is None and origin is not None:
                message.put_property("RETRY_TOPIC", origin)  # as which the group sees it
            producer.send(message)
            yield True


@dlq.command(
    "export",
    help=(export_topic.help or "").replace("messages of a topic", "dead letters of a group"),
    params=[click.Argument(["group"]), *export_topic.params[1:]],
)
@click.pass_context
def export(context: click.Context, group: str, **given: object) -> None:
    context.invoke(export_topic, topic=dlq_topic(group), **given)
