"""Rate-limited log: at most one line per key and interval, for lines that clients can cause freely.

Example: 1,000 pulls of an unknown topic within 10 s give one line, and the first one after that
gives a second line that ends in "(999 more like it since)".
"""

import logging
from collections.abc import Mapping

from rmq.base import clock

KEYS_MAX = 1024


class RateLimitedLog:
    """A logger with a memory. Owned by one thread."""

    def __init__(self, logger: logging.Logger, interval_s: float = 10.0) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._last: dict[str, list[float]] = {}  # key -> [time of the last line, lines held back]

    def warning(self, key: str, text: str, *values: object) -> None:
        self.log(logging.WARNING, key, text, *values)

    def holds_back(self, key: str) -> bool:
        """Whether a line of this key would be held back now; it is counted then. For callers whose
        line is costly to make."""
        entry = self._last.get(key)
        if entry is None or clock.monotonic() - entry[0] >= self._interval_s:
            return False
        entry[1] += 1
        return True

    def log(
        self,
        level: int,
        key: str,
        text: str,
        *values: object,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        if self.holds_back(key):
            return
        entry = self._last.get(key)
        if entry is None and len(self._last) >= KEYS_MAX:
            self._last.clear()
        held_back = int(entry[1]) if entry is not None else 0
        self._last[key] = [clock.monotonic(), 0]
        if held_back:
            text += " (%d more like it since)"
            values = (*values, held_back)
        self._logger.log(level, text, *values, extra=extra)
