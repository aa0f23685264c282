"""Spark line: a history as a small line: points for an SVG, and the same in words.

line = SparkLine([(12.0, 40), (8.0, 60), (4.0, 20)])    seconds ago, value
line.points                                             "0.0,8.0 60.0,1.0 120.0,15.0"
line.words                                              "40 8 s before, 20 at last, 60 at most"
"""

from __future__ import annotations

from collections.abc import Sequence

from rmq.operations.texts import span

WIDTH, HEIGHT, EDGE = 120, 22, 1  # of the SVG


class SparkLine:
    def __init__(self, history: Sequence[tuple[float, int]]) -> None:
        self._history = history

    @property
    def is_known(self) -> bool:
        return len(self._history) > 1

    @property
    def points(self) -> str:
        """The points of the SVG: the first at the left edge, the last at the right one, and zero at
        the bottom."""
        first, last = self._history[0][0], self._history[-1][0]
        most = max(1, *(value for _, value in self._history))
        seconds = max(first - last, 0.001)
        found = []
        for ago, value in self._history:
            across = WIDTH * (first - ago) / seconds
            down = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * value / most
            found.append(f"{across:.1f},{down:.1f}")
        return " ".join(found)

    @property
    def words(self) -> str:
        first, last = self._history[0], self._history[-1]
        most = max(value for _, value in self._history)
        return (
            f"{first[1]:,} {span(first[0] - last[0])} before, {last[1]:,} at last, {most:,} at most"
        )
