"""Account options: whose requests a command sends.

--credentials FILE    {"accessKey":"alice","secretKey":".."}, or the tools.yml of mqadmin
--user NAME           its password from RMQ_SECRET_KEY, or asked for
neither               RMQ_ACCESS_KEY and RMQ_SECRET_KEY, or nobody's
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_LINE = re.compile(r"""^\s*"?(accessKey|secretKey)"?\s*:\s*["']?([^"',\s]+)["']?""", re.MULTILINE)


def account_options(command: Command) -> Command:
    """Adds both; the command itself hears nothing of them."""
    user = click.option(
        "--user", metavar="NAME", expose_value=False, callback=_user,
        help="The account that asks; its password is asked for, unless RMQ_SECRET_KEY has it.",
    )  # fmt: skip
    file = click.option(
        "--credentials", type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE", expose_value=False, callback=_file, envvar="RMQ_CREDENTIALS",
        show_envvar=True, help="The account that asks: a file with accessKey and secretKey.",
    )  # fmt: skip
    return user(file(command))


def _user(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is not None:
        from rmq.client.blocking.account import SECRET

        secret = os.environ.get(SECRET) or click.prompt(f"Password of {name}", hide_input=True)
        _use(name, secret)


def _file(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    found = dict(_LINE.findall(path.read_text("utf-8", "replace").replace(",", "\n")))
    if len(found) != 2:
        raise click.BadParameter(f"{path} has no accessKey and secretKey", param=parameter)
    _use(found["accessKey"], found["secretKey"])


def _use(name: str, secret: str) -> None:
    from rmq.client.blocking import account
    from rmq.format.signature import Credentials

    account.use(Credentials(name, secret))
