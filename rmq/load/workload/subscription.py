"""Subscription: the consumers of a group at one broker, in one thread.

While it is paused it has no connections, because a broker closes those that ask for nothing after
two minutes. It goes on at the offsets where it stopped.

    subscription = Subscription("127.0.0.1:10911", frames, connections=2, is_timed=True)
    subscription.run(ended, going)        in a thread; pulls while `going` is set
"""

from __future__ import annotations

import socket
import threading
from collections import Counter

from cext.load.consumer import Consumer
from cext.load.template import FrameSet
from rmq.load import open_files
from rmq.load.run import connect, require_connections
from rmq.load.workload.durations import Durations

SLICE_US = 20_000  # between two looks at the events


class Subscription:
    def __init__(self, address: str, frames: FrameSet, connections: int, is_timed: bool) -> None:
        """There is one frame for each queue, which is read from its start. is_timed: latencies from
        end to end are measured.

        UnreachableError: the broker is not there. ConfigError: too many files are open."""
        self.address, self.connections = address, connections
        self._frames, self._is_timed = frames, is_timed
        self._sockets: list[socket.socket] = []
        self._consumers: list[Consumer] = []  # the last one is in use
        self._open([0] * frames.count)

    def run(self, ended: threading.Event, going: threading.Event) -> None:
        """Pulls until `ended` is set. UnreachableError: the broker closed a connection."""
        while not ended.is_set():
            if not going.is_set():
                self.close()
                going.wait()
                if not ended.is_set():
                    self._open(self._consumers[-1].next_offsets())
                continue
            consumer = self._consumers[-1]
            consumer.run(SLICE_US)
            require_connections(consumer, self.address, self.connections, "consumers")

    def _open(self, offsets: list[int]) -> None:
        self._sockets = [connect(self.address) for _ in range(self.connections)]
        ranges: list[tuple[int, int | None]] = [(offset, None) for offset in offsets]
        with open_files.explained():
            consumer = Consumer(self._frames, self._sockets, ranges, end_to_end=self._is_timed)
        self._consumers = [*self._consumers, consumer]

    def close(self) -> None:
        """Closes the connections. To be called when nothing pulls any more."""
        for each in self._sockets:
            each.close()

    # ---- what was done

    @property
    def received(self) -> int:
        return sum(consumer.stats()["messages"] for consumer in self._consumers)

    @property
    def failures(self) -> Counter[int]:
        """The numbers of failed pulls, by code."""
        found: Counter[int] = Counter()
        for consumer in self._consumers:
            found.update(consumer.stats()["failures"])
        return found

    @property
    def end_to_end(self) -> Durations:
        return Durations.of_all(consumer.end_to_end for consumer in self._consumers)
