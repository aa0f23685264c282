"""ConsumeStats: how fast a consumer pulls and consumes (ConsumeStatus of its running info).

    stats.pulled(topic, 32, 1.5); stats.consumed(topic, 31, 1, 0.8); stats.members(topic)

Rates are those of the last minute, from samples taken every ten seconds. Failures are counted over
the last hour.
"""

from __future__ import annotations

import threading
from collections import deque

from rmq.base import clock

SAMPLE_MS = 10_000
SAMPLES, FAILED_S = 7, 3_600.0


class _Topic:
    def __init__(self) -> None:
        self.pulls = self.pulled = self.calls = self.good = self.failed = 0
        self.pull_ms = self.call_ms = 0.0

    def sample(self) -> tuple[float, ...]:
        return (clock.monotonic(), self.pulls, self.pull_ms, self.pulled, self.calls, self.call_ms,
                self.good, self.failed)  # fmt: skip


class ConsumeStats:
    """The counts by topic; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._samples: dict[str, deque[tuple[float, ...]]] = {}
        self._failures: dict[str, deque[tuple[float, int]]] = {}

    def _of(self, topic: str) -> _Topic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic()
            self._samples[topic] = deque([found.sample()], SAMPLES)
            self._failures[topic] = deque()
        return found

    def pulled(self, topic: str, count: int, ms: float) -> None:
        with self._lock:
            found = self._of(topic)
            found.pulls += 1
            found.pulled += count
            found.pull_ms += ms

    def consumed(self, topic: str, good: int, failed: int, ms: float) -> None:
        with self._lock:
            found = self._of(topic)
            found.calls += 1
            found.good += good
            found.call_ms += ms
            if failed:
                found.failed += failed

    def sample(self) -> None:
        """Takes a sample; must be called every SAMPLE_MS."""
        now = clock.monotonic()
        with self._lock:
            for topic, found in self._topics.items():
                samples, failures = self._samples[topic], self._failures[topic]
                new = found.failed - int(samples[-1][-1])
                if new:
                    failures.append((now, new))
                while failures and failures[0][0] < now - FAILED_S:
                    failures.popleft()
                samples.append(found.sample())

    def members(self, topic: str) -> dict[str, float]:
        """The fields of ConsumeStatus for this topic."""
        with self._lock:
            found = self._of(topic)
            then, now = self._samples[topic][0], found.sample()
            seconds, pulls, pull_ms, pulled, calls, call_ms, good, failed = (
                b - a for a, b in zip(then, now, strict=True)
            )
            seconds = max(seconds, 0.001)
            recent = now[-1] - self._samples[topic][-1][-1]
            return {
                "pullRT": pull_ms / pulls if pulls else 0.0, "pullTPS": pulled / seconds,
                "consumeRT": call_ms / calls if calls else 0.0, "consumeOKTPS": good / seconds,
                "consumeFailedTPS": failed / seconds,
                "consumeFailedMsgs": int(recent)
                + sum(count for _, count in self._failures[topic]),
            }  # fmt: skip
