"""FailoverGrace: tries that do not count while the only broker of a topic changes its master.

    grace = FailoverGrace(targets, until_ms)
    grace.lasts(target, error)          # True: try again after PAUSE_MS, with as many tries left
    grace.waited(target, error)         # the same, and the pause is over

Without this grace a send would have made all its tries before a replica can be elected, as those of
RocketMQ's client have.

Example: the only master is killed. The first try fails at once. The new master is in the routes
0.03 s later, and takes messages 0.2 s after that. The send then succeeds, with its tries left.
"""

from __future__ import annotations

from cext.client.sender import monotonic_ms
from cext.client.target import Target
from rmq.base import waits
from rmq.client.producer.targets import Targets
from rmq.codes import ResponseCode
from rmq.errors import RemoteError, RequestTimeoutError, UnreachableError

GRACE_MS = 1000.0
PAUSE_MS = 30.0
NOT_ENOUGH = "in-sync replicas not enough"  # RocketMQ's words, with code 1


def is_momentary(error: Exception) -> bool:
    """Whether the broker has ended, is no longer master, or has just become master and does not
    have its replicas yet."""
    if isinstance(error, RemoteError):
        return error.code == ResponseCode.SERVICE_NOT_AVAILABLE or NOT_ENOUGH in error.remark
    return isinstance(error, UnreachableError) and not isinstance(error, RequestTimeoutError)


class FailoverGrace:
    """The grace of one send: GRACE_MS from its first momentary failure on."""

    def __init__(self, targets: Targets, until_ms: float) -> None:
        """until_ms: when the time for the send is over, by monotonic_ms()."""
        self._targets = targets
        self._until_ms = until_ms
        self._end_ms: float | None = None

    def lasts(self, failed: Target, error: Exception) -> bool:
        """Whether to try the same broker again after a pause: its failure is momentary, no other
        broker has the topic, and the grace will not be over after the pause."""
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
