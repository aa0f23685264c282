"""Write stops: the reasons why sends are refused now, each with the name of the part that set it.

    stops.stop("disk", b"the disk is full")      sends are refused, with this reason
    stops.stop("shard", b"it is taken off")      still refused with the first reason
    stops.resume("disk")                         refused with the second reason
    stops.resume("shard")                        sends are taken again

The core has one flag and one reason. If each part set them itself, one part would allow sends again
while another still has a reason against them.
"""

from rmq.broker.core_seam import RetentionCalls


class WriteStops:
    """Owned by the control thread."""

    def __init__(self, core: RetentionCalls) -> None:
        self._core = core
        self._reasons: dict[str, bytes] = {}  # name -> reason, the oldest first

    def stop(self, who: str, reason: bytes) -> None:
        """Refuses sends until resume() with the same name."""
        if self._reasons.get(who) != reason:
            self._reasons[who] = reason
            self._tell()

    def resume(self, who: str) -> None:
        if self._reasons.pop(who, None) is not None:
            self._tell()

    def _tell(self) -> None:
        reason = next(iter(self._reasons.values()), b"")
        self._core.set_writable(int(not self._reasons), reason)
