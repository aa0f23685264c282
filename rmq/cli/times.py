"""Times on the command line: moments and durations, as people write them.

    2025-06-01T08:30 | 2025-06-01 | 1763726400000 | 1763726400 | now | -1h     a moment
    500ms | 10s | 5m | 2h | 1d                                                 a duration

Local time, as clocks on the wall show it; seconds and milliseconds since 1970 are told apart by
their digits.
"""

from __future__ import annotations

import re
import time

from rmq.cli.options import Parsed

FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MOMENTS = "milliseconds, a local time such as 2025-06-01T08:30, now, or -1h for an hour ago"
DURATIONS = "a time such as 500ms, 10s, 5m, 2h or 1d"


def moment_ms(text: str) -> int:
    """Milliseconds since 1970; ValueError with what is wanted."""
    if re.fullmatch("[0-9]{10,13}", text):
        return int(text) * (1000 if len(text) == 10 else 1)
    if text == "now":
        return int(time.time() * 1000)
    if text.startswith("-"):
        return int(time.time() * 1000) - duration_ms(text[1:])
    for form in FORMS:
        try:
            return int(time.mktime(time.strptime(text, form)) * 1000)
        except ValueError:
            continue
    raise ValueError(f"{text!r}: {MOMENTS}")


def duration_ms(text: str) -> int:
    """Milliseconds; ValueError with what is wanted."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([a-z]+)", text)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{text!r}: {DURATIONS}")
    return round(float(found[1]) * UNITS[found[2]])


MOMENT = Parsed("TIME", moment_ms)
DURATION = Parsed("DURATION", duration_ms)
