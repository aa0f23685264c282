"""Write stops: why sends are refused just now, by who wants it so.

    stops.stop("disk", b"the disk is full")      sends are refused, with this reason
    stops.stop("shard", b"it is taken off")      still with the first one
    stops.resume("disk")                         refused with the second one
    stops.resume("shard")                        taken again

The core knows one flag and one reason. Who set it by himself would take sends again for another one
who still has a reason.
"""

from rmq.broker.core_seam import RetentionCalls


class WriteStops:
    """Owned by the control thread."""

    def __init__(self, core: RetentionCalls) -> None:
        self._core = core
        self._reasons: dict[str, bytes] = {}  # the oldest first

    def stop(self, who: str, reason: bytes) -> None:
        """Sends are refused until resume() of the same one."""
        if self._reasons.get(who) != reason:
            self._reasons[who] = reason
            self._tell()

    def resume(self, who: str) -> None:
        if self._reasons.pop(who, None) is not None:
            self._tell()

    def _tell(self) -> None:
        reason = next(iter(self._reasons.values()), b"")
        self._core.set_writable(int(not self._reasons), reason)
