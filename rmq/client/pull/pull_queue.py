"""PullQueue: one queue that a pull consumer reads: messages pulled ahead, and how far the user is.

    committed <= done <= position <= pull_offset
        committed     the offset that was committed last
        done          position at the last call of poll: messages before it are surely consumed
        position      the next message that poll returns
        pull_offset   the next message that is pulled; None: not known yet where to begin

The lock of the consumer's Puller guards all of it. `life` grows when the queue goes on at another
offset (seek), so that answers to older pulls are recognised and left out.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from cext.client.message import MessageExt
from rmq.client.consumer.subscription import Subscription
from rmq.format.fastjson import MessageQueue


class PullQueue:
    """The state of one queue; no I/O."""

    def __init__(self, queue: MessageQueue, wire_topic: str, subscription: Subscription) -> None:
        self.queue = queue  # as the user names it
        self.wire_topic = wire_topic
        self.subscription = subscription
        self.pull_offset: int | None = None
        self.position = -1
        self.done = -1
        self.committed = -1
        self.start: int | None = None  # where it begins, until something is committed
        self.taker: str | None = None  # address of the master that took the last commit
        self.life = 0
        self.pulling = False
        self.paused = False
        self.dropped = False
        self.listed = False  # whether it is in the puller's list of queues with messages
        self.count = 0
        self.size = 0  # bytes of bodies, of all pulls whose messages are not all taken
        self._pulls: deque[tuple[list[MessageExt], int]] = deque()  # (messages, bytes) of a pull
        self._taken = 0  # messages taken of the first pull

    @property
    def wire(self) -> MessageQueue:
        """The queue with its topic's name on the wire."""
        return self.queue._replace(topic=self.wire_topic)

    def members(self) -> dict[str, Any]:
        """The fields of ProcessQueueInfo in a consumer's running info."""
        some = self.count > 0
        return {
            "commitOffset": self.committed, "cachedMsgMinOffset": self.position if some else 0,
            "cachedMsgMaxOffset": (self.pull_offset or 1) - 1 if some else 0,
            "cachedMsgCount": self.count, "cachedMsgSizeInMiB": self.size >> 20,
            "droped": self.dropped,
        }  # fmt: skip

    def begin(self, offset: int) -> None:
        """Goes on at this offset, and forgets what was pulled ahead."""
        self._forget()
        self.pull_offset = self.position = self.done = offset
        if self.start is not None:
            self.start = offset

    def step_back(self, end: int) -> None:
        """Goes on in a queue that ends before what was pulled of it. It goes on where the user is,
        because the messages held here may differ from those that the broker has."""
        self._forget()
        self.pull_offset = self.position = min(self.position, end)
        self.done = min(self.done, end)
        if self.start is not None:
            self.start = min(self.start, end)

    def _forget(self) -> None:
        self.life += 1
        self.pulling = False
        self._pulls.clear()
        self._taken = self.count = self.size = 0

    def add(self, messages: list[MessageExt], following: int) -> None:
        """Takes the messages of a pull, and where the next pull begins."""
        self.pull_offset = following
        if messages:
            size = sum([each.stored_body_bytes for each in messages])
            self._pulls.append((messages, size))
            self.count += len(messages)
            self.size += size
        elif not self.count:  # no message that the subscription wants
            if self.done == self.position:
                self.done = following
            self.position = following

    def take(self, most: int, out: list[MessageExt]) -> None:
        """Moves up to `most` messages, in order, to the end of `out`."""
        while most > 0 and self._pulls:
            pulled, size = self._pulls[0]
            if self._taken == 0 and len(pulled) <= most:
                part = pulled
            else:
                part = pulled[self._taken : self._taken + most]
            self._taken += len(part)
            if self._taken == len(pulled):
                self._pulls.popleft()
                self._taken = 0
                self.size -= size
            out += part
            most -= len(part)
            self.count -= len(part)
            self.position = part[-1].queue_offset + 1
        if not self._pulls and self.pull_offset is not None:
            self.position = self.pull_offset

    def is_full(self, count: int, size: int, span: int) -> bool:
        """Whether the queue holds as much as may be pulled ahead."""
        return (
            self.count >= count
            or self.size >= size
            or (self.count > 0 and self.pull_offset is not None
                and self.pull_offset - self.position > span)
        )  # fmt: skip
