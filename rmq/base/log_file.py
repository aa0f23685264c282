"""Log file: lines that several processes append to one file, each line one write.

    file = LogFile(Path("/var/log/rmq/broker.log"), 0o640)
    file.write("a line\\n")

When the file was moved away, as logrotate does it, it is made anew. Any thread may use it, one
after the other.
"""

from __future__ import annotations

import os
from pathlib import Path


class LogFile:
    def __init__(self, path: Path, mode: int) -> None:
        """OSError: the file cannot be opened. `mode`: for a file that is made."""
        self._path, self._mode = path, mode
        self._is_torn = False  # the file ends in the middle of a line
        self._descriptor = self._opened()

    def write(self, text: str) -> None:
        """Writes a line; OSError: it was not written, or not completely."""
        line = text.encode("utf-8", "replace")
        self._follow()
        written = os.write(self._descriptor, b"\n" + line if self._is_torn else line)
        if written < len(line):
            self._is_torn = True
            raise OSError(f"{written} of {len(line)} bytes were taken")
        self._is_torn = False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, self._mode)

    def _follow(self) -> None:
        """Opens the file that has the name now, if it is another one."""
        ours = os.fstat(self._descriptor)
        try:
            there = self._path.stat()
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
        except FileNotFoundError:
            pass
        anew = self._opened()
        os.close(self._descriptor)
        self._descriptor, self._is_torn = anew, False
