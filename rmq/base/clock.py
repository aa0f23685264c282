"""Clock: the wall clock in the unit of RocketMQ's files and frames."""

from rmq import clock


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(clock.wall() * 1000)
