"""`rmq config get | set | diff`: settings of brokers and name servers that run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns
from rmq.client.blocking.cluster import Cluster
from rmq.operations.server_settings import Settings, change, differing, settings_of

CHANGES = (*columns("SERVER", "SETTING"), Column("IS", "before"), Column("TO BE", "after"))

broker_option = click.option(
    "--broker", help="Only this broker name.  [default: all brokers that have a master]"
)
namesrv_flag = click.option("--name-servers", is_flag=True, help="Use name servers, not brokers.")


@click.group()
def config() -> None:
    """Show, change and compare settings of running servers."""


@config.command()
@click.argument("keys", nargs=-1)
@broker_option
@namesrv_flag
@namesrv_option
@output_option
def get(
    keys: tuple[str, ...], broker: str | None, name_servers: bool, namesrv: str, output: Output
) -> None:
    """Show settings of running servers.

    KEYS are names of settings, or patterns with * and ?. Without KEYS, all settings are shown. Of
    replicas, the master is asked.
    """
    with Cluster(namesrv) as cluster:
        found = settings_of(cluster, broker, name_servers=name_servers)
    wanted = [re.compile(_pattern(key)) for key in keys]
    known = sorted({key for settings in found.values() for key in settings})
    chosen = [key for key in known if not wanted or any(each.fullmatch(key) for each in wanted)]
    for key, pattern in zip(keys, wanted, strict=True):
        if not any(pattern.fullmatch(each) for each in known):
            raise click.ClickException(f"no setting is called {key}{_near(key, known)}")
    if output.is_data:
        output.value({server: {key: settings[key] for key in chosen if key in settings}
                      for server, settings in found.items()})  # fmt: skip
        return
    output.rows(columns("SETTING", *found), _rows(found, chosen))


@config.command("set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@broker_option
@namesrv_flag
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@namesrv_option
@output_option
def set_settings(
    pairs: tuple[str, ...],
    broker: str | None,
    name_servers: bool,
    yes: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Change settings of running servers.

    A server that cannot change one of the settings while it runs refuses all of them. Brokers of
    rmq keep the new values until their process ends: change the property file, too, to keep them.
    Name servers keep the new values.
    """
    changes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[\w.]+", key) or "\n" in value or "\r" in value:
            raise click.UsageError(f"{pair!r} is not of the form KEY=VALUE")
        changes[key] = value
    with Cluster(namesrv) as cluster:
        before = settings_of(cluster, broker, name_servers=name_servers)
        rows = [
            (server, key, settings.get(key), value)
            for server, settings in before.items()
            for key, value in changes.items()
            if settings.get(key) != value
        ]
        if not rows and not output.is_data:
            click.echo("nothing to change: the settings have these values")
            return
        if not output.is_data:
            output.rows(CHANGES, rows)
        if not yes and rows:
            output.confirm("Change these settings?")
        for server in dict.fromkeys(row[0] for row in rows):
            remark = change(cluster, server, changes, name_servers=name_servers)
            click.echo(f"{server}: changed" + (f"; {remark}" if remark else ""), err=output.is_data)
    if output.is_data:
        output.rows(CHANGES, rows)


@config.command()
@click.option("--all", "with_own", is_flag=True,
              help="Also compare names, addresses and paths of the servers.")  # fmt: skip
@namesrv_flag
@namesrv_option
@output_option
def diff(with_own: bool, name_servers: bool, namesrv: str, output: Output) -> None:
    """Show settings in which servers differ. Exit code 1 if there are any."""
    with Cluster(namesrv) as cluster:
        found = settings_of(cluster, name_servers=name_servers)
    keys = list(differing(found, with_own=with_own))
    if output.is_data:
        output.value([{"setting": key, "values": dict(zip(found, values, strict=True))}
                      for key, *values in _rows(found, keys)])  # fmt: skip
    else:
        output.rows(columns("SETTING", *found), _rows(found, keys))
    if keys:
        raise click.exceptions.Exit(1)


def _rows(found: Mapping[str, Settings], keys: Sequence[str]) -> list[tuple[str | None, ...]]:
    return [(key, *(settings.get(key) for settings in found.values())) for key in keys]


def _pattern(key: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in key)


def _near(key: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
