"""Log lines: JSON form, and the limits: one for errors, one for all others."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.log_before import log_as_before

from rmq.base.audit_file import LOGGER
from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.logs import JsonFormatter, LimitedHandler, set_up


def logged(form: str, lines_per_second: int, fields: dict[str, str], **more: str) -> None:
    values = {"rmqLogFormat": form, "rmqLogLinesPerSecond": str(lines_per_second)}
    set_up(load_properties(None, {**values, **more}), fields)


@pytest.fixture
def loggers() -> Iterator[None]:
    """Those that set_up() changes, as they were before."""
    with log_as_before():
        yield


def record(level: int, text: str, *values: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("rmq.x").makeRecord(
        "rmq.x", level, "f.py", 1, text, values, None, extra=extra
    )
    made.created, made.msecs = 1_763_731_200.5, 500.0
    return made


def test_a_json_line_has_time_level_and_what_was_given_along() -> None:
    form = JsonFormatter({"broker": "b"})
    line = form.format(record(logging.WARNING, '%d "quoted"\nlines', 2, port=7, peer=(1, 2)))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2025-11-21T13:20:00.500Z", "level": "WARNING", "logger": "rmq.x", "broker": "b",
        "message": '2 "quoted"\nlines', "port": 7, "peer": "(1, 2)",
    }  # fmt: skip


def test_an_exception_is_a_field() -> None:
    made = record(logging.ERROR, "failed")
    try:
        raise ValueError("why")
    except ValueError as error:
        made.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: why" in json.loads(JsonFormatter({}).format(made))["exception"]


class Limited:
    """A handler of so many lines a second, and what it has written."""

    def __init__(self, lines_per_second: int) -> None:
        self.now, self._text = 0.0, io.StringIO()
        self._handler = LimitedHandler(self._text, lines_per_second, clock=lambda: self.now)

    def written(self, *records: logging.LogRecord) -> list[str]:
        """The lines that come of these."""
        self._text.seek(0)
        self._text.truncate()
        for each in records:
            self._handler.handle(each)
        return self._text.getvalue().splitlines()


def test_lines_beyond_the_limit_are_dropped_counted_and_told() -> None:
    limited = Limited(10)
    many = [record(logging.INFO, "n")] * 25
    assert limited.written(*many) == ["n"] * 10
    limited.now = 0.1  # room for one
    after = record(logging.INFO, "line %d", 26)
    assert limited.written(after) == ["line 26 (15 lines before it were not logged)"]
    assert after.getMessage() == "line 26", "it is not this handler's alone"
    assert limited.written(many[0]) == []
    limited.now = 100.0  # a second's worth gathers, not more
    assert len(limited.written(*many)) == 10


def test_errors_have_a_limit_of_their_own() -> None:
    limited = Limited(5)
    assert len(limited.written(*[record(logging.WARNING, "n")] * 50)) == 5
    assert len(limited.written(*[record(logging.ERROR, "n")] * 50)) == 5
    limited.now = 0.2  # room for one of each
    after = limited.written(record(logging.ERROR, "why"))
    assert after == ["why (45 lines before it were not logged)"]
    assert limited.written(record(logging.WARNING, "n")) == ["n"]
    assert limited.written(record(logging.ERROR, "n")) == []


def test_a_line_that_cannot_be_put_together_harms_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    limited = Limited(1)
    limited.written(*[record(logging.INFO, "n")] * 2)
    limited.now = 1.0
    assert limited.written(record(logging.INFO, "%d", "no number")) == []
    assert "no number" in capfd.readouterr().err
    limited.now = 2.0
    assert limited.written(record(logging.INFO, "n")) == ["n (1 lines before it were not logged)"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_go_to_standard_error(
    form: str, loggers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    logged(form, 100, {"broker": "b"})
    logging.getLogger("rmq.test").info("hello %s", "you")
    told = capfd.readouterr().err
    assert told.count("\n") == 1 and "hello you" in told
    assert told.startswith("{") == (form == "json")


def test_the_audit_log_has_a_file_of_its_own(
    tmp_path: Path, loggers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    path, audit = tmp_path / "audit.log", logging.getLogger(LOGGER)
    for _ in range(2):  # the last call counts
        logged("text", 1, {"broker": "b"}, rmqAuditLog=str(path))
    for i in range(3):
        audit.info("allowed %d", i, extra={"user": "alice"})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["message"] for line in lines] == ["allowed 0", "allowed 1", "allowed 2"]
    assert lines[0]["user"] == "alice" and lines[0]["broker"] == "b"
    assert path.stat().st_mode & 0o777 == 0o600
    path.rename(tmp_path / "audit.log.1")
    audit.info("allowed 3")
    assert path.read_text().count("\n") == 1
    assert "allowed" not in capfd.readouterr().err
    with pytest.raises(ConfigError, match=r"rmqAuditLog .*/none/audit.log: No such file"):
        logged("text", 1, {}, rmqAuditLog=str(tmp_path / "none" / "audit.log"))


def test_an_audit_file_that_cannot_be_made_anew_harms_nobody(
    tmp_path: Path, loggers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, audit = tmp_path / "log", logging.getLogger(LOGGER)
    folder.mkdir()
    logged("text", 10, {}, rmqAuditLog=str(folder / "audit.log"))
    folder.rename(tmp_path / "away")
    audit.info("allowed this")
    audit.info("allowed that")
    told = capfd.readouterr().err
    assert told.count("cannot be written ([Errno 2]") == 2
    assert "allowed this" in told and "allowed that" in told
    folder.mkdir()
    audit.info("allowed again")
    assert (folder / "audit.log").read_text().count("\n") == 1


def test_what_the_audit_file_does_not_take_is_in_the_log(
    loggers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    logged("text", 10, {}, rmqAuditLog="/dev/full")
    logging.getLogger(LOGGER).info("allowed this")
    told = capfd.readouterr().err
    assert "/dev/full cannot be written ([Errno 28] No space left on device): allowed this" in told


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_go_to_a_file_from_a_level_on(
    form: str, tmp_path: Path, loggers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    path, log = tmp_path / "broker.log", logging.getLogger("rmq.test")
    logged(form, 100, {"broker": "b"}, rmqLogFile=str(path), rmqLogLevel="warning")
    log.info("hello")
    log.warning("watch %s", "out")
    (line,) = path.read_text().splitlines()
    assert "watch out" in line and line.startswith("{") == (form == "json")
    path.rename(tmp_path / "broker.log.1")
    log.error("again")
    assert path.read_text().count("\n") == 1, "logrotate moves it away"
    logged(form, 100, {}, rmqLogFile=str(path), rmqLogLevel="DEBUG")
    log.debug("scan_from 0")
    assert "scan_from 0" in path.read_text()
    assert capfd.readouterr().err == ""
    with pytest.raises(ConfigError, match=r"rmqLogFile .*/none/x.log: No such file"):
        logged("text", 1, {}, rmqLogFile=str(tmp_path / "none" / "x.log"))


def test_what_the_file_does_not_take_goes_to_standard_error(
    loggers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    logged("text", 10, {}, rmqLogFile="/dev/full")
    logging.getLogger("rmq.test").info("hello you")
    told = capfd.readouterr().err
    assert "/dev/full cannot be written ([Errno 28] No space left on device)" in told
    assert "hello you" in told
