"""`rmq console`: the web console, for rmq's brokers and RocketMQ's."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rmq.base import core_files
from rmq.cli.addresses import is_loopback
from rmq.cli.options import Parsed, namesrv_option
from rmq.errors import ConfigError, NotBuiltError, RmqError

if TYPE_CHECKING:
    from rmq.console.settings import ConsoleSettings

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
PASSWORD_MIN = 8


def _listen(text: str) -> tuple[str, int]:
    from rmq.base.server_address import split_address
    from rmq.errors import AddressError

    try:
        host, port = split_address(text)
        if host != "localhost":
            ipaddress.ip_address(host)
    except (AddressError, ValueError) as error:
        raise ValueError(f"{error}: an IP address and port, such as 127.0.0.1:8080") from None
    return ("127.0.0.1" if host == "localhost" else host), port


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{text}: give the URL of the console, such as https://rmq.example.com")
    return f"{parts.scheme}://{parts.netloc}"


@click.command()
@click.option("--listen", type=Parsed("HOST:PORT", _listen), default="127.0.0.1:8380",
              show_default=True, help="Address and port to listen on.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Show everything, but allow no changes.")
@click.option("--password-file", type=FILE,
              help="Browsers log in with the password in the first line of this file, not with "
                   "an account of the brokers.")  # fmt: skip
@click.option("--https-cert", type=FILE, help="Serve HTTPS with this certificate (PEM).")
@click.option("--https-key", type=FILE, help="Private key of the certificate (PEM).")
@click.option("--origin", type=Parsed("URL", _origin),
              help="URL of the console for browsers, if it is behind a proxy, such as "
                   "https://rmq.example.com.")  # fmt: skip
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow other machines to connect without a login and HTTPS.",
)
@namesrv_option
def console(
    listen: tuple[str, int],
    read_only: bool,
    password_file: Path | None,
    https_cert: Path | None,
    https_key: Path | None,
    origin: str | None,
    insecure: bool,
    namesrv: str,
) -> None:
    """Run the web console.

    If the brokers use accounts, you log in with one of them in the browser, and see and do what
    that account may. The account of --user or --credentials is used for browsers that log in with
    --password-file, and to record the history of lags. If the brokers use no accounts, neither is
    used.
    """
    try:
        from rmq.console.server import serve
        from rmq.console.settings import ConsoleSettings
    except ImportError as error:
        raise NotBuiltError(f"the console needs {error.name}: pip install 'rmq[console]'") from None
    from rmq.client.blocking import credentials

    if (https_cert is None) != (https_key is None):
        raise ConfigError("--https-cert and --https-key must be given together")
    if password_file is None and credentials.present() is not None and _asks_nobody(namesrv):
        # A login would be asked for, and there is nothing to log in to. If the brokers ask for
        # accounts later, the console has none that whoever opens a page could use.
        credentials.forget()
        click.echo("These brokers use no accounts: the one that was given is not used, and nobody "
                   "has to log in.", err=True)  # fmt: skip
    host, port = listen
    is_near = is_loopback(host)
    settings = ConsoleSettings(
        namesrv, host, port, read_only=read_only, password=_password(password_file),
        origin=origin or "", certificate=https_cert, key=https_key,
        hosts=_hosts(host, origin or "") if is_near else (),
        needs_login=password_file is not None or credentials.present() is not None
        or not (is_near or insecure),
    )  # fmt: skip
    if not is_near and not insecure:
        _require_safe(settings)
    core_files.leave_none()  # the passwords of users who log in are in this process's memory
    serve(settings)


def _hosts(host: str, origin: str) -> tuple[str, ...]:
    seen = urlsplit(origin).hostname
    return (*LOOPBACK_NAMES, host, *((seen,) if seen else ()))


def _password(path: Path | None) -> str:
    if path is None:
        return ""
    lines = path.read_text("utf-8", "replace").splitlines()
    found = lines[0].strip() if lines else ""
    if len(found) < PASSWORD_MIN:
        raise ConfigError(f"{path}: the password in its first line has {len(found)} characters; "
                          f"it needs at least {PASSWORD_MIN}")  # fmt: skip
    return found


def _require_safe(settings: ConsoleSettings) -> None:
    """ConfigError: other machines could use the console without a login, or read the password of
    a login on the network."""
    where = f"--listen {settings.host}"
    if settings.certificate is None:
        raise ConfigError(
            f"{where}: passwords would cross the network unencrypted. Listen on 127.0.0.1 "
            "behind a proxy that speaks HTTPS (--origin); or give --https-cert and --https-key; "
            "or add --insecure"
        )
    if not settings.password and _asks_nobody(settings.namesrv):
        raise ConfigError(
            f"{where}: other machines could connect, and these brokers require no accounts. "
            "Give --password-file; or add --insecure if everybody who can reach this port "
            "may read, write and administer"
        )


def _asks_nobody(namesrv: str) -> bool:
    """Whether the servers answer requests without a valid account. False also if no server answers
    now: then a login is needed."""
    from rmq.client.blocking.cluster import Cluster
    from rmq.operations.askers import STRANGER, is_let_in

    try:
        with Cluster(namesrv, account=STRANGER) as cluster:
            return is_let_in(cluster)
    except RmqError:
        return False
