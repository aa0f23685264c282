"""Streams: standard output and standard error, whose reader may go before the command ends.

say("warm-up of 10 s", err=True)        no more than a try, where the work matters more
leave(sys.stdout)                       what is still to be written goes nowhere
is_unwritten(sys.stdout)                whether it takes nothing more, as its disk is full
fill()                                  there are all three, whatever was closed before the start
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


def is_unwritten(stream: IO[str]) -> bool:
    """After an OSError of a whole command: whether it came of this stream. Tried by what it keeps
    and, where that is nothing (PYTHONUNBUFFERED), by a line end."""
    try:
        stream.flush()
        os.write(stream.fileno(), b"\n")
    except OSError:
        return True
    return False


def fill() -> None:
    """Where a shell has closed some (>&-) Python has None for them, and the next files and sockets
    would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def leave(stream: IO[str]) -> None:
    """Python would complain of what it cannot write at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
