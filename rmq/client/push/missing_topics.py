"""MissingTopics: retry topics that no name server knows yet, and when to look for them again.

A broker makes a group's retry topic on the first heartbeat of a member, so as a rule the topic is
there a moment later. If a broker makes none, the topic is looked for again and again, with longer
and longer pauses. The pause depends on how long the topic has been missing, not on how often it was
looked for, because queues are shared out again for many reasons.

Example: a topic that is missing for 0 s is looked for after 1 s; one that is missing for 3 s, after
3 s more.
"""

from collections.abc import Container

from rmq.base import clock

FIRST_MS, LONGEST_MS = 1_000, 20_000


class MissingTopics:
    """The missing topics of one consumer; used by one thread at a time."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # clock.monotonic()

    def pause_ms(self, topic: str) -> int:
        """Notes that the topic is missing, and returns after how long to look for it again."""
        now = clock.monotonic()
        missing_ms = int((now - self._since.setdefault(topic, now)) * 1000)
        return min(max(missing_ms, FIRST_MS), LONGEST_MS)

    def found(self, topic: str) -> None:
        self._since.pop(topic, None)

    def keep(self, topics: Container[str]) -> None:
        """Forgets all topics but these."""
        self._since = {topic: since for topic, since in self._since.items() if topic in topics}
