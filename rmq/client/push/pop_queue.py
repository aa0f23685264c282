"""PopQueue: a queue that a push consumer pops from, or all queues of a topic at one broker.

The broker keeps the messages that were popped and not acknowledged; here they are only counted. No
I/O.
"""

from __future__ import annotations

import threading
from typing import Any

from rmq.base import clock
from rmq.client.consumer.subscription import Subscription
from rmq.client.pop.request import Target
from rmq.format.fastjson import MessageQueue


class PopQueue:
    """The state of what is popped from; any thread may use it."""

    def __init__(self, wire: MessageQueue, shown: MessageQueue, subscription: Subscription) -> None:
        self.wire = wire
        self.queue = shown  # as the user names it
        self.target = Target(wire.topic, wire.broker_name, wire.queue_id)
        self.subscription = subscription
        self.dropped = False  # nothing more is popped; messages in hand are still consumed
        self.is_unwanted = False  # those are not consumed either: the subscription has changed
        self.in_hand = 0  # messages popped and not consumed yet
        self.popped_ms = clock.now_ms()
        self._lock = threading.Lock()
        self._popping = False
        self._is_waiting = False  # for room before the next pop

    def begin(self, most: int) -> bool:
        """Begins a pop if none is under way and at most `most` messages are in hand. Returns
        whether to pop."""
        with self._lock:
            if self.dropped or self._popping:
                return False
            self._is_waiting = self.in_hand > most
            self._popping = not self._is_waiting
            if self._popping:
                self.popped_ms = clock.now_ms()
            return self._popping

    def ended(self, count: int = 0) -> None:
        """A pop has ended, and brought `count` messages."""
        with self._lock:
            self._popping = False
            self.in_hand += count

    def done(self, count: int) -> bool:
        """`count` messages are consumed, or left to others. Returns whether a pop waits for
        room."""
        with self._lock:
            self.in_hand -= count
            return self._is_waiting

    def members(self) -> dict[str, Any]:
        """The fields of PopProcessQueueInfo in a consumer's running info."""
        return {"waitAckCount": self.in_hand, "droped": self.dropped,
                "lastPopTimestamp": self.popped_ms}  # fmt: skip
