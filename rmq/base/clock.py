"""Clock: the wall clock in the unit of RocketMQ's files and frames."""

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
