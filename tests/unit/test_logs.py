"""Log lines: JSON form, and the limits: one for errors, one for all others."""

import json
import logging

import pytest

from rmq.logs import JsonFormatter, RateLimit, set_up


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


def test_lines_beyond_the_limit_are_dropped_counted_and_told() -> None:
    now = [0.0]
    limit = RateLimit(10, clock=lambda: now[0])
    passed = [limit.filter(record(logging.INFO, "n")) for _ in range(25)]
    assert passed.count(True) == 10
    now[0] = 0.1  # room for one
    after = record(logging.INFO, "line %d", 26)
    assert limit.filter(after)
    assert after.getMessage() == "line 26 (15 lines before it were not logged)"
    assert not limit.filter(record(logging.INFO, "n"))
    now[0] = 100.0  # a second's worth gathers, not more
    assert [limit.filter(record(logging.INFO, "n")) for _ in range(25)].count(True) == 10


def test_errors_have_a_limit_of_their_own() -> None:
    now = [0.0]
    limit = RateLimit(5, clock=lambda: now[0])
    assert [limit.filter(record(logging.WARNING, "n")) for _ in range(50)].count(True) == 5
    assert [limit.filter(record(logging.ERROR, "n")) for _ in range(50)].count(True) == 5
    now[0] = 0.2  # room for one of each
    after = record(logging.ERROR, "why")
    assert limit.filter(after)
    assert after.getMessage() == "why (45 lines before it were not logged)"
    assert limit.filter(record(logging.WARNING, "n"))
    assert not limit.filter(record(logging.ERROR, "n"))


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_go_to_standard_error(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        set_up(form, 100, {"broker": "b"})
        logging.getLogger("rmq.test").info("hello %s", "you")
    finally:
        root.handlers[:], root.level = before, level
    told = capfd.readouterr().err
    assert told.count("\n") == 1 and "hello you" in told
    assert told.startswith("{") == (form == "json")
