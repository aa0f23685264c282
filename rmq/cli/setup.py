"""`rmq setup`: makes the files that a secured server needs for its first start."""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path

import click

HOST = re.compile(r"^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_-]+)*$")
ALWAYS = ("localhost", "127.0.0.1")


@click.group()
def setup() -> None:
    """Create the files that a secured server needs."""


def _hosts(context: click.Context, parameter: click.Parameter, hosts: tuple[str, ...]) -> list[str]:
    found = list(hosts) or [socket.gethostname()]
    for host in found:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            if len(host) > 253 or not HOST.match(host):
                raise click.BadParameter(f"{host!r} is neither a name nor an address") from None
    return [*found, *(name for name in ALWAYS if name not in found)]


def _user(context: click.Context, parameter: click.Parameter, name: str) -> str:
    if not re.match(r"^[A-Za-z0-9_.-]{1,64}$", name):
        raise click.BadParameter("use only letters, digits, and _ . -")
    return name


@setup.command()
@click.option(
    "--directory", type=click.Path(file_okay=False, path_type=Path), default=Path("rmq-security"),
    show_default=True, help="Directory for the files; it is created.",
)  # fmt: skip
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", callback=_hosts,
    help="Name or address by which clients reach the servers, brokerIP1 included. May be given "
    "several times.  [default: this machine's name]",
)  # fmt: skip
@click.option(
    "--admin", default="admin", show_default=True, metavar="NAME", callback=_user,
    help="Name of the first Super user.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["enforcing", "permissive"]), default="enforcing",
    show_default=True,
    help="permissive: also serve clients without TLS, such as Go's v2.1.2.",
)  # fmt: skip
@click.option(
    "--audit-log", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File for the audit log: who changed what, and who was refused.  "
    "[default: audit.log in DIRECTORY]",
)  # fmt: skip
@click.option(
    "--request", is_flag=True,
    help="Make a certificate request for a real authority (server.csr) instead.",
)  # fmt: skip
def security(
    directory: Path, hosts: list[str], admin: str, mode: str, audit_log: Path | None, request: bool
) -> None:
    """Create a Super user, certificates and the settings that use them.

    Start the server with `-c DIRECTORY/security.conf` afterwards. The command prints what clients
    need: Java, Go, Python, Spark, mqadmin and rmq.

    \b
    rmq setup security --host broker.example.org --host 10.0.0.5
    rmq standalone -c rmq-security/security.conf --set brokerIP1=10.0.0.5
    """
    from rmq.setup.clients import snippets
    from rmq.setup.security import Security

    made = Security(directory, hosts, admin, mode, audit_log)
    made.make(by_real_authority=request)
    made.write()
    click.echo(f"{made.folder}: {', '.join(made.files)}")
    click.echo(f"The password of {admin} is in admin.json; keep it and the keys secret.")
    click.echo(f"The audit log will be in {made.audit_log}: see `rmq audit`.")
    if request:
        click.echo("Have server.csr signed, and save the certificate and its chain there as")
        click.echo("server.pem; name the authority in security.conf.")
    click.echo("\nStart a server:\n")
    outside = next((host for host in hosts if _is_outside(host)), None)
    address = f" --set brokerIP1={outside}" if outside else ""
    click.echo(f"    rmq standalone -c {made.folder}/security.conf{address}")
    for kind, text in snippets(made, f"{hosts[0]}:9876").items():
        click.echo(f"\n{kind}:\n")
        click.echo("".join(f"    {line}\n" for line in text.splitlines()), nl=False)


def _is_outside(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
