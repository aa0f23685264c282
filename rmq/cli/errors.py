"""Errors: their texts, the cause first, then what to do about it; and their exit codes.

    0    done
    1    refused or failed; or a check found something wrong, as the help of the command says
    2    wrong usage or configuration
    3    no server answers at the address, or the one there speaks another protocol; or one of
         several brokers does not answer, and what the others have was shown
    4    the store is held by another process
    130  interrupted (Ctrl-C)

If the command was to print JSON (-o json), the error is JSON, too, one line on standard error:

    {"error":"refused with code 17: ..","hint":"list topics with ..","exit_code":1,"code":17}
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click
import msgspec

from rmq.codes import ResponseCode
from rmq.errors import (
    FOREIGN,
    ConfigError,
    NoControllerError,
    NotBuiltError,
    PartialError,
    RemoteError,
    RmqError,
    StoreLockedError,
    UnreachableError,
)

PREFIX = "rmq: "
INTERRUPTED = 130  # as a shell says of a process that SIGINT ended
_EXIT_CODES: list[tuple[type[RmqError], int]] = [
    (ConfigError, 2),
    (UnreachableError, 3),
    (StoreLockedError, 4),
    (NotBuiltError, 2),
]
# What to do about an answer, by its code.
_ANSWER_HINTS = {
    14: "the broker accepts no writes at the moment: its log says why (disk full, stopping)",
    17: "list topics with `rmq topic list`, create one with `rmq topic create NAME`",
    26: "list groups with `rmq group list`, create one with `rmq group create NAME`",
}
# Code 16 says only that something is not permitted. If the permissions of a topic or a broker are
# the reason, the text has words such as "the topic[orders] pulling message is forbidden"; refusals
# because of settings and accounts have other words.
_FORBIDDEN_HINT = "the permissions of the topic or broker forbid it: see `rmq topic describe`"
_OF_PERMISSIONS = re.compile(r"\btopic\b|\bbroker\[|\bqueue of\b|\bforbidden\b")
# What to do if the account is refused: rmq.errors.ACCESS_REMEDIES in the words of commands.
ACCESS_HINTS = {
    "username cannot be null.": "the request had no account: give --user NAME or --credentials "
    "FILE, or set RMQ_ACCESS_KEY and RMQ_SECRET_KEY",
    "is not found.": "the server has no such account: see `rmq user list`",
    "is disabled.": "enable it with `rmq user update NAME --enable`",
    "check signature failed.": "the password (secretKey) is wrong",
    "no matched policies.": "a Super user can allow it with `rmq acl allow`",
    "the decision is deny.": "an ACL entry denies it: see `rmq acl list`",
}


class Described(msgspec.Struct, frozen=True):
    """`code`: the response code, if a server refused."""

    error: str
    hint: str | None
    exit_code: int
    code: int | None = None

    def text(self) -> str:
        """The error and its hint, for people."""
        return self.error if self.hint is None else f"{self.error}\n  {self.hint}"


def describe_error(error: RmqError) -> Described:
    exit_code = next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)
    if isinstance(error, RemoteError):
        hint = error.of_access(ACCESS_HINTS) or _answer_hint(error)
        text = f"refused with code {error.code}: {error.remark.strip()}"
        return Described(text, hint, exit_code, int(error.code))
    where = None
    if isinstance(error, NoControllerError):
        where = "Start one with `rmq controller`, or give its address: --controller HOST:PORT"
    elif isinstance(error, PartialError):
        where = "see which brokers answer: `rmq broker status`"
    elif isinstance(error, UnreachableError) and FOREIGN in str(error):
        where = (
            "Another program uses this port. Give the address of the name server: -n HOST:PORT "
            "(or NAMESRV_ADDR); its port is usually 9876"
        )
    elif isinstance(error, UnreachableError):
        where = (
            "Start one with `rmq standalone`, or give its address: -n HOST:PORT (or NAMESRV_ADDR)"
        )
    return Described(_in_commands_words(str(error)), where, exit_code)


def _in_commands_words(text: str) -> str:
    """The text with options instead of parameters. Clients with an engine of their own, such as
    that of `rmq send`, name parameters in their errors, because programs have no options."""
    if "tls" not in text:
        return text
    from dataclasses import astuple

    from rmq.client.blocking.encryption import COMMAND
    from rmq.format.client_tls import PARAMETERS

    for parameter, option in zip(astuple(PARAMETERS), astuple(COMMAND), strict=True):
        text = re.sub(rf"(?<![\w/]){re.escape(parameter)}(?!\w)", option, text)
    return text


def _answer_hint(error: RemoteError) -> str | None:
    if error.code == ResponseCode.NO_PERMISSION:
        return _FORBIDDEN_HINT if _OF_PERMISSIONS.search(error.remark) else None
    return _ANSWER_HINTS.get(error.code)


def show_error(error: Exception, words: Sequence[str]) -> int:
    """Prints an error of rmq or of click on standard error; returns the exit code. `words`: those
    of the command line."""
    told = _described(error)
    if wants_json(words):
        if isinstance(error, click.Abort):
            click.echo(err=True)  # ends the line of the question
        click.echo(msgspec.json.encode(told).decode(), err=True)
    elif isinstance(error, click.ClickException):
        _show_click(error)
    elif isinstance(error, RmqError):
        click.echo(f"{PREFIX}{told.text()}", err=True)
    elif told.exit_code != INTERRUPTED:
        click.echo("Aborted!", err=True)
    return told.exit_code


def _show_click(error: click.ClickException) -> None:
    """Prints the error as click does, but behind PREFIX, with which rmq's own errors and those of
    its servers begin."""
    if type(error).show not in (click.ClickException.show, click.UsageError.show):
        error.show()  # prints the help of a group: none of its commands was named
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        path = error.ctx.command_path
        click.echo(f"{error.ctx.get_usage()}\nTry '{path} --help' for help.\n", err=True)
    click.echo(f"{PREFIX}{error.format_message()}", err=True)


def _described(error: Exception) -> Described:
    if isinstance(error, RmqError):
        return describe_error(error)
    if isinstance(error, click.ClickException):
        hint = None
        if isinstance(error, click.UsageError) and error.ctx is not None:
            hint = f"see {error.ctx.command_path} --help"
        return Described(error.format_message(), hint, error.exit_code)
    # When Ctrl-C interrupts a question, click's Abort has the KeyboardInterrupt as its context.
    if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
        return Described("interrupted", None, INTERRUPTED)
    return Described("aborted: the question was not answered with yes", None, 1)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line with these words asks for JSON, even if its usage is wrong."""
    is_wanted = False
    for at, word in enumerate(arguments):
        if word == "--":
            break
        following = arguments[at + 1] if at + 1 < len(arguments) else ""
        if word == "--json":
            is_wanted = True
        elif found := re.fullmatch(r"-o(.+)|--output=(.*)", word):
            is_wanted = (found[1] or found[2]) == "json"
        elif re.fullmatch(r"-[A-Za-z]*o|--output", word):
            is_wanted = following == "json"
    return is_wanted
