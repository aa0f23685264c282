"""Failover grace: tries that do not count while the only broker of a topic changes its master.

    grace = FailoverGrace(targets, until_ms)
    grace.lasts(target, error)          # True: try again after PAUSE_MS, with as many tries left
    grace.waited(target, error)         # the same, and the pause is over

RocketMQ's client has made all its tries before a replica could be elected.

Example: the only master is killed. The first try fails at once. Its successor is in the routes
0.03 s later, and takes messages 0.2 s after that; the send ends well then, with its tries left.
"""

from __future__ import annotations

from cext.client.sender import Target, monotonic_ms
from rmq.base import waits
from rmq.client.producer.targets import Targets
from rmq.codes import ResponseCode
from rmq.errors import RemoteError, RequestTimeoutError, UnreachableError

GRACE_MS = 1000.0
PAUSE_MS = 30.0
NOT_ENOUGH = "in-sync replicas not enough"  # RocketMQ's words, with code 1


def is_momentary(error: Exception) -> bool:
    """Of a broker that has ended, is no master, or has just become one and lacks its replicas."""
    if isinstance(error, RemoteError):
        return error.code == ResponseCode.SERVICE_NOT_AVAILABLE or NOT_ENOUGH in error.remark
    return isinstance(error, UnreachableError) and not isinstance(error, RequestTimeoutError)


class FailoverGrace:
    """Of one send, GRACE_MS from its first such failure on."""

    def __init__(self, targets: Targets, until_ms: float) -> None:
        """until_ms: of the send, by monotonic_ms()."""
        self._targets = targets
        self._until_ms = until_ms
        self._end_ms: float | None = None

    def lasts(self, failed: Target, error: Exception) -> bool:
        """Whether the broker is away for the moment, or no master, and the only one of its topic,
        and has not been so for too long, nor would be after a pause."""
        if not is_momentary(error) or self._targets.has_other_name(failed):
            return False
        now_ms = monotonic_ms()
        if self._end_ms is None:
            self._end_ms = min(now_ms + GRACE_MS, self._until_ms)
        return now_ms + PAUSE_MS < self._end_ms

    def waited(self, failed: Target, error: Exception) -> bool:
        if not self.lasts(failed, error):
            return False
        waits.sleep(PAUSE_MS / 1000)
        return True
