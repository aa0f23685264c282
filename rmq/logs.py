"""Logs: lines to standard error or to a file, as text or as JSON, with a limit per second.

    set_up(settings, {"broker": "broker-a"})        rmqLogFormat=json, rmqLogLinesPerSecond=200

        {"time":"2025-11-21T13:20:00.123Z","level":"WARNING","logger":"rmq.broker","broker":
        "broker-a","message":"..."}                                  (one line)

Lines beyond the limit are dropped, and the next line that is written says how many. A fault that
repeats for every message therefore neither fills the disk nor slows down the control thread. The
limit is a bucket that holds the lines of one second. Errors have a bucket of their own, so that a
flood of other lines cannot keep an error out of the log, and a flood of errors is limited, too.

Lines of the audit log (rmq/auth/audit.py) may have a file of their own, as JSON, without a limit.
"""

from __future__ import annotations

import copy
import logging
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from rmq.base.audit_file import LOGGER, AuditFile
from rmq.base.log_file import LogFile
from rmq.config import Settings
from rmq.errors import ConfigError

TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Formats each line as a JSON object; values given with `extra` become fields of it."""

    _KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__()
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        import msgspec

        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            **self._fields,
            "message": record.getMessage(),
        }
        for key, value in vars(record).items():
            if key not in self._KNOWN and key not in line:
                plain = isinstance(value, str | int | float | bool) or value is None
                line[key] = value if plain else str(value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode("utf-8", "replace")


class LimitedHandler(logging.StreamHandler):  # type: ignore[type-arg]  # 3.10 takes none
    """Writes at most lines_per_second lines, and as many errors; the next line says how many were
    dropped. Any thread may use it, one at a time."""

    def __init__(
        self, stream: TextIO, lines_per_second: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream)
        self._limit = float(lines_per_second)
        self._clock = clock
        self._left = [self._limit, self._limit]  # for lines below ERROR, for errors
        self._filled_at = clock()
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._emit(record)
        except Exception:  # the line cannot be formatted
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        more = (now - self._filled_at) * self._limit
        self._left = [min(self._limit, left + more) for left in self._left]
        self._filled_at = now
        bucket = int(record.levelno >= logging.ERROR)
        if self._left[bucket] < 1:
            self._dropped += 1
            return
        self._left[bucket] -= 1
        if self._dropped:
            record = self._with_dropped(record)
        super().emit(record)

    def _with_dropped(self, record: logging.LogRecord) -> logging.LogRecord:
        """A copy of the record, the first one after a gap, that says how many lines were dropped.
        It is a copy because other handlers have dropped none."""
        told = copy.copy(record)
        told.msg = f"{record.getMessage()} ({self._dropped} lines before it were not logged)"
        told.args = ()
        self._dropped = 0
        return told


class _FileStream:
    """A log file as a stream. A text that cannot be written to it goes to standard error, with the
    reason."""

    def __init__(self, path: Path) -> None:
        """Opens the file. ConfigError: that is not possible."""
        self._path = path
        try:
            self._file = LogFile(path, 0o640)
        except OSError as error:
            raise ConfigError(f"rmqLogFile {path}: {error.strerror}") from None

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            sys.stderr.write(f"{self._path} cannot be written ({error}): {text}")

    def flush(self) -> None:
        """Does nothing: each write goes to the file at once."""


def set_up(settings: Settings, fields: Mapping[str, str]) -> None:
    """Sends all lines of this process, from rmqLogLevel on, to standard error or to rmqLogFile, and
    those of the audit log to rmqAuditLog if that is set. The last call counts. `fields`: values
    that each line of JSON has. ConfigError: a file cannot be opened."""
    stream: Any = sys.stderr
    if settings.rmqLogFile:
        stream = _FileStream(Path(settings.rmqLogFile).expanduser())
    handler = LimitedHandler(stream, settings.rmqLogLinesPerSecond)
    is_json = settings.rmqLogFormat == "json"
    handler.setFormatter(JsonFormatter(fields) if is_json else logging.Formatter(TEXT_FORMAT))
    logging.basicConfig(level=settings.rmqLogLevel, handlers=[handler], force=True)
    if settings.rmqAuditLog:
        _set_up_audit(Path(settings.rmqAuditLog).expanduser(), fields)


def _set_up_audit(path: Path, fields: Mapping[str, str]) -> None:
    try:
        handler = AuditFile(path)
    except OSError as error:
        raise ConfigError(f"rmqAuditLog {path}: {error.strerror}") from None
    handler.setFormatter(JsonFormatter(fields))
    audit = logging.getLogger(LOGGER)
    for before in audit.handlers[:]:
        audit.removeHandler(before)
        before.close()
    audit.addHandler(handler)
    audit.propagate = False
