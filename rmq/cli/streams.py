"""Streams: standard output and standard error, whose reader may go before the command ends.

say("warm-up of 10 s", err=True)        prints a line; if that fails, the work goes on
leave(sys.stdout)                       everything written from now on is thrown away
is_unwritten(sys.stdout)                whether it takes no more, because a disk is full for example
fill()                                  opens standard streams that were closed before the start
"""

from __future__ import annotations

import os
import sys
from typing import IO

import click


def say(text: str, *, err: bool = False) -> None:
    """Prints a line. If the stream's reader is gone, because its terminal was closed or the same
    Ctrl-C ended tee, everything written there from then on is thrown away."""
    try:
        click.echo(text, err=err)
    except OSError:
        leave(sys.stderr if err else sys.stdout)


def is_unwritten(stream: IO[str]) -> bool:
    """Whether the OSError that ended a command came from this stream. Tries to write what the
    stream still holds and, as that may be nothing (PYTHONUNBUFFERED), a line end."""
    try:
        stream.flush()
        os.write(stream.fileno(), b"\n")
    except OSError:
        return True
    return False


def fill() -> None:
    """Opens /dev/null for standard streams that the shell has closed (>&-): Python has None for
    these, and the next files and sockets would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def leave(stream: IO[str]) -> None:
    """Lets the stream write to /dev/null from now on, because Python would complain at its exit
    about output that it cannot write."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
