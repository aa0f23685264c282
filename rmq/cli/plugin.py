"""Plugin: a check that monitoring calls (Nagios, Icinga and others): one line and an exit code.

    RMQ BROKERS WARNING - broker-a: 81% of its disk is used; 2 of 2 brokers run | brokers_running=2

    0 OK | 1 WARNING | 2 CRITICAL | 3 UNKNOWN

UNKNOWN also stands for wrong usage, and for a server that refuses to tell. A server that does not
answer is CRITICAL, because the check is there to notice that. Behind the bar are numbers, as
name=value[unit];[warning];[critical]. With -o json the same comes as an object.
"""

from __future__ import annotations

import enum
from typing import Any

import click
import msgspec

from rmq.cli.errors import describe_error
from rmq.cli.output import Output
from rmq.errors import RmqError, UnreachableError
from rmq.operations.texts import printable


class Status(enum.IntEnum):
    """A status's value is its exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


_GRAVITY = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)


class Number(msgspec.Struct, frozen=True):
    """`warning`, `critical`: values from which on the status is that; None: it never is."""

    name: str
    value: float
    unit: str = ""
    warning: float | None = None
    critical: float | None = None

    def status(self) -> Status:
        if self.critical is not None and self.value >= self.critical:
            return Status.CRITICAL
        if self.warning is not None and self.value >= self.warning:
            return Status.WARNING
        return Status.OK

    def text(self) -> str:
        """As plugins write it: 'name'=value[unit];[warning];[critical]."""
        bounds = ";".join("" if each is None else f"{each:g}" for each in
                          (self.warning, self.critical))  # fmt: skip
        name = f"'{self.name}'" if " " in self.name else self.name
        return f"{name}={self.value:g}{self.unit};{bounds}".rstrip(";")


class Problem(msgspec.Struct, frozen=True):
    status: Status
    text: str


class Result:
    """What a check found, gathered problem by problem."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.problems: list[Problem] = []
        self.numbers: list[Number] = []
        self.rest = ""

    def problem(self, status: Status, text: str) -> None:
        self.problems.append(Problem(status, text))

    def number(self, number: Number, text: str) -> None:
        """Adds a number; `text`: the problem to show if it is too high."""
        self.numbers.append(number)
        if number.status() is not Status.OK:
            self.problem(number.status(), text)

    @property
    def status(self) -> Status:
        return max((each.status for each in self.problems), default=Status.OK, key=_GRAVITY.index)

    def show(self, output: Output) -> None:
        """Prints the result, and ends the command with the exit code of the status."""
        worst = sorted(self.problems, key=lambda each: -_GRAVITY.index(each.status))
        told = "; ".join([*(each.text for each in worst), *([self.rest] if self.rest else [])])
        if output.is_data:
            output.value({
                "status": self.status.name, "exit_code": int(self.status), "text": told,
                "problems": [{"status": each.status.name, "text": each.text} for each in worst],
                "numbers": self.numbers,
            })  # fmt: skip
        else:
            line = f"RMQ {self._what} {self.status.name} - {told}".replace("|", "/")
            numbers = " ".join(each.text() for each in self.numbers)
            click.echo(printable(line) + (f" | {numbers}" if numbers else ""))
        raise click.exceptions.Exit(int(self.status))


class _WrongUsage(click.UsageError):
    exit_code = int(Status.UNKNOWN)


class PluginCommand(click.Command):
    """A command whose errors have the exit codes of plugins, too."""

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **more)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from None
        except RmqError as error:
            raise _ended(str(self.name), error, Output()) from None

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from None
        except RmqError as error:
            output = context.params.get("output")
            found = output if isinstance(output, Output) else Output()
            raise _ended(str(self.name), error, found) from None


def _ended(name: str, error: RmqError, output: Output) -> click.exceptions.Exit:
    is_gone = isinstance(error, UnreachableError)
    told = Result(name.upper())
    told.problem(Status.CRITICAL if is_gone else Status.UNKNOWN, describe_error(error).error)
    try:
        told.show(output)
    except click.exceptions.Exit as end:
        return end
    raise AssertionError("show() ends the command")
