"""Terminal: runs a command of rmq at a pseudo-terminal, where it may ask, and reads what it shows.

    with at_terminal("user", "list", "--user", "admin", "-n", namesrv) as terminal:
        terminal.until("Password of admin: ")
        terminal.type("top secret")
        assert terminal.code() == 0
    terminal.shown          # all output, with typed text where the command lets it be echoed

    shown = rmq_on_terminal("bench", "pingpong", "-d", "0.3")
    shown.code, shown.text  # of a command that asks nothing, without control sequences

The command has a process of its own, and the pseudo-terminal as its input, output and error; its
output may go elsewhere: rmq_on_terminal(.., out=file).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from support.shard import readable
from support.source_tree import ROOT
from support.waiting import HANG_S

ROWS, COLUMNS = 50, 120
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self._process, self._ours = process, ours
        self.shown = ""

    def until(self, text: str) -> None:
        """Waits until this text is shown."""
        while text not in self.shown:
            assert self._more(), f"ended after {self.shown!r}"

    def type(self, line: str) -> None:
        os.write(self._ours, line.encode() + b"\n")

    def code(self) -> int:
        """Waits until the command has ended; returns its exit code."""
        while self._more():
            pass
        return self._process.wait(HANG_S)

    def _more(self) -> bool:
        """Reads more output. False: the command has ended."""
        assert readable(self._ours, HANG_S), f"it hangs after {self.shown!r}"
        piece = b""
        with contextlib.suppress(OSError):  # no process has the other side open any more
            piece = os.read(self._ours, 65536)
        self.shown += piece.decode(errors="replace")
        return bool(piece)


def _control() -> None:
    """Runs in the child: makes its input its controlling terminal (/dev/tty)."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def at_terminal(
    *words: str, environment: Mapping[str, str] | None = None, columns: int = COLUMNS,
    out: IO[bytes] | None = None,
) -> Iterator[Terminal]:  # fmt: skip
    # The size is the terminal's: pytest's readline sets these two in the workers of a whole run.
    given = os.environ if environment is None else environment
    given = {name: value for name, value in given.items() if name not in ("COLUMNS", "LINES")}
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "rmq", *words],
            stdin=theirs, stdout=out or theirs, stderr=theirs,
            start_new_session=True, preexec_fn=_control, cwd=ROOT, env=given,
        )  # fmt: skip
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


@dataclass(frozen=True)
class Shown:
    code: int
    text: str


def rmq_on_terminal(*words: object, out: IO[bytes] | None = None) -> Shown:
    """Runs a command that asks nothing and ends by itself."""
    environment = {**os.environ, "TERM": "xterm"}
    with at_terminal(*map(str, words), environment=environment, out=out) as terminal:
        code = terminal.code()
    return Shown(code, CONTROL.sub("", terminal.shown))
