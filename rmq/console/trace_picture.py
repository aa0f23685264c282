"""Trace picture: the traces of a message as a time line.

It has a lane for the sender, one for the broker that stores the message, and one for each group
that consumed it.

    picture = TracePicture(traces, "broker-a", stored_ms)
    picture.lanes[2].bars       [Bar(x=310.0, width=41.5, kind="consumed", label="", words=..)]
    picture.ticks               [Tick(0.0, "0 ms"), Tick(97.1, "3 ms"), ..]
    picture.words               the same in words

A message is sent in a millisecond and perhaps consumed after an hour. So the width of a wait grows
with the logarithm of its length: a longer wait is wider, and none is too small to be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from rmq.client.blocking.trace import Traced
from rmq.operations.texts import counted, span, time_text
from rmq.operations.times import LAST_MS

WIDTH = 560.0  # of the time line
ROW, BAR = 26, 14  # heights
NAMES = 210  # the room for names of lanes, left of the time line
EDGE = 50  # the room right of it, for the last tick's text
BAR_MIN = 4.0
TICK_GAP = 70.0  # at least, between two texts
LANES_MAX = 16
BARS_MAX = 128  # of all lanes
RETRIES_MAX = 9999  # the greatest number of retries that is shown
GROUP_MAX = 255  # characters; clients may write anything into a trace
STATE_MAX = 64
NAME_MAX = 28  # characters of a lane's name for which there is room


_ORDER = {"sent": 0, "stored": 1}  # the order of events with the same time


class _Event(msgspec.Struct):
    """Something that began and perhaps ended. `kind`: sent, stored, consumed, failed, open."""

    lane: str
    begin_ms: int
    end_ms: int
    kind: str
    what: str
    retries: int = 0


class Bar(msgspec.Struct):
    x: float
    width: float
    kind: str
    label: str  # a short text above the bar: the number of a retry, or a cross for a failure
    words: str


class Lane(msgspec.Struct):
    name: str
    y: int  # its upper edge
    bars: list[Bar]

    @property
    def short_name(self) -> str:
        return self.name if len(self.name) <= NAME_MAX else self.name[: NAME_MAX - 1] + "…"


class Tick(msgspec.Struct):
    x: float
    text: str


class TracePicture:
    def __init__(self, traces: Sequence[Traced], broker: str, stored_ms: int) -> None:
        """broker: where the message is stored, since `stored_ms`."""
        events = [*map(_event, traces)]
        events.append(_Event(f"stored on {broker}", stored_ms, stored_ms, "stored", "stored"))
        events.sort(key=lambda each: (each.begin_ms, _ORDER.get(each.kind, 2), each.end_ms))
        self.begin_ms = events[0].begin_ms
        chosen = events[:BARS_MAX]
        names = _lanes(chosen)
        self._places = _places({at for each in chosen for at in (each.begin_ms, each.end_ms)})
        self.lanes = [Lane(name, ROW * (1 + at), []) for at, name in enumerate(names[:LANES_MAX])]
        by_name = {lane.name: lane for lane in self.lanes}
        shown = [each for each in chosen if each.lane in by_name]
        for each in shown:
            by_name[each.lane].bars.append(self._bar(each))
        self.left_out = len(events) - len(shown)  # events that only the table shows
        self.words = "; ".join(map(self._words, shown))
        if self.left_out:
            self.words += f"; and {counted(self.left_out, 'more event')}"

    @property
    def begin_text(self) -> str:
        return time_text(self.begin_ms) or "an unknown time"

    @property
    def width(self) -> float:
        return NAMES + WIDTH + EDGE

    @property
    def height(self) -> int:
        return ROW * (1 + len(self.lanes)) + BAR

    @property
    def ticks(self) -> list[Tick]:
        """Times since the first event, where there is room for their texts."""
        found: list[Tick] = []
        for ms, x in self._places.items():
            if not found or x - found[-1].x >= TICK_GAP:
                found.append(Tick(x, wait_text(ms - self.begin_ms)))
        return found

    def _bar(self, event: _Event) -> Bar:
        x = self._places[event.begin_ms]
        width = max(self._places[event.end_ms] - x, BAR_MIN)
        retry = str(event.retries) if event.retries > 0 else ""
        cross = "✕" if event.kind == "failed" else ""
        return Bar(round(x, 1), round(width, 1), event.kind, retry + cross, self._words(event))

    def _words(self, event: _Event) -> str:
        after = wait_text(event.begin_ms - self.begin_ms)
        took = event.end_ms - event.begin_ms
        parts = [f"{event.lane}: {event.what}", f"after {after}"]
        if took:
            parts.append(f"took {wait_text(took)}")
        if event.retries > 0:
            parts.append(f"retry {event.retries}")
        return ", ".join(parts)


def wait_text(ms: int) -> str:
    """A wait as text: 12 ms, 1.5 s, 3h 4m."""
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else str(span(ms / 1000))


def _event(traced: Traced) -> _Event:
    record = traced.record
    took = min(max(record.cost_ms, 0), LAST_MS)
    at = min(record.time_ms if record.time_ms >= 0 else traced.stored_ms, LAST_MS)
    # A SubAfter whose SubBefore was found has the number of retries, and the time of the SubBefore.
    # Without its SubBefore it has only the time at which it was written, which is the end.
    if record.kind == "SubAfter" and record.retries < 0:
        at -= took
    does = "consumes" if record.kind.startswith("Sub") else "sends"
    lane = f"{record.group[:GROUP_MAX] or 'somebody'} {does}"
    kind, what = _outcome(traced)
    return _Event(lane, at, at + took, kind, what, min(max(record.retries, 0), RETRIES_MAX))


def _outcome(traced: Traced) -> tuple[str, str]:
    """The kind by which an event is drawn, and its text."""
    record = traced.record
    if record.kind == "SubBefore":
        return "open", "began, no end is known"
    if record.kind == "EndTransaction":
        state = record.transaction_state[:STATE_MAX] or "unknown"
        return "sent", f"transaction ended, {state}"
    if record.success is False:
        doing = {"SubAfter": "consumed", "Recall": "recalled"}.get(record.kind, "sent")
        return "failed", f"not {doing}{f', {record.code[:STATE_MAX]}' if record.code else ''}"
    return {"SubAfter": ("consumed", "consumed"), "Recall": ("sent", "recalled")}.get(
        record.kind, ("sent", "sent")
    )


def _lanes(events: Iterable[_Event]) -> list[str]:
    """The lanes in the order in which they begin. The sender is always above the broker, whatever
    the clocks of the two say."""
    names = dict.fromkeys(each.lane for each in events)
    first = {each.lane for each in events if each.lane.endswith(" sends")}
    stored = {each.lane for each in events if each.kind == "stored"}
    return sorted(names, key=lambda name: (name not in first, name not in stored))


def _places(moments: set[int]) -> dict[int, float]:
    """Time -> its place on the time line, in order."""
    ordered = sorted(moments)
    room = [math.log2(1 + after - before) for before, after in pairwise(ordered)]
    total, found, x = sum(room) or 1.0, {ordered[0]: 0.0}, 0.0
    for moment, part in zip(ordered[1:], room, strict=True):
        x += WIDTH * part / total
        found[moment] = round(x, 1)
    return found
