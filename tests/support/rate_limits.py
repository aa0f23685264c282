"""Rate limits: makes the RateLimitedLogs of this process forget what earlier tests have logged.

    watch()         # once, at the beginning
    forget()        # after each test, and when a driven clock ends

Modules keep such logs for the whole process. A line of one test would suppress the same line in the
next one for ten seconds, or for hours if the first test has driven its clock that far ahead.
"""

from __future__ import annotations

import functools
from typing import Any

from rmq.base.rate_limited_log import RateLimitedLog

_used: set[RateLimitedLog] = set()  # logs that were used since forget()


def watch() -> None:
    log = RateLimitedLog.log

    @functools.wraps(log)
    def kept(self: RateLimitedLog, *values: Any, **more: Any) -> None:
        _used.add(self)
        log(self, *values, **more)

    RateLimitedLog.log = kept  # type: ignore[method-assign]


def forget() -> None:
    while _used:
        _used.pop()._last.clear()
