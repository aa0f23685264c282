"""Audit file: the audit log's lines in a file of their own, which only its owner reads (mode 0600).

    logging.getLogger(LOGGER).addHandler(AuditFile(Path("/var/log/rmq/audit.log")))

A line that cannot be written goes to the process's own log, with the reason; the code that logs the
line gets no error.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from rmq.base.log_file import LogFile

LOGGER = "rmq.audit"

log = logging.getLogger("rmq.logs")


class AuditFile(logging.Handler):
    def __init__(self, path: Path) -> None:
        """OSError: it cannot be opened."""
        super().__init__()
        self._path = path
        self._file = LogFile(path, 0o600)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        reason = sys.exc_info()[1]
        log.error("%s cannot be written (%s): %s", self._path, reason, record.getMessage())

    def close(self) -> None:
        super().close()
        self._file.close()
