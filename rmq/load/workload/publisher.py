"""Publisher: the producers of one broker: connections that send by one schedule, in one thread.

publisher = Publisher("127.0.0.1:10911", frames, connections=4, window=1024, rate=50_000.0)
publisher.run(sent_all, ended)        in a thread: sends until sent_all is set, then waits for the
                                      answers, or until ended is set
publisher.pace(60_000.0)              from another thread
publisher.due(time.monotonic())       the number of messages that were due until now
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from cext.load.producer import Producer
from cext.load.template import FrameSet
from rmq.load import open_files
from rmq.load.run import DRAIN_US, connect, require_connections

SLICE_US = 20_000  # between two looks at the events and the wanted pace


class Schedule(NamedTuple):
    """The schedule by which the producer sends: a new pace begins when its thread has seen it."""

    due: float  # messages of the schedules before
    since_s: float  # by the monotonic clock
    rate: float  # messages a second


class Publisher:
    def __init__(
        self, address: str, frames: FrameSet, connections: int, window: int, rate: float
    ) -> None:
        """UnreachableError: the broker is not there. ConfigError: too many files are open."""
        self.address, self.connections = address, connections
        self._sockets = [connect(address) for _ in range(connections)]
        with open_files.explained():
            self.producer = Producer(frames, self._sockets, window, rate)
        self.overdue = self.unanswered = 0  # counted at the end of run()
        self._wanted = rate
        self._schedule = Schedule(0.0, float("inf"), rate)

    def pace(self, rate: float) -> None:
        self._wanted = rate

    def due(self, now_s: float) -> float:
        """The number of messages due since the start, whether or not they were sent."""
        schedule = self._schedule
        return schedule.due + schedule.rate * max(0.0, now_s - schedule.since_s)

    def run(self, sent_all: threading.Event, ended: threading.Event) -> None:
        """Sends until `sent_all` is set; then waits some seconds for open requests, or until
        `ended` is set. UnreachableError: the broker closed a connection."""
        self._begin(self._schedule.rate)
        while not sent_all.is_set():
            self.producer.run(SLICE_US)
            require_connections(self.producer, self.address, self.connections, "producers")
            if self._schedule.rate != self._wanted:
                rate = self._wanted
                self.producer.pace(rate)
                self._begin(rate)
        overdue = self.producer.stats()["overdue"]
        # A smaller number may just have come due since the last look, and does not count.
        self.overdue = overdue if overdue > self._schedule.rate * SLICE_US / 1e6 else 0
        until = time.monotonic() + DRAIN_US / 1e6
        while (left := self.producer.finish(SLICE_US)) and not ended.is_set():
            if time.monotonic() >= until:
                break
        self.unanswered = left
        self.producer.give_up()

    def close(self) -> None:
        """Closes the connections. To be called once the thread has ended."""
        for each in self._sockets:
            each.close()

    def _begin(self, rate: float) -> None:
        now = time.monotonic()
        self._schedule = Schedule(self.due(now), now, rate)
