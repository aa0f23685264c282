"""Publisher: the producers of one broker: connections that send by one schedule, in one thread.

publisher = Publisher("127.0.0.1:10911", frames, connections=4, window=1024, rate=50_000.0)
publisher.run(ended)          in a thread, until `ended` is set
publisher.pace(60_000.0)      from another
"""

from __future__ import annotations

import threading

from cext.load.producer import Producer
from cext.load.template import FrameSet
from rmq.errors import UnreachableError
from rmq.load.run import DRAIN_US, connect

SLICE_US = 20_000  # between two looks at what is wanted


class Publisher:
    def __init__(
        self, address: str, frames: FrameSet, connections: int, window: int, rate: float
    ) -> None:
        """UnreachableError: it is not there."""
        self.address, self.connections = address, connections
        self.producer = Producer(
            frames, [connect(address) for _ in range(connections)], window, rate
        )
        self.overdue = self.unanswered = 0  # when it ended
        self._rate = self._wanted = rate

    def pace(self, rate: float) -> None:
        self._wanted = rate

    def run(self, ended: threading.Event) -> None:
        """What is open is waited for at the end, some seconds. UnreachableError: the broker closed
        a connection."""
        while not ended.is_set():
            self.producer.run(SLICE_US)
            alive = self.producer.stats()["live_connections"]
            if alive < self.connections:
                raise UnreachableError(
                    f"{self.address} closed the connections of {self.connections - alive} "
                    f"of {self.connections} producers"
                )
            if self._rate != self._wanted:
                self._rate = self._wanted
                self.producer.pace(self._rate)
        self.overdue = self.producer.stats()["overdue"]
        self.unanswered = self.producer.finish(DRAIN_US)
