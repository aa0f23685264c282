"""Streams: standard output and standard error, whose reader may go before the command ends.

say("warm-up of 10 s", err=True)        no more than a try, where the work matters more
leave(sys.stdout)                       what is still to be written goes nowhere
"""

from __future__ import annotations

import os
import sys
from typing import IO

import click


def say(text: str, *, err: bool = False) -> None:
    """A line; whoever read it may have gone, as tee goes by the same Ctrl-C, or a terminal that is
    closed. Nothing is written there from then on."""
    try:
        click.echo(text, err=err)
    except OSError:
        leave(sys.stderr if err else sys.stdout)


def leave(stream: IO[str]) -> None:
    """Python would complain of what it cannot write at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
