"""Every option that a command has ever had is still accepted, in each of its spellings.

Goal: docs/versions.md promises commands and options; one that will go must be announced first.
Method: what click knows of the commands is compared with spellings.txt, which began with everything
that the history of the commands has. Not shown here: that an option still means the same
(tests/process/test_old_spellings.py).

To add one: python tests/unit/cli/test_spellings.py > tests/unit/cli/spellings.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rmq.cli.main import cli

KEPT = Path(__file__).with_name("spellings.txt")


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """The words of each command, and its options. An option with few values is listed with each
    value."""
    yield " ".join(("rmq", *words)), set(spellings(command))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*words, name))


def spellings(command: click.Command) -> Iterator[str]:
    for each in command.params:
        if isinstance(each, click.Option):
            values = each.type.choices if isinstance(each.type, click.Choice) else ()
            for name in (*each.opts, *each.secondary_opts):
                yield name
                yield from (f"{name}={value}" for value in values)


def kept() -> dict[str, set[str]]:
    rows = (line.partition(": ") for line in KEPT.read_text().splitlines())
    return {name.rstrip(":"): set(options.split()) for name, _, options in rows}


PRESENT, PROMISED = dict(commands(cli)), kept() if KEPT.exists() else {}


@pytest.mark.parametrize("command", PROMISED)
def test_what_was_taken_is_taken(command: str) -> None:
    assert command in PRESENT, "the command is gone: docs/versions.md"
    assert PROMISED[command] - PRESENT[command] == set(), "gone: docs/versions.md"


def test_what_is_new_is_promised_from_now_on() -> None:
    new = {name: options - PROMISED.get(name, set()) for name, options in PRESENT.items()
           if name not in PROMISED or options - PROMISED[name]}  # fmt: skip
    assert new == {}, "add it to spellings.txt"


if __name__ == "__main__":
    for name in sorted({*PROMISED, *PRESENT}):
        options = PROMISED.get(name, set()) | PRESENT.get(name, set())
        sys.stdout.write(f"{name}: {' '.join(sorted(options))}".rstrip() + "\n")
