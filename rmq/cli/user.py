"""`rmq user create | update | delete | list`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any

import click

from rmq.cli.account_servers import account_servers_option, accounts_of, asked_servers
from rmq.cli.output import Output, output_option
from rmq.cli.table import columns
from rmq.client.blocking.accounts import Accounts
from rmq.errors import RmqError
from rmq.operations.account_lists import users

NEW_PASSWORD = "RMQ_NEW_PASSWORD"
Function = Callable[..., Any]


@click.group()
def user() -> None:
    """Create, change, delete and list users (accounts)."""


def _password_options(function: Function) -> Function:
    generate = click.option(
        "--generate", is_flag=True, help="Generate a random password and print it once."
    )
    ask = click.option(
        "--password", "asks", is_flag=True,
        help=f"Set a new password, from {NEW_PASSWORD} or a prompt.",
    )  # fmt: skip
    return generate(ask(function))


def _password(asks: bool, generate: bool, output: Output) -> str | None:
    """The new password; None: no option asks for one."""
    if generate:
        made = secrets.token_urlsafe(24)
        output.say(f"password: {made}")
        return made
    if not asks:
        return None
    if given := os.environ.get(NEW_PASSWORD):
        return given
    typed: str = click.prompt("New password", hide_input=True, confirmation_prompt=True,
                              err=output.is_data)  # fmt: skip
    return typed


def _shown_once(password: str | None, is_generated: bool) -> dict[str, str]:
    """The password that nobody else knows; only data has it in the result."""
    return {"password": password} if password is not None and is_generated else {}


@user.command()
@click.argument("name")
@_password_options
@click.option("--super", "is_super", is_flag=True,
              help="Make it a Super user, who may do everything.")  # fmt: skip
@account_servers_option
@output_option
def create(
    name: str, asks: bool, generate: bool, is_super: bool, namesrv: str, controller: str | None,
    output: Output,
) -> None:  # fmt: skip
    """Create a user, who may do nothing yet: see `rmq acl`.

    You are prompted for the password, unless --generate makes one or RMQ_NEW_PASSWORD has it.
    Clients give NAME as their accessKey and the password as their secretKey.
    """
    password = _password(True, generate, output)
    assert password is not None
    with accounts_of(namesrv, controller) as accounts:
        done = accounts.create_user(name, password, is_super=is_super)
    output.result("created", f"{name}: created on {', '.join(done)}", user=name, servers=done,
                  **_shown_once(password, generate))  # fmt: skip


@user.command()
@click.argument("name")
@_password_options
@click.option("--super/--normal", "is_super", default=None,
              help="Make it a Super user, who may do everything, or a normal one.")  # fmt: skip
@click.option("--enable/--disable", "is_enabled", default=None,
              help="Accept or refuse the user's requests.")  # fmt: skip
@account_servers_option
@output_option
def update(
    name: str, asks: bool, generate: bool, is_super: bool | None, is_enabled: bool | None,
    namesrv: str, controller: str | None, output: Output,
) -> None:  # fmt: skip
    """Change a user's password, type or status.

    What no option names stays as it is. The change applies to connected clients, too.
    """
    password = _password(asks, generate, output)
    if password is None and is_super is None and is_enabled is None:
        raise click.UsageError(
            "nothing to change: give --password, --generate, --super, --normal, --enable or "
            "--disable"
        )
    with accounts_of(namesrv, controller) as accounts:
        done = accounts.update_user(
            name, password=password, is_super=is_super, is_enabled=is_enabled
        )
    output.result("changed", f"{name}: changed on {', '.join(done)}", user=name, servers=done,
                  **_shown_once(password, generate))  # fmt: skip


@user.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@account_servers_option
@output_option
def delete(name: str, yes: bool, namesrv: str, controller: str | None, output: Output) -> None:
    """Delete a user and its ACL entries."""
    if not yes:
        output.confirm(f"Delete user {name}?")
    with asked_servers(namesrv, controller) as (cluster, controllers):
        # Servers do not complain when a user that they should delete does not exist.
        found = users(cluster, controllers, name)
        if not found.problems and name not in (each.name for each in found.rows):
            raise RmqError(f"there is no user {name}; `rmq user list` lists them")
        done = Accounts(cluster, controllers).delete_user(name)
    output.result("deleted", f"{name}: deleted on {', '.join(done)}", user=name, servers=done)


@user.command("list")
@click.argument("part", default="")
@account_servers_option
@output_option
def list_users(part: str, namesrv: str, controller: str | None, output: Output) -> None:
    """List users whose names contain PART, without their passwords.

    Each server has its own users. Those of the first server that answers are listed; servers whose
    users differ are named below them.
    """
    with asked_servers(namesrv, controller) as (cluster, controllers):
        found = users(cluster, controllers, part)
    output.rows(
        columns("USER", "TYPE", "STATUS"),
        [(each.name, each.kind, each.status) for each in found.rows],
    )
    for text in found.problems:
        click.echo(text, err=True)
