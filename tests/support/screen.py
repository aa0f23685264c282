"""Screen: `rmq` with a pseudo-terminal as its standard output and error, as a user has one.

shown = rmq_on_terminal("bench", "pingpong", "-d", "0.3")
shown.code, shown.text              what the terminal was sent, without its control sequences
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
import threading
from dataclasses import dataclass

from support.rmq_process import start_rmq
from support.waiting import HANG_S

ROWS, COLUMNS = 50, 120
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Shown:
    code: int
    text: str


def rmq_on_terminal(*words: object) -> Shown:
    """It has nothing to read, and ends by itself."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    parts: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, parts))
    reader.start()
    try:
        with os.fdopen(theirs, "w") as screen:
            process = start_rmq(
                words, stdout=screen, stderr=screen, environment={**os.environ, "TERM": "xterm"}
            )
            try:
                code = process.wait(HANG_S)
            except BaseException:
                process.kill()
                process.wait()
                raise
    finally:
        reader.join()
        os.close(ours)
    return Shown(code, CONTROL.sub("", b"".join(parts).decode()))


def _read(descriptor: int, parts: list[bytes]) -> None:
    """Until nobody has the other end any more; a full terminal would hold the writer up."""
    while True:
        try:
            part = os.read(descriptor, 65_536)
        except OSError:  # so Linux says it of a terminal
            return
        parts.append(part)
