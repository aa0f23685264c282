"""What the RateLimitedLogs of this process have said: no test is to know of those before it.

    watch()         # once, in the beginning
    forget()        # after each test, and where a driven clock ends

Modules have such logs of their own. What one test had said the next one could not have said within
ten seconds; and a clock that a test has driven for hours is ahead of the next one's for as long.
"""

from __future__ import annotations

import functools
from typing import Any

from rmq.base.rate_limited_log import RateLimitedLog

_used: set[RateLimitedLog] = set()  # since all was forgotten


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
