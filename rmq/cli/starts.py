"""Starts as options: from where, and up to where, queues are read (rmq/operations/starts.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rmq.cli.options import Parsed
from rmq.client.blocking.tail import Start
from rmq.operations.starts import parse_start

Command = TypeVar("Command", bound=Callable[..., Any])
START = Parsed("START", parse_start)


def start_option(
    default: Start | None, text: str = "Where to begin in each queue"
) -> Callable[[Command], Command]:
    """The option --from; `text` is the beginning of its help."""
    usual = " (default)" if default == Start("first") else ""
    return click.option(
        "--from", "start", type=START, default=default,
        help=f"{text}: first{usual}, last, an offset, N:M for offsets from N to before M, -N "
        "for the last N, or a time: @2025-06-01T08:30, @-1h, @-2h:@-1h.",
    )  # fmt: skip
