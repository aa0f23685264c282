"""`rmq context add | use | list | show | remove`: clusters by name."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rmq.cli.context_file import VARIABLE, Context, contexts_path, read_contexts, write_contexts
from rmq.cli.main import NAMED
from rmq.cli.options import ADDRESSES
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns
from rmq.errors import ConfigError

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def context() -> None:
    """Name clusters, and choose the one that commands use."""


@context.command()
@click.argument("name")
@click.option("-n", "--namesrv", type=ADDRESSES, required=True, metavar="HOST:PORT[;...]",
              help="Name servers of the cluster.")  # fmt: skip
@click.option("--credentials", type=FILE,
              help="File with the account to use; it is read each time.")  # fmt: skip
@click.option("--tls", is_flag=True, help="Connect with TLS.")
@click.option("--tls-ca", type=FILE, help="Trust the CA certificates in this file (PEM).")
@click.option("--tls-cert", type=FILE, help="Present this client certificate (PEM).")
@click.option("--tls-key", type=FILE, help="Private key of the certificate (PEM).")
@click.option("--no-tls-verify", is_flag=True, help="Accept any server certificate.")
@click.option("--use", "is_used", is_flag=True, help="Let commands use this cluster from now on.")
@click.option("--replace", is_flag=True, help="Replace a context of this name.")
@output_option
def add(
    name: str,
    namesrv: str,
    credentials: Path | None,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    no_tls_verify: bool,
    is_used: bool,
    replace: bool,
    output: Output,
) -> None:
    """Give a cluster a name (a context).

    Commands use the first one from then on. The context has no passwords, only the path of the file
    with the account.
    """
    contexts = read_contexts()
    if name in contexts.contexts and not replace:
        raise ConfigError(f"there is a context {name} already: add --replace to replace it")
    account, *certificates = (None if each is None else str(each.resolve())
                              for each in (credentials, tls_ca, tls_cert, tls_key))  # fmt: skip
    authority, certificate, key = certificates
    contexts.contexts[name] = Context(
        namesrv, account, tls or any(certificates) or no_tls_verify, authority, certificate, key,
        tls_verify=not no_tls_verify,
    )  # fmt: skip
    if is_used or contexts.current is None:
        contexts.current = name
    write_contexts(contexts)
    is_used = contexts.current == name
    used = ", used by commands from now on" if is_used else ""
    output.result("added", f"{name}: {namesrv}{used}", name=name, namesrv=namesrv, used=is_used)


@context.command()
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="Use no context, but 127.0.0.1:9876.")
@output_option
def use(name: str | None, is_none: bool, output: Output) -> None:
    """Let commands use this cluster from now on."""
    if (name is None) != is_none:
        raise click.UsageError("give the NAME of a context, or --none")
    contexts = read_contexts()
    if name is not None:
        contexts.get(name)
    contexts.current = name
    write_contexts(contexts)
    namesrv = contexts.get(name).namesrv if name else "127.0.0.1:9876"
    output.result("used", f"{name}: {namesrv}" if name else namesrv, name=name, namesrv=namesrv)
    for variable in (VARIABLE, "NAMESRV_ADDR"):
        if said := os.environ.get(variable):
            click.echo(f"but {variable}={said} takes precedence", err=True)


@context.command("list")
@output_option
def list_contexts(output: Output) -> None:
    """List contexts; the one in use has a star."""
    contexts = read_contexts()
    output.rows(
        (Column("USED", text=lambda is_used: "*" if is_used else None),
         *columns("NAME", "NAMESRV", "CREDENTIALS", "TLS")),
        [(name == contexts.current, name, each.namesrv, each.credentials, each.tls)
         for name, each in sorted(contexts.contexts.items())],
    )  # fmt: skip


@context.command()
@click.argument("name", required=False)
@output_option
@click.pass_context
def show(context: click.Context, name: str | None, output: Output) -> None:
    """Show the settings of a context; without NAME, of the one in use."""
    contexts = read_contexts()
    name = name or context.meta.get(NAMED) or os.environ.get(VARIABLE) or contexts.current
    if name is None:
        there = len(contexts.contexts)
        raise ConfigError(f"no context is in use: name one of the {there} in {contexts_path()}")
    found = contexts.get(name)
    members = {"name": name, **{key: getattr(found, key) for key in found.__struct_fields__}}
    if output.is_data:
        output.value(members)
    else:
        output.rows(columns("SETTING", "VALUE"), list(members.items()))


@context.command()
@click.argument("name")
@output_option
def remove(name: str, output: Output) -> None:
    """Remove a context."""
    contexts = read_contexts()
    contexts.get(name)
    del contexts.contexts[name]
    if contexts.current == name:
        contexts.current = None
    write_contexts(contexts)
    output.result("removed", f"{name}: removed", name=name)
