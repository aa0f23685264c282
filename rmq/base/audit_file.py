"""Audit file: the audit log's lines in a file of their own, for its owner alone (mode 0600).

    logging.getLogger(LOGGER).addHandler(AuditFile(Path("/var/log/rmq/audit.log")))

Several processes may append to one file. Moved away, as logrotate does, it is made anew. A line
that cannot be written goes to the process's own log, with the reason.
"""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path

LOGGER = "rmq.audit"

log = logging.getLogger("rmq.logs")


class AuditFile(WatchedFileHandler):
    def __init__(self, path: Path) -> None:
        """OSError: it cannot be opened."""
        super().__init__(path, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, "a", encoding="utf-8", opener=opener)

    def handleError(self, record: logging.LogRecord) -> None:
        reason = sys.exc_info()[1]
        log.error("%s cannot be written (%s): %s", self.baseFilename, reason, record.getMessage())
