"""DataVersion: how name servers and slaves see that a table has changed.

    {"counter":7,"stateVersion":0,"timestamp":1763726400000}

counter goes up with each change, timestamp (ms) is the time of the last change or of the start.
Example: a broker registers with counter 7, a topic is created, it registers again with counter 8;
the name server compares the two objects and takes the new table.
"""

from collections.abc import Mapping
from typing import Any

from rmq.base.clock import now_ms


class DataVersion:
    """The version of one table. Owned by the table."""

    __slots__ = ("counter", "state_version", "timestamp_ms")

    def __init__(
        self, counter: int = 0, timestamp_ms: int | None = None, state_version: int = 0
    ) -> None:
        self.counter = counter
        self.timestamp_ms = now_ms() if timestamp_ms is None else timestamp_ms
        self.state_version = state_version

    def advance(self) -> None:
        self.counter += 1
        self.timestamp_ms = now_ms()

    def members(self) -> dict[str, int]:
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }

    @property
    def key(self) -> tuple[int, int, int]:
        """The numbers by which two versions are compared."""
        return self.counter, self.timestamp_ms, self.state_version

    @classmethod
    def of(cls, members: Any) -> "DataVersion":
        """Reads JSON; a member that is missing or has a wrong type starts anew."""
        if not isinstance(members, Mapping):
            return cls()
        return cls(
            _whole(members.get("counter"), 0),
            _whole(members.get("timestamp"), now_ms()),
            _whole(members.get("stateVersion"), 0),
        )


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
