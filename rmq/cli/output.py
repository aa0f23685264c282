"""Output: what a command prints, in the form that is asked for: -o table, wide, json or yaml.

    @output_option
    def list_topics(.., output: Output) -> None:
        output.rows(COLUMNS, rows)          a table, or an array of objects
        if output.is_data:
            output.value({"lag": 17})       one line of JSON, or a document of YAML

    def delete(.., output: Output) -> None:
        output.confirm("Delete topic orders?")                      on standard error beside data
        output.result("deleted", "orders: deleted", topic="orders")
                                            the text, or {"done":"deleted","topic":"orders"}

--json is -o json. Keys of data are snake_case, with their unit where they have one; a moment has
two keys, in UTC and in ms since 1970 (docs/command-line.md has every key). A command that prints
one thing after the other, such as `rmq consume`, prints a line or a document for each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import click

from rmq.cli.table import Column, Row, records, show_table

PAGE_ROWS = 500
FORMS = ("table", "wide", "json", "yaml")
Command = TypeVar("Command", bound=Callable[..., Any])


class Output:
    """ConfigError: the form needs something that is not installed."""

    def __init__(self, form: str = "table") -> None:
        self.form = form
        self._data_text = _DATA.get(form)
        if form == "yaml":
            _need_yaml()

    @property
    def is_data(self) -> bool:
        """Whether the form is for programs, not for people."""
        return self._data_text is not None

    @property
    def is_wide(self) -> bool:
        return self.form == "wide"

    def rows(self, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        if self.is_data:
            self.value(records(columns, rows))
        else:
            show_table(columns, rows, is_wide=self.is_wide)

    def pages(self, columns: Sequence[Column], rows: Iterable[Row]) -> int:
        """Prints a table of any number of rows, never holding all of them in memory; returns how
        many there were."""
        count, left = 0, iter(rows)
        while True:
            page = list(islice(left, PAGE_ROWS))
            if page or not count:
                show_table(columns, page, is_wide=self.is_wide, has_head=not count)
            count += len(page)
            if len(page) < PAGE_ROWS:
                return count

    def value(self, value: Any) -> None:
        """Prints data."""
        assert self._data_text is not None
        click.echo(self._data_text(value))

    def say(self, text: str) -> None:
        """A line for people, while the work goes on; nothing beside data."""
        if not self.is_data:
            click.echo(text)

    def confirm(self, question: str) -> None:
        """Asks; click.Abort: it was not agreed to."""
        click.confirm(question, abort=True, err=self.is_data)

    def result(self, done: str, text: str | None, /, **facts: Any) -> None:
        """What a command that changes something has done, at its end. done: a word for programs;
        text: a line for people, None where they have been told (say()); facts: what it was done to,
        and how much."""
        if self.is_data:
            self.value({"done": done, **facts})
        elif text is not None:
            click.echo(text)


def _json(value: Any) -> str:
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() or not sys.stdout.isatty() else _escaped(text)


def _escaped(text: str) -> str:
    """The same JSON, without characters that could command a terminal."""
    from json import dumps

    return "".join(each if each.isprintable() else dumps(each)[1:-1] for each in text)


def _yaml(value: Any) -> str:
    import msgspec

    return "---\n" + msgspec.yaml.encode(value).decode().rstrip("\n")


def _need_yaml() -> None:
    from importlib.util import find_spec

    from rmq.errors import ConfigError

    if find_spec("yaml") is None:
        raise ConfigError("PyYAML is not installed: pip install 'rmq[yaml]', or use -o json")


_DATA: dict[str, Callable[[Any], str]] = {"json": _json, "yaml": _yaml}


def output_option(command: Command) -> Command:
    """Adds -o and --json; the command gets an Output. If both are given, the last one counts."""

    def chosen(context: click.Context, parameter: click.Parameter, form: str | None) -> Output:
        return Output(form or "table")

    form = click.option(
        "-o", "--output", "output", type=click.Choice(FORMS), callback=chosen,
        help="Output format; wide is a table with all columns.  [default: table]",
    )  # fmt: skip
    json = click.option("--json", "output", flag_value="json", callback=chosen,
                        help="The same as -o json.")  # fmt: skip
    return form(json(command))
