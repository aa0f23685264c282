"""`rmq dlq list | show | resend | dismiss | export`: dead letters: messages that a group gave up.

`resend` goes on where the last `resend` ended, whoever called that one
(rmq/operations/dead_letters.py).
"""

from __future__ import annotations

import click

from rmq.cli import missing_topic
from rmq.cli.export import export as export_topic
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.starts import start_option
from rmq.cli.store_places import progress_bar
from rmq.cli.table import Column, columns, moment
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, Start
from rmq.errors import RmqError
from rmq.names import dlq_topic
from rmq.operations.client_keywords import client_keywords
from rmq.operations.dead_letters import (
    ORIGIN,
    Chosen,
    Sending,
    check_sending,
    group_letters,
    groups_with_letters,
    letters,
    letters_of,
    no_letters,
    origin_of,
    places_of,
    put_aside,
    topic_of,
)
from rmq.operations.json_lines import members
from rmq.operations.texts import counted, shown_line

LISTED = (*columns("GROUP", "DEAD LETTERS", "NOT SENT AGAIN"), moment("LAST DIED"))
COLUMNS = (
    Column("PLACE"), moment("DIED"), *columns("TOPIC", "ID", "TAG", "KEYS"),
    moment("BORN", is_wide=True), Column("BORN HOST", is_wide=True),
    Column("RETRIES", is_wide=True), Column("BODY"),
)  # fmt: skip


@click.group()
def dlq() -> None:
    """List, show, resend, dismiss and export dead letters."""


@dlq.command("list")
@namesrv_option
@output_option
def list_groups(namesrv: str, output: Output) -> None:
    """List groups with dead letters, and how many were not sent again."""
    rows: list[tuple[object, ...]] = []
    with Cluster(namesrv) as cluster, progress_bar("dlq list") as progress:
        groups = groups_with_letters(cluster)
        for group in groups:
            progress("groups", len(rows), len(groups))
            found = group_letters(cluster, group)
            rows.append((group, found.count, found.waiting, found.last_stored_ms))
    output.rows(LISTED, rows)


key_option = click.option("--key", help="Only messages with this key.")
id_option = click.option(
    "--id", "ids", multiple=True, help="Only this unique id. May be given several times."
)
count_option = click.option("--count", type=click.IntRange(1), help="At most this many messages.")


@dlq.command()
@click.argument("group")
@start_option(None)
@key_option
@id_option
@count_option
@namesrv_option
@output_option
def show(
    group: str,
    start: Start | None,
    key: str | None,
    ids: tuple[str, ...],
    count: int | None,
    namesrv: str,
    output: Output,
) -> None:
    """Show the dead letters of a group, and the topic each came from.

    With -o json, each is a line that `rmq send --json-lines` accepts.
    """
    chosen, shown = Chosen(key, ids, count), 0
    with Cluster(namesrv) as cluster:
        topic = _topic_of(cluster, group)
        found = letters(cluster, places_of(cluster, topic, start or Start("first")), chosen)
        if output.is_data:
            for each in found:
                output.value({**members(each), "origin_topic": origin_of(each)})
                shown += 1
        else:
            shown = output.pages(COLUMNS, map(_row, found))
    chosen.check(shown)


def _row(each: ReceivedMessage) -> tuple[object, ...]:
    stored, properties = each.stored, each.properties
    return (
        f"{each.broker_name}/{stored.queue_id}@{stored.queue_offset}",
        stored.store_timestamp_ms, origin_of(each), properties.get("UNIQ_KEY"),
        properties.get("TAGS"), properties.get("KEYS"), stored.born_timestamp_ms,
        str(stored.born_host), stored.reconsume_times, shown_line(each),
    )  # fmt: skip


@dlq.command()
@click.argument("group")
@start_option(None)
@key_option
@id_option
@count_option
@click.option(
    "--to", "target", metavar="TOPIC",
    help="Send them to this topic. `origin`: to the topic each came from, for all groups that read "
    "it.  [default: only to this group, by its retry topic]",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Print how many would be sent, and send nothing.")
@namesrv_option
@output_option
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
    output: Output,
) -> None:
    """Send dead letters of a group again.

    Without --from, --key and --id, all that were not sent again before are sent, and then count as
    sent. Those chosen with these options do not count as sent: when you are done, put the rest
    aside with `rmq dlq dismiss`. All of them stay among the dead letters until they expire.
    """
    is_rest = start is None and key is None and not ids
    if start is None and not is_rest:
        start = Start("first")
    with Cluster(namesrv) as cluster:
        topic = _topic_of(cluster, group)
        if target not in (None, ORIGIN):
            cluster.route(target)  # raises an error if the topic does not exist
        places = places_of(cluster, topic, start)
        total = check_sending(cluster, places, Chosen(key, ids, count), group, target)
        where = target or f"group {group}"
        said = f"{_counted(total)} to {where}"
        if dry_run or not total:
            output.result("nothing", said, group=group, to=target, dead_letters=total)
            return
        if not yes:
            output.confirm(f"Send {said} at {namesrv}?")
        keywords = client_keywords()
        keywords["namesrv_addr"] = namesrv
        try:
            with progress_bar(f"resend {group}") as progress:
                sending = Sending(
                    cluster, keywords, group, target, notes=is_rest,
                    told=lambda sent: progress("dead letters", sent, total),
                )  # fmt: skip
                sending.run(places, Chosen(key, ids, count))
        except RmqError:
            if sending.count:
                click.echo(f"{_counted(sending.count)} of {total} were sent so far", err=True)
            raise
    said = f"{_counted(sending.count)} to {where}"
    output.result("sent", said, group=group, to=target, dead_letters=sending.count)


@dlq.command()
@click.argument("group")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Print how many there are, and put none aside.")
@namesrv_option
@output_option
def dismiss(group: str, yes: bool, dry_run: bool, namesrv: str, output: Output) -> None:
    """Put the dead letters of a group aside, as if they were sent again.

    Use it for dead letters that nobody needs, or that were sent one by one (--id). `rmq dlq list`
    and `rmq check group` no longer count them, and `rmq dlq resend` without --from skips them. They
    stay among the dead letters until they expire.
    """
    with Cluster(namesrv) as cluster:
        found = letters_of(cluster, _topic_of(cluster, group))
        total = sum(each.waiting for each in found)
        said = f"{_counted(total)} of group {group}"
        if not dry_run:
            if not yes:
                output.confirm(f"Put aside {said} at {namesrv}?")
            put_aside(cluster, found)
    done = "nothing" if dry_run else "dismissed"
    output.result(done, said, group=group, dead_letters=total)


def _topic_of(cluster: Cluster, group: str) -> str:
    """The topic of the group's dead letters. RmqError: the group has none; the text names the
    command that lists the groups that have some."""
    where = "`rmq dlq list` lists groups that have some"
    with missing_topic.in_words(f"{no_letters(group)}; {where}"):
        return topic_of(cluster, group)


def _counted(count: int) -> str:
    return counted(count, "dead letter")


@dlq.command(
    "export",
    help=(export_topic.help or "").replace("messages of a topic", "dead letters of a group"),
    params=[click.Argument(["group"]), *export_topic.params[1:]],
)
@click.pass_context
def export(context: click.Context, /, group: str, namesrv: str, **given: object) -> None:
    with Cluster(namesrv) as cluster:
        _topic_of(cluster, group)
    context.invoke(export_topic, topic=dlq_topic(group), namesrv=namesrv, **given)
