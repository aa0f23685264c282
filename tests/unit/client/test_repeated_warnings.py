"""What goes wrong again and again is warned of once, until it goes well."""

from __future__ import annotations

import logging

import pytest

from rmq.client.connection.repeated_warnings import RepeatedWarnings


def test_a_trouble_is_a_warning_until_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rmq.client")
    warnings = RepeatedWarnings()
    warnings.end("one")
    for reason in ("refused", "refused", "late", "refused"):
        warnings.begin("one", reason)
    warnings.begin("two", "refused")
    warnings.end("one")
    warnings.end("one")
    warnings.begin("one", "refused")
    said = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert said == [
        ("WARNING", "one: refused; it is tried again"),
        ("DEBUG", "one: refused; it is tried again"),
        ("WARNING", "one: late; it is tried again"),
        ("DEBUG", "one: refused; it is tried again"),
        ("WARNING", "two: refused; it is tried again"),
        ("INFO", "one: all is well again"),
        ("WARNING", "one: refused; it is tried again"),
    ]
