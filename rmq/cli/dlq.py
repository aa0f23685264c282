"""`rmq dlq list | show | resend | export`: dead letters: messages that a group gave up.

They lie in %DLQ%group until they expire. How far they were sent again is kept at the brokers, as
the offset of the tools' group in that topic: `resend` goes on from there, whoever calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rmq.cli.consume import START, shown_line
from rmq.cli.export import export as export_topic
from rmq.cli.json_lines import members
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import counted, show_json, show_rows, time_text
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start, first_offset, tail
from rmq.codes import ResponseCode
from rmq.errors import MessageError, ProtocolError, RemoteError, RmqError
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

if TYPE_CHECKING:
    from cext.client.message import Message

ORIGINS = ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")  # properties that name the topic it came from
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
        return max(self.end - max(self.first, self.sent), 0)


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
    _none_missing(found, key, ids)
    if as_json:
        show_json([{**members(each), "topic": origin_of(each)} for each in found])
        return
    rows = []
    for each in found:
        stored = each.stored
        rows.append((
            f"{each.broker_name}/{stored.queue_id}@{stored.queue_offset}",
            time_text(stored.store_timestamp_ms), origin_of(each), each.properties.get("UNIQ_KEY"),
            each.properties.get("TAGS"), each.properties.get("KEYS"), shown_line(each),
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

    Without --from, --key and --id: those that were not sent again yet. Those that are chosen by
    these are not counted as sent. All stay among the dead letters until they expire there.
    """
    is_rest = start is None and key is None and not ids
    with Cluster(namesrv) as cluster:
        topic = topic_of(cluster, group)
        if target not in (None, "origin"):
            cluster.route(target)  # says that it does not exist
        found = list(_chosen(cluster, topic, start, key, ids, count))
        _none_missing(found, key, ids)
        where = target or f"group {group}"
        said = f"{_counted(len(found))} to {where}"
        if dry_run or not found:
            click.echo(said)
            return
        if not yes:
            click.confirm(f"Send {said} at {namesrv}?", abort=True)
        if is_rest:  # somebody else may have sent them meanwhile
            marks = {each.queue: each.sent for each in letters_of(cluster, topic)}
            found = [each for each in found
                     if each.stored.queue_offset >= marks[_queue(topic, each)]]  # fmt: skip
        letters = [_letter(each, group, target) for each in found]
        for name in {each.broker_name for each in found} if is_rest else ():
            cluster.address_of(name)  # its master takes note of how far it is
        count_sent = 0
        try:
            for each, message_id in zip(found, _send(namesrv, letters), strict=True):
                if target is None and count_sent == 0:
                    _check_taken(cluster, topic, group, message_id)
                count_sent += 1
                if is_rest:
                    _note(cluster, _queue(topic, each), each.stored.queue_offset + 1)
        except RmqError:
            if count_sent:
                click.echo(f"{_counted(count_sent)} of {len(found)} were sent before", err=True)
            raise
    click.echo(f"{_counted(len(found))} to {where}")


def _counted(count: int) -> str:
    return counted(count, "dead letter")


def _queue(topic: str, message: ReceivedMessage) -> MessageQueue:
    return MessageQueue(topic, message.broker_name, message.stored.queue_id)


def _note(cluster: Cluster, queue: MessageQueue, offset: int) -> None:
    """How far they were sent again; never back, whoever else is at it."""
    before = admin.committed_offset(cluster, TOOLS_CONSUMER_GROUP, queue) or 0
    if offset > before:
        admin.commit_offset(cluster, TOOLS_CONSUMER_GROUP, queue, offset)


def _check_taken(cluster: Cluster, topic: str, group: str, message_id: str) -> None:
    """After the first one: of a group that consumes in order, and holds locks, brokers make dead
    letters of what comes to its retry topic. ClickException."""
    for each in tail(cluster, topic, start=Start("back", 1)):
        if each.properties.get("UNIQ_KEY") == message_id:
            raise click.ClickException(
                f"group {group} consumes in order: what comes to its retry topic is a dead letter "
                "again, as this first one is now. Stop its members meanwhile, or send to where "
                "they came from: --to origin"
            )


def _none_missing(found: Sequence[ReceivedMessage], key: str | None, ids: Sequence[str]) -> None:
    """ClickException: what was named is not there."""
    missing = set(ids) - {str(each.properties.get("UNIQ_KEY")) for each in found}
    if missing or (key is not None and not found):
        raise click.ClickException(f"no dead letter has {min(missing) if missing else key}")


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
    found = _came_by(message)
    group = message.stored.topic.removeprefix(DLQ_PREFIX)
    retry = retry_topic(group)
    if found is None or not found.startswith(retry):
        return found
    return found[len(retry) + 1 :] or None  # of a pop: %RETRY%group_topic, or with a +


def _came_by(message: ReceivedMessage) -> str | None:
    found = (message.properties.get(name) for name in ORIGINS)
    return next((each for each in found if each), None)


def _letter(message: ReceivedMessage, group: str, target: str | None) -> Message:
    """What is sent. MessageError, ProtocolError: it cannot be."""
    from cext.client.message import Message, unpack_body

    stored = message.stored
    place = f"{message.broker_name}, queue {stored.queue_id}, offset {stored.queue_offset}"
    try:
        body = unpack_body(stored.sys_flag, stored.body)
    except ProtocolError as error:
        raise MessageError(f"{place}: {error}; --id and --from send others") from None
    kept = {name: value for name, value in message.properties.items()
            if name not in OWN_PROPERTIES}  # fmt: skip
    origin, came_by = origin_of(message), _came_by(message)
    # Who pops reads a retry topic for each topic, which is the one that it came by.
    is_popped = came_by != origin
    topic = origin if target == "origin" else target
    if target is None:
        topic = came_by if is_popped else retry_topic(group)
    if topic is None:
        raise MessageError(f"{place}: nothing says which topic it came from: name one (--to)")
    made = Message(topic, body, properties=kept, flag=stored.flag)
    if target is None and origin is not None and not is_popped:
        made.put_property("RETRY_TOPIC", origin)  # as which the group sees it
    return made


def _send(namesrv: str, letters: Sequence[Message]) -> Iterator[str]:
    """The unique id of each, once it is stored."""
    from rmq.cli.account_options import asker
    from rmq.client.producer.producer import Producer

    given = asker()
    given["namesrv_addr"] = namesrv
    with Producer(CLIENT_PRODUCER_GROUP, **given) as producer:
        for each in letters:
            yield str(producer.send(each).message_id)


@dlq.command(
    "export",
    help=(export_topic.help or "").replace("messages of a topic", "dead letters of a group"),
    params=[click.Argument(["group"]), *export_topic.params[1:]],
)
@click.pass_context
def export(context: click.Context, /, group: str, **given: object) -> None:
    context.invoke(export_topic, topic=dlq_topic(group), **given)
