"""Times: moments and durations, as people write them.

    2025-06-01T08:30 | 2025-06-01 | 1763726400000 | 1763726400 | now | -1h | +1h     a moment
    500ms | 10s | 5m | 2h | 1d                                                       a duration

Times are local, as a clock on the wall shows them. Seconds and milliseconds since 1970 are told
apart by their number of digits. A moment may be given as tables show it (2025-06-01 08:30:00.123),
or with the @ of a start. A moment with Z behind it is UTC, as in data:

    moment_members("stored", 1763726400123)
        {"stored": "2025-11-21T12:00:00.123Z", "stored_ms": 1763726400123}
"""

from __future__ import annotations

import calendar
import re
import time
from typing import Any

FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
LAST_MS = 253_402_214_400_000  # the last day that a calendar has, 9999-12-31
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MOMENTS = (
    "milliseconds since 1970, a local time such as 2025-06-01T08:30, now, -1h for an hour ago, or "
    "+1h for in an hour"
)
DURATIONS = "a time such as 500ms, 10s, 5m, 2h or 1d"


def moment_ms(text: str) -> int:
    """Milliseconds since 1970; ValueError says what may be written."""
    given = text.removeprefix("@")
    if re.fullmatch("[0-9]{10,13}", given):
        return int(given) * (1000 if len(given) == 10 else 1)
    if given == "now":
        return int(time.time() * 1000)
    if given.startswith(("-", "+")):
        duration = duration_ms(given[1:])
        return int(time.time() * 1000) + (duration if given[0] == "+" else -duration)
    found = re.fullmatch(r"(.+?)(?:(?<=:[0-9]{2})\.([0-9]{3}))?(Z?)", given)
    for form in FORMS:
        if found is None:
            break
        try:
            moment = time.strptime(found[1].replace(" ", "T"), form)
            seconds = calendar.timegm(moment) if found[3] else int(time.mktime(moment))
        except (ValueError, OverflowError):
            continue
        return seconds * 1000 + int(found[2] or 0)
    raise ValueError(f"{text!r}: give {MOMENTS}")


def duration_ms(text: str) -> int:
    """Milliseconds; ValueError says what may be written."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([a-z]+)", text)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{text!r}: give {DURATIONS}")
    return round(float(found[1]) * UNITS[found[2]])


def utc_text(ms: int) -> str | None:
    """A moment in UTC, by ISO 8601; None for never (0 and below) and beyond LAST_MS."""
    if not 0 < ms <= LAST_MS:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def moment_members(key: str, ms: int | None) -> dict[str, Any]:
    """The two members for a moment in JSON; both are null for never."""
    known = ms if ms is not None and ms > 0 else None
    return {key: utc_text(known or 0), f"{key}_ms": known}
