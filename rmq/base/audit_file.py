"""Audit file: the audit log's lines in a file of their own, made for its owner alone (mode 0600).

    logging.getLogger(LOGGER).addHandler(AuditFile(Path("/var/log/rmq/audit.log")))

Each line is one write, so that several processes may append to one file. Moved away, as logrotate
does, it is made anew. A line that cannot be written goes to the process's own log, with the reason,
and nothing of a logger's trouble comes to who logs.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

LOGGER = "rmq.audit"

log = logging.getLogger("rmq.logs")


class AuditFile(logging.Handler):
    def __init__(self, path: Path) -> None:
        """OSError: it cannot be opened."""
        super().__init__()
        self._path = path
        self._is_torn = False  # it ends in the middle of a line
        self._descriptor = self._opened()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode("utf-8", "replace")
            self._follow()
            written = os.write(self._descriptor, b"\n" + line if self._is_torn else line)
            if written < len(line):
                self._is_torn = True
                raise OSError(f"{written} of {len(line)} bytes were taken")
            self._is_torn = False
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        reason = sys.exc_info()[1]
        log.error("%s cannot be written (%s): %s", self._path, reason, record.getMessage())

    def close(self) -> None:
        super().close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def _follow(self) -> None:
        """To the file that has the name now."""
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
