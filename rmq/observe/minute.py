"""Minute: what topics took and gave a second, over the last minute, for whoever shows rates.

    minute = Minute()
    rates = minute.rates(sample)            at each look; it is compared with one a minute older
    rates.stored["orders"]                  (messages a second, bytes a second)
    rates.delivered["billing", "orders"]    the same, of what this group got of the topic

Prometheus makes rates out of counters itself; this is for names whose values are rates already
(exporter_metrics.py). Nothing is counted for it between two looks: samples are kept, one of every
STEP_MS at most. The first look is compared with the start of the process, one that comes more
than a minute after the one before with that.

Example: looks at 0, 15, 30, 45, 60 and 75 s: the last one is compared with that at 15 s.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

import msgspec

from rmq.observe.sample import Sample

WINDOW_MS = 60_000
STEP_MS = 15_000

Rate = tuple[float, float]  # messages, bytes
Key = TypeVar("Key", str, tuple[str, str])


class Rates(msgspec.Struct, frozen=True):
    """A second, of one shard."""

    stored: dict[str, Rate]  # by topic
    delivered: dict[tuple[str, str], Rate]  # by group and topic


class Minute:
    """Of several shards. Owned by one thread."""

    def __init__(self) -> None:
        self._kept: dict[int, deque[Sample]] = {}  # by shard, the oldest first

    def rates(self, sample: Sample) -> Rates:
        """Up to this sample, which is taken note of."""
        kept = self._kept.setdefault(sample.shard, deque())
        if kept and (kept[-1].pid != sample.pid or kept[-1].uptime_ms > sample.uptime_ms):
            kept.clear()  # of the process before
        while len(kept) > 1 and kept[1].uptime_ms <= sample.uptime_ms - WINDOW_MS:
            kept.popleft()
        found = _between(kept[0] if kept else Sample(), sample)
        newest = kept[-1].uptime_ms if kept else -STEP_MS
        if sample.state != "standing" and sample.uptime_ms - newest >= STEP_MS:
            kept.append(_slim(sample))
        return found


def _slim(sample: Sample) -> Sample:
    return Sample(
        pid=sample.pid, uptime_ms=sample.uptime_ms, topics=sample.topics,
        deliveries=sample.deliveries,
    )  # fmt: skip


def _between(earlier: Sample, later: Sample) -> Rates:
    seconds = (later.uptime_ms - earlier.uptime_ms) / 1000
    return Rates(
        _growth(_stored(earlier), _stored(later), seconds),
        _growth(_delivered(earlier), _delivered(later), seconds),
    )


def _stored(sample: Sample) -> dict[str, tuple[int, int]]:
    return {each.name: (each.messages_in, each.bytes_in) for each in sample.topics}


def _delivered(sample: Sample) -> dict[tuple[str, str], tuple[int, int]]:
    return {(each.group, each.topic): (each.messages, each.bytes) for each in sample.deliveries}


def _growth(
    earlier: dict[Key, tuple[int, int]], later: dict[Key, tuple[int, int]], seconds: float
) -> dict[Key, Rate]:
    """A topic that was deleted and made anew counts from 0 again: never less than 0."""
    found = {}
    for key, (messages, size) in later.items():
        messages_before, size_before = earlier.get(key, (0, 0))
        if seconds > 0:
            found[key] = (
                max(0, messages - messages_before) / seconds,
                max(0, size - size_before) / seconds,
            )
        else:
            found[key] = (0.0, 0.0)
    return found
