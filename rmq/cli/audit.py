"""`rmq audit`: who asked the servers for what, and whether they allowed it."""

from __future__ import annotations

import click

from rmq.cli.account_servers import account_servers_option, asked_servers
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns, moment
from rmq.cli.times import MOMENT
from rmq.format.audit_log import LINES_MAX, VERDICTS, AuditLine, AuditQuery
from rmq.operations.audit_log import audit_log

COLUMNS = (
    moment("TIME"), *columns("VERDICT", "USER", "FROM", "REQUEST", "WHAT"),
    Column("SERVER", is_wide=True), Column("CODE", is_wide=True),
    Column("BY", is_wide=True),
)  # fmt: skip


@click.command()
@click.argument("part", default="")
@click.option("--since", type=MOMENT, help="Only entries from this time on: -1h, 2025-06-01T08:30.")
@click.option("--until", type=MOMENT, help="Only entries up to this time.")
@click.option("--of", "name", default="", metavar="NAME", help="Only requests of this user.")
@click.option("--verdict", type=click.Choice(VERDICTS), default=None,
              help="Only requests that were allowed, or refused.")  # fmt: skip
@click.option("--count", type=click.IntRange(1, LINES_MAX), default=50, show_default=True,
              help="Show at most this many entries, the newest ones.")  # fmt: skip
@account_servers_option
@output_option
def audit(
    part: str, since: int | None, until: int | None, name: str, verdict: str | None, count: int,
    namesrv: str, controller: str | None, output: Output,
) -> None:  # fmt: skip
    """Show the audit log: who changed what, and who was refused.

    Entries come from the ends of the servers' audit files (rmqAuditLog), the newest first. With
    PART, only entries that contain this text. Only Super users may read them.
    """
    query = AuditQuery(count, max(since or 0, 0), until, name, verdict or "", part)
    with asked_servers(namesrv, controller) as (cluster, controllers):
        found = audit_log(cluster, query, controllers)
    output.rows(COLUMNS, map(_row, found.lines))
    for text in found.problems:
        click.echo(text, err=True)
    if found.older_than_ms is not None:
        click.echo("there are older entries: raise --count, or give an earlier --until", err=True)
    elif not found.is_whole:
        click.echo("entries older than these are only in the audit files of the servers", err=True)


def _row(line: AuditLine) -> tuple[object, ...]:
    return (
        line.time_ms, line.verdict, line.user, line.peer, line.request or str(line.code), line.what,
        line.broker, line.code, line.by,
    )  # fmt: skip
