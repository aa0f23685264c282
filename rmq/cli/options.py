"""Options: those that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from rmq.cli.account_options import account_options
from rmq.cli.main import NAMESRV_VARIABLE, leave_context

Command = TypeVar("Command", bound=Callable[..., Any])
Value = TypeVar("Value")


class Parsed(click.ParamType[Value]):
    """An option's type: `parse` turns the text into a value; its ValueError says what is wrong."""

    def __init__(self, name: str, parse: Callable[[str], Value]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, parameter: Any, context: Any) -> Value:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error))


def _addresses(text: str) -> str:
    from rmq.base.server_address import split_address
    from rmq.errors import AddressError

    try:
        for each in text.split(";"):
            split_address(each)
    except AddressError as error:
        raise ValueError(str(error)) from None
    return text


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one, in this order in the help."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def own_cluster(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Leaves the context if the address was given on the command line: the context's account and
    TLS are not for another cluster."""
    if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
        leave_context(context)
    return value


cluster_option = click.option(
    "--cluster", "cluster_name", help="Only on the brokers of this cluster name."
)

ADDRESSES = Parsed("addresses", _addresses)
_namesrv_option = click.option(
    "-n",
    "--namesrv",
    type=ADDRESSES,
    callback=own_cluster,
    is_eager=True,  # before the account's options
    envvar=NAMESRV_VARIABLE,
    default="127.0.0.1:9876",
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT[;...]",
    help="Addresses of name servers.",
)


def namesrv_option(command: Command) -> Command:
    """Adds -n, and the options of the account and TLS with which the servers are asked."""
    return _namesrv_option(account_options(command))


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """("key=value", ...) as a dictionary; a usage error names the one without '='."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not of the form key=value", param_hint=option)
        found[key.strip()] = value
    return found
