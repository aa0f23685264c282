"""Keys: the key q ends a command that draws its output again and again.

    with quit_key(sys.stdin) as pause:
        while not pause(1.0): draw()

In the block the terminal passes on each key at once, and Ctrl-C works as always. Nothing is read
from a file or a pipe.
"""

from __future__ import annotations

import os
import select
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

QUIT = b"qQ"

# Waits so many seconds. If q is pressed or the terminal is closed, returns True at once.
Pause = Callable[[float], bool]


@contextmanager
def quit_key(terminal: TextIO | None) -> Iterator[Pause]:
    if terminal is None or not terminal.isatty():
        yield _sleep
        return
    descriptor = terminal.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSANOW)
    try:
        yield lambda seconds: _is_quit(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _is_quit(descriptor: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        keys = os.read(descriptor, 64)
        if not keys:  # the terminal is gone
            return True
        if any(key in QUIT for key in keys):
            return True
    return False
