"""`rmq acl allow | deny | delete | list | import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rmq.cli.account_servers import account_servers_option, accounts_of, asked_servers
from rmq.cli.options import together
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.client.blocking.accounts import ACTIONS, IS_THERE, entry
from rmq.errors import RemoteError
from rmq.operations.account_lists import acl_entries

if TYPE_CHECKING:
    from rmq.auth.fixed_accounts import FixedAccounts


@click.group()
def acl() -> None:
    """Allow and deny actions of users (access control lists)."""


_entry_options = together(
    click.argument("name"),
    click.argument("resources", nargs=-1, required=True, metavar="RESOURCE..."),
    click.option("--actions", "-a", required=True, metavar="Pub,Sub,..",
                 help=f"Actions, separated by commas: {', '.join(ACTIONS)}."),
    click.option("--from", "-i", "sources", multiple=True, metavar="ADDRESS",
                 help="Only for clients from this address or network (such as 10.0.0.0/8). "
                 "May be given several times."),
    click.option("--default", "is_default", is_flag=True,
                 help="Put it into the Default policy, which applies if no other entry matches."),
    account_servers_option,
    output_option,
)  # fmt: skip


@acl.command()
@_entry_options
def allow(**given: Any) -> None:
    """Allow the user NAME to do the actions on each RESOURCE.

    \b
        rmq acl allow alice 'Topic:orders*' --actions Pub,Sub
        rmq acl allow alice Group:billing --actions Sub --from 10.0.0.0/8

    A RESOURCE is Topic:NAME, Group:NAME or Cluster:NAME; a * at the end stands for all names that
    begin like this. * alone is everything. Producers need Pub on their topics, consumers Sub on
    their topics and groups.

    If several entries match, the most specific one counts: a full name before a longer beginning
    before a shorter one. Among equal ones, deny counts.
    """
    _put(denies=False, **given)


@acl.command()
@_entry_options
def deny(**given: Any) -> None:
    """Deny the user NAME the actions on each RESOURCE; see `rmq acl allow`."""
    _put(denies=True, **given)


def _put(
    *, name: str, resources: tuple[str, ...], actions: str, sources: tuple[str, ...],
    is_default: bool, namesrv: str, controller: str | None, denies: bool, output: Output,
) -> None:  # fmt: skip
    known = {each.lower(): each for each in ACTIONS}
    wanted = [each.strip() for each in actions.split(",") if each.strip()]
    for each in wanted:
        if each.lower() not in known:
            raise click.BadParameter(
                f"there is no action {each}; choose from {', '.join(ACTIONS)}",
                param_hint="--actions",
            )
    entries = [entry(resource, wanted, source_ips=sources, denies=denies) for resource in resources]
    with accounts_of(namesrv, controller) as accounts:
        done = accounts.put_acl(name, entries, is_default=is_default)
    verb = "may not" if denies else "may"
    output.result(
        "denied" if denies else "allowed",
        f"{name} {verb} {', '.join(wanted)} {', '.join(resources)} on {', '.join(done)}",
        user=name, actions=[known[each.lower()] for each in wanted], resources=resources,
        **{"from": sources}, servers=done,
    )  # fmt: skip


@acl.command()
@click.argument("name")
@click.argument("resource", required=False)
@click.option("--default", "is_default", is_flag=True, help="Delete from the Default policy.")
@account_servers_option
@output_option
def delete(
    name: str, resource: str | None, is_default: bool, namesrv: str, controller: str | None,
    output: Output,
) -> None:  # fmt: skip
    """Delete a user's entries for RESOURCE, or all of its entries."""
    if is_default and resource is None:
        # Servers heed the kind of policy only with a resource: they would delete all entries.
        raise click.UsageError("--default needs a RESOURCE, whose entry is deleted")
    with accounts_of(namesrv, controller) as accounts:
        done = accounts.delete_acl(name, resource, is_default=is_default)
    text = f"{name}: deleted {resource or 'all entries'} on {', '.join(done)}"
    output.result("deleted", text, user=name, resource=resource, servers=done)


@acl.command("list")
@click.argument("part", default="")
@click.option("--resource", default="", metavar="PART",
              help="Only entries whose resource contains PART.")  # fmt: skip
@account_servers_option
@output_option
def list_acls(
    part: str, resource: str, namesrv: str, controller: str | None, output: Output
) -> None:
    """List the entries of users whose names contain PART.

    Each server has its own entries. Those of the first server that answers are listed; servers
    whose entries differ are named below them.
    """
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
@output_option
def import_files(
    files: tuple[Path, ...], namesrv: str, controller: str | None, output: Output
) -> None:
    """Create the users of RocketMQ's ACL 1.0 files (plain_acl.yml), with their permissions.

    Users that exist keep their password and get the permissions of the files. What has no
    equivalent is left out and printed: addresses that need no account (white lists), and names that
    end with *, because an entry of this text would match all names that begin like this. To let a
    user in from some addresses only, use `rmq acl allow --from`.

    A broker with aclEnable=true reads the files itself, white lists included.
    """
    from rmq.auth.plain_acl import read
    from rmq.auth.policy import PolicyType

    users: list[dict[str, str]] = []
    found = read(files)
    with accounts_of(namesrv, controller) as accounts:
        for name, user in found.users.items():
            try:
                accounts.create_user(name, user.password, is_super=user.is_super)
                output.say(f"{name}: created")
                users.append({"user": name, "done": "created"})
            except RemoteError as error:
                if not error.remark.endswith(IS_THERE):
                    raise
                output.say(f"{name}: exists already")
                users.append({"user": name, "done": "exists"})
            for kind, entries in found.acls[name].policies.items():
                kept = [each.members() for each in entries if each.resource.is_as_written]
                if kept:
                    accounts.put_acl(name, kept, is_default=kind is PolicyType.DEFAULT)
    left_out = list(_left_out(found))
    for text in left_out:
        output.say(text)
    output.result("imported", None, users=users, left_out=left_out)


def _left_out(found: FixedAccounts) -> Iterator[str]:
    """A line for each part of the files that no entry can say."""
    for name, acl in sorted(found.acls.items()):
        resources = {each.resource for entries in acl.policies.values() for each in entries}
        for text in sorted(str(each) for each in resources if not each.is_as_written):
            yield f"{name}: {text} is left out: it would match all names that begin so"
    for name in sorted(found.unsigned):
        yield f"{name}: its white addresses are left out: all requests must be signed"
    if found.white:
        yield "globalWhiteRemoteAddresses are left out: all requests must be signed"
