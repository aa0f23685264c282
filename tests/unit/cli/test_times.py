"""Moments and durations on the command line, and the errors for what is none."""

from __future__ import annotations

import time

import pytest

from rmq.operations.texts import time_text
from rmq.operations.times import duration_ms, moment_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000),
     ("1.5s", 1500), ("0s", 0)],
)  # fmt: skip
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5w", "1.2345s", "1e3s", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="a time such as 500ms, 10s"):
        duration_ms(text)


def test_moments() -> None:
    assert moment_ms("1763726400000") == moment_ms("1763726400") == 1_763_726_400_000
    local = time.mktime((2025, 6, 1, 8, 30, 0, 0, 0, -1)) * 1000
    assert moment_ms("2025-06-01T08:30") == moment_ms("2025-06-01T08:30:00") == local
    assert moment_ms("2025-06-01") == time.mktime((2025, 6, 1, 0, 0, 0, 0, 0, -1)) * 1000
    assert moment_ms("@2025-06-01T08:30") == local
    assert moment_ms("@now") - moment_ms("@-1h") >= 3_600_000 - 1000
    before = int(time.time() * 1000)
    assert before + 3_600_000 <= moment_ms("+1h") == pytest.approx(moment_ms("@+1h"), abs=60_000)
    assert before <= moment_ms("now") <= moment_ms("-1h") + 3_600_000 <= time.time() * 1000 + 1


def test_what_tables_show_can_be_given_again() -> None:
    ms = 1_763_726_400_123
    shown = time_text(ms)
    assert shown is not None and " " in shown and shown.endswith(".123")
    assert moment_ms(shown) == moment_ms(f"@{shown}") == ms
    assert moment_ms(shown.removesuffix(".123")) == ms - 123


@pytest.mark.parametrize(
    "text",
    ["", "@", "@@now", "soon", "-", "-5", "+", "2025-13-01", "2025-06-01.123", "123", "1" * 14],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        moment_ms(text)
