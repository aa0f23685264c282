"""Account options: the account with which a command signs its requests, and its TLS.

--credentials FILE    {"accessKey":"alice","secretKey":".."}, the tools.yml of mqadmin, or the file
                      of initAuthenticationUser: {"username":"alice","password":".."}
--user NAME           the password comes from RMQ_SECRET_KEY, or is asked for
neither               RMQ_ACCESS_KEY and RMQ_SECRET_KEY; without them requests are not signed
--tls, --tls-ca FILE  speaks TLS, and trusts these authorities; or RMQ_TLS=1 and RMQ_TLS_CA
--tls-cert FILE,      the certificate for servers that ask for one, and its key; or RMQ_TLS_CERT,
--tls-key FILE        RMQ_TLS_KEY and, if the key is locked, RMQ_TLS_KEY_PASSWORD
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from rmq.errors import ConfigError

if TYPE_CHECKING:
    from rmq.format.signature import Credentials

_TLS_FILES = (
    ("--tls-ca", "RMQ_TLS_CA", "trust the CA certificates in this file"),
    ("--tls-cert", "RMQ_TLS_CERT", "present this client certificate"),
    ("--tls-key", "RMQ_TLS_KEY", "use this private key of the client certificate"),
)
Command = TypeVar("Command", bound=Callable[..., Any])


def account_options(command: Command) -> Command:
    """Adds the options. They take effect by themselves; the command does not get their values."""
    user = click.option(
        "--user", metavar="NAME", expose_value=False, callback=_user,
        help="Account that signs requests. Its password comes from RMQ_SECRET_KEY or a prompt.",
    )  # fmt: skip
    file = click.option(
        "--credentials", type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE", expose_value=False, callback=_file, envvar="RMQ_CREDENTIALS",
        show_envvar=True, help="File with the account that signs requests: accessKey, secretKey.",
    )  # fmt: skip
    tls = click.option(
        "--tls", is_flag=True, expose_value=False, callback=_tls,
        help="Connect with TLS.  [env: RMQ_TLS=1]",
    )  # fmt: skip
    for name, variable, text in reversed(_TLS_FILES):
        command = click.option(
            name, type=click.Path(exists=True, dir_okay=False), metavar="FILE",
            expose_value=False, callback=partial(_tls_file, variable),
            help=f"Connect with TLS, and {text} (PEM).  [env: {variable}]",
        )(command)  # fmt: skip
    return user(file(tls(command)))


def _user(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is not None:
        from rmq.client.blocking.credentials import SECRET

        # On standard error: standard output may be data.
        secret = os.environ.get(SECRET) or click.prompt(
            f"Password of {name}", hide_input=True, err=True
        )
        _use(name, secret)


def _tls(context: click.Context, parameter: click.Parameter, is_on: bool) -> None:
    if is_on:
        from rmq.client.blocking import encryption

        encryption.use(RMQ_TLS="1")


def _tls_file(
    variable: str, context: click.Context, parameter: click.Parameter, path: str | None
) -> None:
    if path is not None:
        from rmq.client.blocking import encryption

        encryption.use(**{"RMQ_TLS": "1", variable: path})


def _file(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    from rmq.client.blocking import credentials

    if path is None:
        return
    source = context.get_parameter_source(parameter.name or "")
    if source is ParameterSource.ENVIRONMENT and credentials.was_given():
        return  # --user was given, and counts more than the environment
    found = credentials_in(path)
    if found is None:
        raise click.BadParameter(f"{path} has no accessKey and secretKey", param=parameter)
    credentials.use(found)


def credentials_in(path: Path) -> Credentials | None:
    """The account in a file as --credentials takes it; None: the file has none."""
    from rmq.format.signature import Credentials

    try:
        found = _keys(path.read_text("utf-8", "replace"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    name = found.get("accessKey") or found.get("username")
    secret = found.get("secretKey") or found.get("password")
    return Credentials(name, secret) if name and secret else None


def _keys(text: str) -> dict[str, str]:
    """The members of a JSON object, or of lines `name: value` as in tools.yml."""
    import msgspec

    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if colon:
            found[name.strip()] = value
    return found


def _use(name: str, secret: str) -> None:
    from rmq.client.blocking import credentials
    from rmq.format.signature import Credentials

    credentials.use(Credentials(name, secret))
