"""`rmq acl allow | deny | delete | list | import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from rmq.cli.account_servers import account_servers_option, accounts_of, asked_servers
from rmq.cli.options import together
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.client.blocking.accounts import ACTIONS, IS_THERE, entry
from rmq.errors import RemoteError
from rmq.operations.account_lists import acl_entries


@click.group()
def acl() -> None:
    """Allow and deny actions of users (access control lists)."""


_entry_options = together(
    click.argument("name"),
    click.argument("resources", nargs=-1, required=True, metavar="RESOURCE..."),
    click.option("--actions", "-a", required=True, metavar="Pub,Sub,..",
                 help=f"Of {', '.join(ACTIONS)}."),
    click.option("--from", "-i", "sources", multiple=True, metavar="ADDRESS",
                 help="Only from this address or network (10.0.0.0/8); several times."),
    click.option("--default", "is_default", is_flag=True,
                 help="Counts where no other entry of the user fits."),
    account_servers_option,
)  # fmt: skip


@acl.command()
@_entry_options
def allow(**given: Any) -> None:
    """Let the user NAME do the actions on each RESOURCE.

    \b
        rmq acl allow alice 'Topic:orders*' --actions Pub,Sub
        rmq acl allow alice Group:billing --actions Sub --from 10.0.0.0/8

    A resource is Topic:t, Group:g, Cluster:c, any of them with * at the end, or * for everything.
    Producers need Pub on their topics, consumers Sub on topics and groups. Of several entries the
    nearest counts: a whole name before a longer beginning before a shorter one; then deny.
    """
    _put(denies=False, **given)


@acl.command()
@_entry_options
def deny(**given: Any) -> None:
    """Forbid the user NAME the actions on each RESOURCE; see `rmq acl allow`."""
    _put(denies=True, **given)


def _put(
    *, name: str, resources: tuple[str, ...], actions: str, sources: tuple[str, ...],
    is_default: bool, namesrv: str, controller: str | None, denies: bool,
) -> None:  # fmt: skip
    known = {each.lower(): each for each in ACTIONS}
    wanted = [each.strip() for each in actions.split(",") if each.strip()]
    for each in wanted:
        if each.lower() not in known:
            raise click.BadParameter(f"{each}: one of {', '.join(ACTIONS)}", param_hint="--actions")
    entries = [entry(resource, wanted, source_ips=sources, denies=denies) for resource in resources]
    with accounts_of(namesrv, controller) as accounts:
        done = accounts.put_acl(name, entries, is_default=is_default)
    verb = "may not" if denies else "may"
    click.echo(f"{name} {verb} {', '.join(wanted)} {', '.join(resources)} on {', '.join(done)}")


@acl.command()
@click.argument("name")
@click.argument("resource", required=False)
@click.option("--default", "is_default", is_flag=True, help="Of the Default entries.")
@account_servers_option
def delete(
    name: str, resource: str | None, is_default: bool, namesrv: str, controller: str | None
) -> None:
    """Take back the entries of RESOURCE, or all of the user NAME."""
    if is_default and resource is None:
        # Servers heed the kind of policy only with a resource: they would delete all entries.
        raise click.UsageError("--default is for the entry of a RESOURCE: name it")
    with accounts_of(namesrv, controller) as accounts:
        done = accounts.delete_acl(name, resource, is_default=is_default)
    click.echo(f"{name}: {resource or 'everything'} is taken back on {', '.join(done)}")


@acl.command("list")
@click.argument("part", default="")
@click.option("--resource", default="", metavar="PART", help="Whose resources hold this.")
@account_servers_option
@output_option
def list_acls(
    part: str, resource: str, namesrv: str, controller: str | None, output: Output
) -> None:
    """List what users may do, of those whose names hold PART, and which servers have others."""
    with asked_servers(namesrv, controller) as (cluster, controllers):
        found = acl_entries(cluster, controllers, part, resource)
    output.rows(
        columns("USER", "POLICY", "RESOURCE", "ACTIONS", "FROM", "DECISION"),
        map(msgspec.structs.astuple, found.rows),
    )
    for text in found.problems:
        click.echo(text, err=True)


@acl.command("import")
@click.argument("files", nargs=-1, required=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@account_servers_option
def import_files(files: tuple[Path, ...], namesrv: str, controller: str | None) -> None:
    """Make the users of RocketMQ's ACL 1.0 files (plain_acl.yml), with what they may do.

    Users that are there keep their password and get what the files allow. Addresses that need no
    account (white lists) are not taken over: they are named, and can be given by --from. So are
    names that end with *: an entry of that text would be about all that begin so. A broker with
    aclEnable=true goes by the files themselves, white lists included.
    """
    from rmq.auth.plain_acl import read
    from rmq.auth.policy import PolicyType

    found = read(files)
    with accounts_of(namesrv, controller) as accounts:
        for name, user in found.users.items():
            try:
                accounts.create_user(name, user.password, is_super=user.is_super)
                click.echo(f"{name}: made")
            except RemoteError as error:
                if not error.remark.endswith(IS_THERE):
                    raise
                click.echo(f"{name}: is there already")
            for kind, entries in found.acls[name].policies.items():
                kept = [each.members() for each in entries if each.resource.is_as_written]
                if kept:
                    accounts.put_acl(name, kept, is_default=kind is PolicyType.DEFAULT)
    for name, acl in sorted(found.acls.items()):
        resources = {each.resource for entries in acl.policies.values() for each in entries}
        for text in sorted(str(each) for each in resources if not each.is_as_written):
            click.echo(f"{name}: {text} is left out: it would be about all names that begin so")
    for name in sorted(found.unsigned):
        click.echo(f"{name}: its white addresses are left out: all must sign")
    if found.white:
        click.echo("globalWhiteRemoteAddresses are left out: all must sign")
