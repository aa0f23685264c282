"""Missing topics: retry topics that no name server knows yet, and when they are looked for again.

A broker makes a group's retry topic when the first member tells of the group, so it is there a
moment later; where a broker makes none, looking for it goes on, ever less often. What counts is how
long it is missing, not how often it was looked for: a share is taken anew for many reasons.

Example: missing for 0 s, it is looked for after 1 s; missing for 3 s, after 3 s more.
"""

from collections.abc import Container

from rmq.base import clock

FIRST_MS, LONGEST_MS = 1_000, 20_000


class MissingTopics:
    """Owned by one thread at a time."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # clock.monotonic()

    def pause_ms(self, topic: str) -> int:
        """It is missing."""
        now = clock.monotonic()
        missing_ms = int((now - self._since.setdefault(topic, now)) * 1000)
        return min(max(missing_ms, FIRST_MS), LONGEST_MS)

    def found(self, topic: str) -> None:
        self._since.pop(topic, None)

    def keep(self, topics: Container[str]) -> None:
        """Others are not looked for any more."""
        self._since = {topic: since for topic, since in self._since.items() if topic in topics}
