"""History: how far groups were behind in the last minutes, as this console saw it.

    history.note(("billing", "orders"), 120)
    history.of(("billing", "orders"))         [(seconds ago, 120), ..], the oldest first

It is kept in memory: POINTS points for each key, at most one in GAP_S. When there are more than
KEYS_MAX keys, the one that was noted least recently is forgotten.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Hashable

from rmq.base import clock

POINTS = 180
GAP_S = 4.0
KEYS_MAX = 4096


class History:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: OrderedDict[Hashable, array[float]] = OrderedDict()  # time, value, time, ..

    def note(self, key: Hashable, value: int) -> None:
        now = clock.monotonic()
        with self._lock:
            points = self._points.get(key)
            if points is None:
                points = self._points[key] = array("d")
                if len(self._points) > KEYS_MAX:
                    self._points.popitem(last=False)
            if points and now - points[-2] < GAP_S:
                return
            self._points.move_to_end(key)
            points.extend((now, value))
            del points[: max(0, len(points) - 2 * POINTS)]

    def of(self, key: Hashable) -> list[tuple[float, int]]:
        now = clock.monotonic()
        with self._lock:
            points = self._points.get(key, array("d"))
            return [(now - points[at], int(points[at + 1])) for at in range(0, len(points), 2)]
